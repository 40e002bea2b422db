# SPDX-License-Identifier: Apache-2.0
"""Cells of built-in kinds, read as the table of recorded kinds says.

A cell is a path such as `.spec.replicas`, perhaps with a function before it and, behind `|`, with the JSON of what is
shown where there is nothing. Texts with several are `{.status.ready|0}/{.spec.replicas|0}`.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from trainwright.controller.local.apiserver.views.tables.ages import UNKNOWN, since
from trainwright.controller.local.apiserver.views.tables.reading import Document, pairs, selector_text

Cell = Callable[[Document, datetime], Any]

_PART = re.compile(r"\{([^}]+)\}")


def compile_cell(text: str) -> Cell:
    """The function that reads a cell from an object, at a time."""
    if not text.startswith("{"):
        return _reader(text)
    readers = [_reader(part) for part in _PART.findall(text)]
    shape = _PART.sub("{}", text)
    return lambda document, now: shape.format(*(read(document, now) for read in readers))


def _reader(text: str) -> Cell:
    expression, _, fallback = text.partition("|")
    function, _, path = expression.rpartition(" ")
    steps = path.strip(".").split(".")
    shown = _SHOWN[function]
    missing = json.loads(fallback) if fallback else UNKNOWN if function == "age" else ""

    def read(document: Document, now: datetime) -> Any:
        found = values_at(document, steps)
        if not found or found == [None]:
            return missing
        return shown(found, now)

    return read


_SHOWN: dict[str, Callable[[list[Any], datetime], Any]] = {
    "": lambda found, _: found[0],
    "age": lambda found, now: since(found[0], now),
    "count": lambda found, _: len(found[0]),
    "join": lambda found, _: ",".join(map(str, found[0] if isinstance(found[0], list) else found)),
    "pairs": lambda found, _: pairs(found[0]),
    "selector": lambda found, _: selector_text(found[0]),
    "text": lambda found, _: str(found[0]),
}
"""The functions, of what is at the path."""


def values_at(document: Any, steps: list[str]) -> list[Any]:
    """What is at a path; `[*]` behind a step goes on in each item."""
    found = [document]
    for step in steps:
        name, each, _ = step.partition("[*]")
        found = [one[name] for one in found if isinstance(one, dict) and name in one]
        if each:
            found = [item for one in found for item in one or ()]
    return found
