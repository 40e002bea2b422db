# SPDX-License-Identifier: Apache-2.0
"""The recordings: what the real server answered, one JSON file for each file of scenarios."""

import json
from typing import Any

from tests.scenarios.model import FOLDER

_RECORDINGS = FOLDER / "recordings"


def read(section: str) -> dict[int, list[dict[str, Any]]]:
    """The answers by the number of the scenario."""
    content = json.loads((_RECORDINGS / f"{section}.json").read_text())
    return {int(number): answers for number, answers in content["scenarios"].items()}


def write(section: str, version: str, answers: dict[int, list[dict[str, Any]]]) -> None:
    """Write the answers of a file of scenarios, with the version of Kubernetes that gave them."""
    _RECORDINGS.mkdir(exist_ok=True)
    content = {"kubernetes": version, "scenarios": {str(number): answers[number] for number in sorted(answers)}}
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=False)
    (_RECORDINGS / f"{section}.json").write_text(text + "\n")
