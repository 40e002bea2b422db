# SPDX-License-Identifier: Apache-2.0
"""Compares answers with a recording, and knows which differences are declared."""

import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import yaml
from deepdiff import DeepDiff

from tests.repository import ROOT
from tests.scenarios.model import FOLDER

TABLE = ROOT / "docs" / "local-differences.md"
EVERYWHERE = 0
"""In place of a number: a difference of all scenarios."""
SENTENCES = (400, 406, 415, 422, 500)
"""Codes of errors that are compared by status, reason, fields and code, not by their sentences."""
_ROW = re.compile(r"^\| (\d+|all) \| `([^`|]+)` \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Difference:
    """One place at which an answer differs from the recording."""

    path: str
    """`3.body.message`: the number of the step, then the way into the answer."""
    step: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path} ({self.step})\n  real: {self.real}\n  ours: {self.ours}"


def differences(real: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[Difference]:
    """Where the answers differ."""
    if len(real) != len(ours):
        return [Difference("steps", "all", len(real), len(ours))]
    found: list[Difference] = []
    for number, (expected, answer) in enumerate(zip(real, ours, strict=True), 1):
        assert expected["step"] == answer["step"], f"record again: {answer['step']} was {expected['step']}"
        if expected["status"] != answer["status"]:
            found.append(Difference(f"{number}.status", expected["step"], _short(expected), _short(answer)))
            continue
        tree = DeepDiff(without_sentences(expected), without_sentences(answer), view="tree", ignore_order=False)
        for changes in tree.values():
            for change in changes:
                way = ".".join(str(part) for part in change.path(output_format="list"))
                found.append(Difference(f"{number}.{way}", expected["step"], change.t1, change.t2))
    return sorted(found, key=lambda one: (int(one.path.partition(".")[0]), one.path))


def without_sentences(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the words of an error about what the client sent, as the first row of the table says."""
    body = answer.get("body")
    if answer["status"] not in SENTENCES or not isinstance(body, dict) or body.get("kind") != "Status":
        return answer
    made = {key: value for key, value in body.items() if key != "message"}
    details = made.get("details")
    if isinstance(details, dict) and details.get("causes"):
        causes = [{key: value for key, value in one.items() if key != "message"} for one in details["causes"]]
        # Which of several is found first says nothing.
        once = {json.dumps(one, sort_keys=True): one for one in causes}
        made["details"] = {**details, "causes": [once[key] for key in sorted(once)]}
    return {**answer, "body": made}


def _short(answer: dict[str, Any]) -> str:
    body = answer.get("body", answer.get("text", ""))
    return f"{answer['status']} {body.get('message', body) if isinstance(body, dict) else body}"


def declared() -> dict[int, list[str]]:
    """The declared differences: patterns of paths by the number of the scenario; those of all are under EVERYWHERE."""
    made: dict[int, list[str]] = {}
    for number, pattern, _ in _ROW.findall(TABLE.read_text()):
        made.setdefault(EVERYWHERE if number == "all" else int(number), []).append(pattern)
    return made


def open_scenarios() -> dict[int, str]:
    """Scenarios that still differ, with the reason. The list may only shrink."""
    return yaml.safe_load((FOLDER / "open.yaml").read_text()) or {}


def undeclared(found: list[Difference], patterns: list[str]) -> tuple[list[Difference], list[str]]:
    """The differences that no pattern declares, and the patterns that declare nothing."""
    known = [*patterns, *declared().get(EVERYWHERE, ())]
    rest = [one for one in found if not any(fnmatchcase(one.path, pattern) for pattern in known)]
    unused = [pattern for pattern in patterns if not any(fnmatchcase(one.path, pattern) for one in found)]
    return rest, unused
