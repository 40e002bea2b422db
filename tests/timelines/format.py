# SPDX-License-Identifier: Apache-2.0
"""Reads timelines, and tells what is wrong with one by file and line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.lined import check, load, rows_of

FOLDER = Path(__file__).parent


@dataclass
class Step:
    """What happens at a moment, and what is there half a second later."""

    at: float
    do: Mapping[str, Any]
    expect: Mapping[str, Any]
    where: str


@dataclass
class Case:
    """One timeline."""

    name: str
    steps: list[Step]
    manager: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    """What is done before the job is created."""


@cache
def cases_of(path: Path) -> list[Case]:
    """The cases of a file. Raises CaseError."""
    whole = load(path)
    if isinstance(whole, dict) and isinstance(whole.get("cases"), list):
        whole["cases"] = [row for one in whole["cases"] for row in rows_of(one)]
    check(path, whole, FOLDER / "schema.json")
    return [_case(path, whole, one) for one in whole["cases"]]


def _case(path: Path, whole: Mapping[str, Any], case: Mapping[str, Any]) -> Case:
    steps = [
        Step(one["at"], one.get("do", {}), one.get("expect", {}), f"{path.name}:{one.line}") for one in case["steps"]
    ]
    parts = {key: _merged(whole.get(key, {}), case.get(key, {})) for key in ("manager", "job", "runtime", "first")}
    return Case(case["name"], steps, **parts)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for key, value in other.items():
        held = both.get(key)
        both[key] = _merged(held, value) if isinstance(value, Mapping) and isinstance(held, Mapping) else value
    return both
