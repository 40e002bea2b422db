# SPDX-License-Identifier: Apache-2.0
"""Parts of documents in which anything may be absent, and how a table shows them: ages, labels, recorded paths."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trainwright.api.times import parse

UNKNOWN = "<unknown>"


def human_duration(duration: timedelta) -> str:
    """A duration such as `45s`, `5m12s`, `3h`, `2d4h` or `1y30d`; a negative one is `<invalid>`."""
    # Towards zero: a clock that is less than two seconds behind counts as now.
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 180:
        return _two(minutes, "m", seconds % 60 if minutes < 10 else 0, "s")
    if hours < 48:
        return _two(hours, "h", minutes % 60 if hours < 8 else 0, "m")
    if days < 365 * 2:
        return _two(days, "d", hours % 24 if days < 8 else 0, "h")
    return _two(days // 365, "y", days % 365 if days < 365 * 8 else 0, "d")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def since(timestamp: Any, now: datetime) -> str:
    """The age of a Time or MicroTime; `<unknown>` where there is none."""
    return human_duration(now - parse(timestamp)) if timestamp else UNKNOWN


Document = Mapping[str, Any]

NONE = "<none>"


def part(document: Any, *path: str) -> Document:
    """The object at a path; empty where there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if isinstance(document, Mapping) else {}


def parts(document: Document, key: str) -> Sequence[Any]:
    """The list of a field; empty where there is none."""
    found = document.get(key)
    return found if isinstance(found, list) else ()


def text(document: Document, key: str, default: str = "") -> str:
    """The string of a field; the default where there is none, or an empty one."""
    return document.get(key) or default


def condition_is_true(status: Document, kind: str) -> bool:
    """Whether the first condition of a type is True."""
    found = next((one for one in parts(status, "conditions") if one.get("type") == kind), None)
    return found is not None and found.get("status") == "True"


def pairs(labels: Document) -> str:
    """Labels as `a=1,b=2`, sorted."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def selector_text(selector: Document) -> str:
    """A LabelSelector as `a=1,b in (x,y),!c`, sorted by label."""
    terms: list[tuple[str, str]] = [(key, f"{key}={value}") for key, value in part(selector, "matchLabels").items()]
    for expression in parts(selector, "matchExpressions"):
        key, values = text(expression, "key"), ",".join(sorted(parts(expression, "values")))
        shapes = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, shapes.get(text(expression, "operator"), key)))
    return ",".join(shape for _, shape in sorted(terms, key=lambda term: term[0])) or NONE


Cell = Callable[[Document, datetime], Any]
Read = Callable[[Document], Any]
"""A cell that does not depend on the time."""

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
        if not found or found[0] in (None, ""):
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
