# SPDX-License-Identifier: Apache-2.0
"""The tree of a compiled rule, read from its serialized form (`cel.expr.CheckedExpr`, a protobuf message).

Source: https://github.com/google/cel-spec/blob/master/proto/cel/expr/checked.proto and `syntax.proto`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["constant", "select", "call", "list", "map", "loop", "other"]

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_STRING_CONSTANT = 6
_KINDS: dict[int, Kind] = {3: "constant", 5: "select", 6: "call", 7: "list", 8: "map", 9: "loop"}
"""By field of `cel.expr.Expr`."""
_PARTS = {"select": (1,), "call": (1, 3), "list": (1,), "loop": (2, 4, 5, 6, 7)}
"""Fields with the expressions inside one. Those of a map are in its entries."""


@dataclass(slots=True)
class Node:
    """One expression."""

    identity: int = 0
    kind: Kind = "other"
    text: str = ""
    """The function of a call; the value of a string constant."""
    is_text: bool = False
    """It is a string constant."""
    parts: list["Node"] = field(default_factory=list)
    """The operand; target and arguments; elements; keys and values; range, start, condition, step, result of a loop."""
    has_target: bool = False
    """The first part of a call is what it is called on."""


def read(serialized: bytes) -> tuple[Node, dict[int, str]]:
    """The root of a rule, and what the compiler knows of the types of expressions by identity; scalars only."""
    checked = next(value for number, value in _fields(serialized) if number == 2)
    root, types = Node(), {}
    for number, value in _fields(checked):
        if number == 4:
            root = _node(value)
        elif number == 3:
            entry = dict(_fields(value))
            names = [_type_name(*one) for one in _fields(entry.get(2, b""))]
            types[entry.get(1, 0)] = names[-1] if names else ""
    return root, types


def _type_name(number: int, value: Any) -> str:
    return "null_type" if number == 2 else _PRIMITIVES.get(value, "") if number == 3 else ""


def _node(data: bytes) -> Node:
    made = Node()
    for number, value in _fields(data):
        if number == 2:
            made.identity = value
        elif number in _KINDS:
            made.kind = _KINDS[number]
            _read_inside(made, value)
    return made


def _read_inside(made: Node, data: bytes) -> None:
    for number, value in _fields(data):
        if made.kind == "constant":
            made.is_text = number == _STRING_CONSTANT
            made.text = value.decode() if made.is_text else ""
        elif made.kind == "map":
            if number == 2:
                made.parts += [_node(inner) for place, inner in _fields(value) if place in (3, 4)]
        elif number in _PARTS[made.kind]:
            made.has_target = made.has_target or (made.kind == "call" and number == 1)
            made.parts.append(_node(value))
        elif made.kind == "call":
            made.text = value.decode()


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes that are texts or messages."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        match tag & 7:
            case 0:
                value, at = _number(data, at)
                yield tag >> 3, value
            case 2:
                size, at = _number(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case wire:
                size = 8 if wire == 1 else 4
                yield tag >> 3, data[at : at + size]
                at += size


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
