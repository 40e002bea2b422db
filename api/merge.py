# SPDX-License-Identifier: Apache-2.0
"""Reads from the models how several writers share a list, a map or a struct.

The API server merges what several managers apply by one set of words in the schema, and strategic merge patches by a
second set. The compiler writes both into each struct (`MERGE`). Comparisons before an apply and runtimePatches read
them through this module, which merges nothing itself.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from trainwright.api.base import Merge, Struct

ATOMIC = Merge("atomic")
GRANULAR = Merge("granular")


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a struct, seen from the wire."""

    wire: str
    attribute: str
    shape: Literal["scalar", "struct", "list", "map", "open"]
    """`open` is any JSON, such as a RawExtension."""
    struct: type[Struct] | None
    """The struct of the value, or of each item or value inside it."""
    merge: Merge
    """How the value is shared. Always set: a list is `ATOMIC` unless the schema says otherwise."""
    required: bool


@cache
def fields(struct: type[Struct]) -> Mapping[str, Field]:
    """The fields of a struct by wire name."""
    hints = get_type_hints(struct)
    found: dict[str, Field] = {}
    for info in msgspec.structs.fields(struct):
        shape, inner = _shape(hints[info.name])
        declared = struct.MERGE.get(info.encode_name)
        found[info.encode_name] = Field(
            wire=info.encode_name,
            attribute=info.name,
            shape=shape,
            struct=inner,
            merge=declared or (GRANULAR if shape in ("struct", "map") else ATOMIC),
            required=info.required,
        )
    return found


def unknown_fields(
    struct: type[Struct], value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, list[str]]]:
    """The path and the value of each field that a struct does not have, and the names of those that it has there."""
    known = fields(struct)
    for name, inner in value.items() if isinstance(value, dict) else ():
        here, found = (*path, name), known.get(name)
        if found is None:
            yield here, inner, list(known)
        elif found.struct is not None and found.shape == "struct":
            yield from unknown_fields(found.struct, inner, here)
        elif found.struct is not None and isinstance(inner, list if found.shape == "list" else dict):
            for step, part in enumerate(inner) if isinstance(inner, list) else inner.items():
                yield from unknown_fields(found.struct, part, (*here, step))


def _shape(annotation: Any) -> tuple[Literal["scalar", "struct", "list", "map", "open"], type[Struct] | None]:
    united = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    options = [option for option in united if option is not NoneType]
    if len(options) != 1:
        return "scalar", None
    option = options[0]
    if option is Any:
        return "open", None
    if isinstance(option, type) and issubclass(option, Struct):
        return "struct", option
    arguments = get_args(option)
    if get_origin(option) is list:
        return "list", _struct_in(arguments[0])
    if get_origin(option) is dict:
        return ("open", None) if arguments[1] is Any else ("map", _struct_in(arguments[1]))
    return "scalar", None


def _struct_in(annotation: Any) -> type[Struct] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, Struct) else None
