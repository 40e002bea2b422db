# SPDX-License-Identifier: Apache-2.0
"""Reads from the annotation of a field how its value is built, for the methods that copy it and set its defaults."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_PLAIN = frozenset({"str", "int", "float", "bool"})


class Form(Enum):
    PLAIN = "plain"
    """Immutable: text, numbers, truth values, and unions of them."""
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"
    OPEN = "open"
    """Any JSON."""


@dataclass(frozen=True)
class FieldShape:
    """A form and what is inside it."""

    form: Form
    inner: "FieldShape | None" = None
    """The shape of items of a list or of values of a map."""

    def nested(self) -> "Iterator[FieldShape]":
        """The lists and maps from the outermost one on, followed by what they hold."""
        shape: FieldShape | None = self
        while shape is not None:
            yield shape
            shape = shape.inner


def shape_of(annotation: ast.expr) -> FieldShape:
    """The shape that an annotation describes, without `None`."""
    options = [option for option in _union(annotation) if ast.unparse(option) != "None"]
    if len(options) != 1:
        return FieldShape(Form.PLAIN)
    (option,) = options
    if isinstance(option, ast.Subscript):
        return _container(option)
    text = ast.unparse(option)
    if text == "Any":
        return FieldShape(Form.OPEN)
    return FieldShape(Form.PLAIN if text in _PLAIN else Form.STRUCT)


def _container(annotation: ast.Subscript) -> FieldShape:
    outer = ast.unparse(annotation.value)
    if outer == "list":
        return FieldShape(Form.LIST, shape_of(annotation.slice))
    if outer == "dict" and isinstance(annotation.slice, ast.Tuple):
        value = annotation.slice.elts[1]
        return FieldShape(Form.OPEN) if ast.unparse(value) == "Any" else FieldShape(Form.MAP, shape_of(value))
    return FieldShape(Form.PLAIN)  # Literal


def _union(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_union(annotation.left), *_union(annotation.right)]
    return [annotation]
