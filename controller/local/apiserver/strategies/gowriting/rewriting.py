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
from trainwright.api.quantity import canonical
from trainwright.controller.local.apiserver.strategies.gowriting.shapes import Field, Shape, fields_of


def rewrite(document: Document, struct: str) -> None:
    """Bring a document into the form in which Go writes a struct, in place.

    Args:
        document: with values of the right types; others are left alone.
        struct: the key of the struct in the table, such as `core/v1.Pod`.
    """
    known = fields_of(struct)
    for name in [name for name, value in document.items() if value is None and name in known]:
        del document[name]
    for name, field in known.items():
        value = document.get(name)
        if value is not None:
            document[name] = _rewritten(value, field.shape)
        _write(document, name, field)


def _rewritten(value: Any, shape: Shape) -> Any:
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


def _filled(item: Any, shape: Shape) -> Any:
    """What Go makes of an item of a list or a map, which may be null."""
    if item is None:
        return {} if shape.sort == "struct" and not shape.pointer else shape.zero
    return item


def _time(value: str) -> str:
    return times.format_time(times.parse(value))


def _micro_time(value: str) -> str:
    return times.format_micro_time(times.parse(value))


_CANONICAL: dict[str, Callable[[Any], str]] = {"quantity": canonical, "time": _time, "microtime": _micro_time}


def _write(document: Document, name: str, field: Field) -> None:
    """Add a field that Go writes although it is empty, or take out one that it does not write."""
    shape, omits = field.shape, field.omits_empty or field.omits_zero
    value = document.get(name)
    if shape.pointer:
        if value is None and not omits:
            document[name] = None
    elif shape.sort == "struct":
        if value is None:
            rewrite(document.setdefault(name, {}), shape.struct)
        if field.omits_zero and not document[name]:
            del document[name]
    elif shape.sort in ("time", "microtime", "quantity", "intorstring"):
        # Structs to Go, whose `omitempty` does nothing for structs.
        if value is None and not field.omits_zero:
            document[name] = shape.zero
    elif value is None:
        if not omits:
            document[name] = shape.zero
    elif omits and not value and shape.sort != "any":
        del document[name]
