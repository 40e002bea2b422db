# SPDX-License-Identifier: Apache-2.0
"""What the real controllers made in each scenario, as files; `record` writes them."""

import json
from pathlib import Path
from typing import TypeAlias

FOLDER = Path(__file__).parent / "recorded"
Notes: TypeAlias = dict[str, list[str]]
"""What was seen, by label: objects as indented JSON, events as lines."""


def recorded_notes(scenario: str) -> Notes:
    """What is recorded of a scenario. Raises FileNotFoundError."""
    content: dict[str, list[object]] = json.loads((FOLDER / f"{scenario}.json").read_text())
    return {label: [_text(one) for one in seen] for label, seen in content.items()}


def write_notes(scenario: str, notes: Notes) -> None:
    """Record a scenario: one object or event a line, so that changes can be read."""
    FOLDER.mkdir(exist_ok=True)
    parts = []
    for label, seen in notes.items():
        lines = ",\n".join(f"  {json.dumps(_value(one), sort_keys=True)}" for one in seen)
        parts.append(f" {json.dumps(label)}: [" + (f"\n{lines}\n ]" if seen else "]"))
    (FOLDER / f"{scenario}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _value(text: str) -> object:
    return json.loads(text) if text.startswith("{") else text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True)
