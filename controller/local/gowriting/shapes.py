# SPDX-License-Identifier: Apache-2.0
"""The Go types of the built-in kinds, from the table that `hack/go_types.py` makes."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

PACKAGE = "trainwright.controller.local.gowriting"
_ZEROS = {"string": "", "bool": False, "number": 0, "quantity": "0", "intorstring": 0}


@dataclass(frozen=True)
class GoShape:
    """A Go type."""

    sort: str
    """`struct`, `list`, `map`, or the name of a type without fields, as the table has it."""
    pointer: bool = False
    item: "GoShape | None" = None
    """Of lists and maps."""
    struct: str = ""
    """The key of a struct in the table."""

    @property
    def zero(self) -> Any:
        """What Go writes for nothing; None for what it writes as null."""
        return None if self.pointer else _ZEROS.get(self.sort)


@dataclass(frozen=True)
class GoField:
    """A field of a struct."""

    shape: GoShape
    omits_empty: bool
    omits_zero: bool
    """Like `omits_empty`, but it also holds for structs and times."""


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(PACKAGE).joinpath("go_types.schema.json").read_text()
    table: dict[str, dict[str, str]] = json.loads(text)
    return table


@cache
def fields_of(struct: str) -> dict[str, GoField]:
    """The fields of a struct by their names on the wire."""
    made: dict[str, GoField] = {}
    for name, text in _table()[struct].items():
        expression = text.lstrip("?!")
        flags = text[: len(text) - len(expression)]
        made[name] = GoField(shape_of(expression), "?" in flags, "!" in flags)
    return made


@cache
def written_of(struct: str) -> dict[str, GoField]:
    """The fields that Go may write although they are not there."""
    return {name: field for name, field in fields_of(struct).items() if _may_be_written(field)}


def _may_be_written(field: GoField) -> bool:
    shape = field.shape
    if shape.sort == "struct" and not shape.pointer:
        return True
    if shape.sort in ("time", "microtime", "quantity", "intorstring") and not shape.pointer:
        return not field.omits_zero
    return not (field.omits_empty or field.omits_zero)


@cache
def shape_of(expression: str) -> GoShape:
    """A type as the tables write it: `*`, `[]` and `{}` before a struct or a type without fields."""
    if expression.startswith("*"):
        inner = shape_of(expression[1:])
        return GoShape(inner.sort, True, inner.item, inner.struct)
    for prefix, sort in (("[]", "list"), ("{}", "map")):
        if expression.startswith(prefix):
            return GoShape(sort, item=shape_of(expression.removeprefix(prefix)))
    return GoShape("struct", struct=expression) if "." in expression else GoShape(expression)
