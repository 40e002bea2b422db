# SPDX-License-Identifier: Apache-2.0
"""The recorded answers, what is compared, and the differences that are declared."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from deepdiff import DeepDiff

from tests.kubelet.model import Case
from tests.kubelet.running import Run
from tests.repository import ROOT
from trainwright.controller.runtime import Client

Document = dict[str, Any]

FOLDER = Path(__file__).with_name("recordings")
TABLE = ROOT / "docs" / "local-differences.md"
AT_ONCE = 6
ALL = "all"
HEADING = "\n## Workloads and the node\n"
_ROW = re.compile(r"^\| ([a-z][^|]*) \| `([^`|]+)` \| (.+) \|$", re.MULTILINE)


def read(area: str) -> dict[str, list[Document]]:
    """The recorded answers of a file of cases, by their names; empty if there are none."""
    file = FOLDER / f"{area}.json"
    found: dict[str, list[Document]] = json.loads(file.read_bytes())["cases"] if file.exists() else {}
    return found


def write(area: str, version: str, cases: dict[str, list[Document]]) -> None:
    """Keep recorded answers."""
    text = json.dumps({"kubernetes": version, "cases": cases}, indent=1, ensure_ascii=False, sort_keys=True)
    (FOLDER / f"{area}.json").write_text(text + "\n")


async def run_all(
    client: Client, new_namespace: Callable[[], str], cases: Sequence[Case]
) -> dict[str, list[Document] | Exception]:
    """The answers of cases by their names, or what ended them; several run at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def run(case: Case) -> list[Document] | Exception:
        async with room:
            try:
                return await Run(client, await asyncio.to_thread(new_namespace), case).run()
            except Exception as error:
                return error

    results = await asyncio.gather(*map(run, cases))
    return {case.name: result for case, result in zip(cases, results, strict=True)}


def differences(real: Sequence[Document], ours: Sequence[Document]) -> dict[str, tuple[Any, Any]]:
    """Where answers differ: both values by place, which is the number of the answer and the path into it."""
    steps = [answer["step"] for answer in real]
    assert steps == [answer["step"] for answer in ours], f"the steps have changed, record again: {steps}"
    found: dict[str, tuple[Any, Any]] = {}
    for number, (expected, answer) in enumerate(zip(real, ours, strict=True), 1):
        if "events" in expected:
            for event in sorted(set(expected["events"]) ^ set(answer["events"])):
                there = event in expected["events"]
                found[f"{number}.events.{event}"] = (event, None) if there else (None, event)
            continue
        for changes in DeepDiff(expected, answer, view="tree").values():
            for change in changes:
                way = ".".join(str(part) for part in change.path(output_format="list"))
                found[f"{number}.{way}"] = (_value(change.t1), _value(change.t2))
    return found


def _value(value: Any) -> Any:
    return None if type(value).__name__ == "NotPresent" else value


def named() -> set[str]:
    """The cases that rows of the table are about."""
    return {case for case, _, _ in _rows()}


def _rows() -> list[tuple[str, str, str]]:
    _, _, table = TABLE.read_text().partition(HEADING)
    return _ROW.findall(table)


def declared(name: str) -> list[str]:
    """The patterns of the places at which a case may differ, without those of all cases."""
    return [place for case, place, _ in _rows() if case == name]


def undeclared(name: str, found: dict[str, tuple[Any, Any]]) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """The differences that no row declares, and the rows of the case that declare none."""
    patterns = declared(name)
    known = [*patterns, *declared(ALL)]
    rest = {place: values for place, values in found.items() if not any(fnmatchcase(place, one) for one in known)}
    return rest, [one for one in patterns if not any(fnmatchcase(place, one) for place in found)]
