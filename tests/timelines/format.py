# SPDX-License-Identifier: Apache-2.0
"""Reads timelines, and tells what is wrong with one by file and line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from tests.lined import Lined, check, load

FOLDER = Path(__file__).parent
_NAME = re.compile(r"\$\{?([a-z_]+)\}?")


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
        whole["cases"] = [row for one in whole["cases"] for row in _rows(one)]
    check(path, whole, FOLDER / "schema.json")
    return [_case(path, whole, one) for one in whole["cases"]]


def _rows(case: Any) -> list[Any]:
    """The case once for each row of its table."""
    if not isinstance(case, dict) or not isinstance(case.get("with"), dict):
        return [case]
    rest = Lined({key: value for key, value in case.items() if key != "with"})
    rest.line = getattr(case, "line", 1)
    rows = [(label, _filled(rest, values)) for label, values in case["with"].items()]
    for label, row in rows:
        row["name"] = f"{row.get('name')}: {label}"
    return [row for _, row in rows]


def _case(path: Path, whole: Mapping[str, Any], case: Mapping[str, Any]) -> Case:
    steps = [
        Step(one["at"], one.get("do", {}), one.get("expect", {}), f"{path.name}:{one.line}") for one in case["steps"]
    ]
    parts = {key: _merged(whole.get(key, {}), case.get(key, {})) for key in ("manager", "job", "runtime", "first")}
    return Case(case["name"], steps, **parts)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with those of a row: a text that is a name alone is replaced by the value itself."""
    if isinstance(value, dict):
        made = Lined({_filled(key, values): _filled(one, values) for key, one in value.items()})
        made.line = getattr(value, "line", 1)
        return made
    if isinstance(value, list):
        return [_filled(one, values) for one in value]
    if isinstance(value, str) and value.startswith("$") and value[1:] in values:
        return values[value[1:]]
    if isinstance(value, str):
        return _NAME.sub(lambda found: str(values.get(found[1], found[0])), value)
    return value


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for key, value in other.items():
        held = both.get(key)
        both[key] = _merged(held, value) if isinstance(value, Mapping) and isinstance(held, Mapping) else value
    return both


def difference(wanted: Any, found: Any, path: str = "") -> str:
    """Where something is not as wanted; empty: nowhere. A text may have stars, a mapping may leave out keys."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return f"{path or '.'} is {found!r}, not {dict(wanted)!r}"
        missed = (difference(one, found.get(key), f"{path}.{key}".lstrip(".")) for key, one in wanted.items())
        return next((one for one in missed if one), "")
    if isinstance(wanted, list):
        if not isinstance(found, list | tuple) or len(found) != len(wanted):
            return f"{path or '.'} is {found!r}, not {wanted!r}"
        missed = (
            difference(one, other, f"{path}[{at}]") for at, (one, other) in enumerate(zip(wanted, found, strict=True))
        )
        return next((one for one in missed if one), "")
    if wanted == "*":
        same = found is not None
    elif isinstance(wanted, str) and isinstance(found, str):
        same = fnmatchcase(found, wanted.replace("[", "[[]")) if "*" in wanted else found == wanted
    else:
        same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    return "" if same else f"{path or '.'} is {found!r}, not {wanted!r}"
