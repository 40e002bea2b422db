# SPDX-License-Identifier: Apache-2.0
"""What becomes of a decoded document when Go writes it.

Nulls go, and so do zero values and empty lists of optional fields that are no pointers; structs that are no pointers
are always there; quantities and times are in their canonical form. Unknown fields are left alone: decoding has dropped
them.
"""

from collections.abc import Callable
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.gowriting.quantities import written
from trainwright.controller.local.gowriting.shapes import GoField, GoShape, fields_of, written_of


def rewrite(document: Document, struct: str) -> None:
    """Bring a document into the form in which Go writes a struct, in place.

    Args:
        document: with values of the right types; others are left alone.
        struct: the key of the struct in the table, such as `core/v1.Pod`.
    """
    known = fields_of(struct)
    for name in list(document):
        field = known.get(name)
        if field is None:
            continue
        value = document[name]
        made = None if value is None else _rewritten(value, field.shape)
        if made is None or (not made and _omits_empty(field)):
            del document[name]
        else:
            document[name] = made
    for name, field in written_of(struct).items():
        if name not in document:
            _write(document, name, field)


def _omits_empty(field: GoField) -> bool:
    """Whether Go leaves out a value of the field that is there and empty."""
    shape = field.shape
    if shape.pointer or shape.sort == "any":
        return False
    if shape.sort in _STRUCTS:
        return shape.sort == "struct" and field.omits_zero
    return field.omits_empty or field.omits_zero


def _rewritten(value: Any, shape: GoShape) -> Any:
    if shape.sort == "struct" and isinstance(value, dict):
        rewrite(value, shape.struct)
    elif shape.sort == "list" and isinstance(value, list) and shape.item is not None:
        return [_rewritten(_filled(item, shape.item), shape.item) for item in value]
    elif shape.sort == "map" and isinstance(value, dict) and shape.item is not None:
        return {key: _rewritten(_filled(item, shape.item), shape.item) for key, item in value.items()}
    elif shape.sort in _CANONICAL:
        try:
            return _CANONICAL[shape.sort](value)
        except ValueError:
            return value
    return value


def _filled(item: Any, shape: GoShape) -> Any:
    """What Go makes of an item of a list or a map, which may be null."""
    if item is None:
        return {} if shape.sort == "struct" and not shape.pointer else shape.zero
    return item


def _time(value: str) -> str:
    return times.format_time(times.parse(value))


def _micro_time(value: str) -> str:
    return times.format_micro_time(times.parse(value))


_CANONICAL: dict[str, Callable[[Any], str]] = {"quantity": written, "time": _time, "microtime": _micro_time}


_STRUCTS = ("struct", "time", "microtime", "quantity", "intorstring")
"""What is a struct to Go, whose `omitempty` does nothing for structs."""


def _write(document: Document, name: str, field: GoField) -> None:
    """Add a field that Go writes although it is empty."""
    shape = field.shape
    if shape.sort == "struct" and not shape.pointer:
        made: Document = {}
        rewrite(made, shape.struct)
        if made or not field.omits_zero:
            document[name] = made
    else:
        document[name] = shape.zero
