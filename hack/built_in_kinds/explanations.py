# SPDX-License-Identifier: Apache-2.0
"""What explains what a server shows: the expression of a cell of a Table, the defaults of fields that were not said."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.schema.published.kinds import RecordedDefault
from trainwright.controller.local.apiserver.views.cells import compile_cell
from trainwright.controller.local.apiserver.views.jsonpath import compile_path

Document = dict[str, Any]

_TELL_NOTHING = ("annotations", "generation", "labels", "managedFields", "resourceVersion", "uid")
"""Fields of metadata that no cell shows."""


def cell_of(name: str, cells: list[Any], stored: list[Document]) -> str:
    """How a column is read from the objects; empty if no candidate gives what the server shows."""
    if name == "Age" and all(isinstance(cell, str) and re.fullmatch(r"\d+s", cell) for cell in cells):
        return "age .metadata.creationTimestamp"
    found_in = {*_candidates(stored), *_pairs(cells, stored)}
    candidates = sorted(found_in, key=lambda one: (one.startswith("{"), one.count("."), one))
    found = [one for expression in candidates if (one := _fallback(expression, cells, stored))]
    return max(found, key=lambda one: one[0], default=(0, ""))[1]


def _fallback(expression: str, cells: list[Any], stored: list[Document]) -> tuple[int, str] | None:
    """How many objects an expression explains, and the expression with what is shown where there is nothing."""
    now = datetime.now(UTC)
    matched, missing = 0, []
    if expression.startswith("{"):
        read = compile_cell(expression)
        good = all(read(document, now) == cell for cell, document in zip(cells, stored, strict=True))
        return (len(cells), expression) if good else None
    find = compile_path(expression.rpartition(" ")[2])
    for cell, document in zip(cells, stored, strict=True):
        found = find(document)
        if not found or found == [None]:
            missing.append(cell)
            continue
        try:
            shown: Any = compile_cell(expression)(document, now)
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
        if shown != cell or type(shown) is not type(cell):
            return None
        matched += 1
    if not matched or any(one != missing[0] or type(one) is not type(missing[0]) for one in missing):
        return None
    return matched, f"{expression}|{json.dumps(missing[0])}" if missing and missing[0] != "" else expression


def _candidates(stored: Iterable[Document]) -> Iterator[str]:
    for document in stored:
        for path, value in _all_paths(document, ""):
            if isinstance(value, dict):
                if path.count(".") > 1 or path == ".data":
                    yield from (f"{function} {path}" for function in ("count", "pairs", "selector"))
            elif isinstance(value, list):
                yield from (f"{function} {path}" for function in ("count", "join"))
            else:
                yield from (path, f"text {path}", f"age {path}")
                if "[*]" in path:
                    yield f"join {path}"


def _pairs(cells: list[Any], stored: Iterable[Document]) -> Iterator[str]:
    """Candidates of two values with a slash between."""
    if not any(isinstance(cell, str) and "/" in cell for cell in cells):
        return
    leaves = {path: value for document in stored for path, value in _all_paths(document, "") if "[" not in path}
    parts = [
        path if isinstance(value, str) else f"{path}|0" for path, value in leaves.items() if type(value) in (str, int)
    ]
    yield from (f"{{{one}}}/{{{other}}}" for one in parts for other in parts if one != other)


def _all_paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if key in _TELL_NOTHING or "." in key:
            continue
        here = f"{path}.{key}"
        yield here, inner
        if isinstance(inner, dict):
            yield from _all_paths(inner, here)
        elif isinstance(inner, list):
            for item in inner:
                if isinstance(item, dict):
                    yield from _all_paths(item, f"{here}[*]")


@dataclass(frozen=True)
class SeenField:
    """What a field was, that the request did not say."""

    value: Any
    """None if it stayed away."""
    features: dict[str, str]


def defaults_of(seen: dict[tuple[str, str], list[SeenField]]) -> dict[str, list[RecordedDefault]]:
    made: dict[str, list[RecordedDefault]] = {}
    unexplained: list[str] = []
    for (model, name), observed in sorted(seen.items()):
        values = {json.dumps(one.value, sort_keys=True) for one in observed}
        if values == {"null"}:
            continue
        if len(values) == 1:
            made.setdefault(model, []).insert(0, RecordedDefault(name, encoded(observed[0].value)))
            continue
        rule = _stump(observed)
        if rule is None:
            unexplained.append(f"{model}.{name}: {values}")
            continue
        made.setdefault(model, []).extend(RecordedDefault(name, encoded(value), when) for when, value in rule)
    if unexplained:
        raise SystemExit("defaults that nothing explains:\n" + "\n".join(unexplained))
    return made


def encoded(value: Any) -> msgspec.Raw:
    """A value as the table keeps it."""
    return msgspec.Raw(msgspec.json.encode(value))


def _stump(observed: list[SeenField]) -> list[tuple[tuple[str, str], Any]] | None:
    """The one feature that decides, with the value for each of its values."""
    found: list[tuple[tuple[Any, ...], list[tuple[tuple[str, str], Any]]]] = []
    for name in sorted({key for one in observed for key in one.features}):
        by_value: dict[str, set[str]] = {}
        for one in observed:
            by_value.setdefault(one.features.get(name, ""), set()).add(json.dumps(one.value, sort_keys=True))
        if all(len(values) == 1 for values in by_value.values()):
            rules = [((name, value), json.loads(next(iter(values)))) for value, values in sorted(by_value.items())]
            rank = (name == "@kind", name == "@field", len(rules), name)
            found.append((rank, [rule for rule in rules if rule[1] is not None]))
    return min(found)[1] if found else None
