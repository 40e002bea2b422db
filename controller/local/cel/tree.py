# SPDX-License-Identifier: Apache-2.0
"""The tree of a compiled rule, read from its serialized form (`cel.expr.CheckedExpr`, a protobuf message).

Source: https://github.com/google/cel-spec/blob/master/proto/cel/expr/checked.proto and `syntax.proto`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["constant", "name", "select", "call", "list", "map", "loop", "other"]

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_CONSTANTS = {1: "null_type", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


@dataclass(slots=True)
class Node:
    """One expression."""

    identity: int
    kind: Kind = "other"
    text: str = ""
    """The name, field or function; the value of a string constant."""
    type: str = ""
    """Of a constant."""
    parts: list["Node"] = field(default_factory=list)
    """The operand; target and arguments; elements; keys and values; of a loop: range, start, condition, step and
    result."""
    has_target: bool = False
    """The first part of a call is what it is called on."""
    variables: tuple[str, str, str] = ("", "", "")
    """Of a loop: first and second variable, accumulator."""
    encoded: bytes = b""
    """The message that it was read from."""


@dataclass(slots=True)
class Tree:
    """A compiled rule."""

    root: Node
    types: dict[int, str]
    """What the compiler knows of the types of expressions; scalars only."""
    positions: dict[int, int]
    """Where expressions are in the text, in code points."""


def read(serialized: bytes) -> Tree:
    """Read a rule."""
    checked = next(value for number, value in fields(serialized) if number == 2)
    root, types, positions = Node(0), {}, {}
    for number, value in fields(checked):
        if number == 4:
            root = node(value)
        elif number == 3:
            identity, name = _type_entry(value)
            types[identity] = name
        elif number == 5:
            positions = dict(_entry(one) for place, one in fields(value) if place == 4)
    return Tree(root, types, positions)


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes that are texts or messages."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        match tag & 7:
            case 0:
                value, at = _number(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _number(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case _:
                yield tag >> 3, data[at : at + 4]
                at += 4


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _entry(data: bytes) -> tuple[int, int]:
    found: dict[int, int] = dict(fields(data))
    return found.get(1, 0), found.get(2, 0)


def _type_entry(data: bytes) -> tuple[int, str]:
    found = dict(fields(data))
    name = ""
    for number, value in fields(found.get(2, b"")):
        if number == 3:
            name = _PRIMITIVES.get(value, "")
        elif number == 2:
            name = "null_type"
    return found.get(1, 0), name


def node(data: bytes) -> Node:
    """Read one expression (`cel.expr.Expr`)."""
    made = Node(0, encoded=data)
    for number, value in fields(data):
        if number == 2:
            made.identity = value
        elif number in _READERS:
            _READERS[number](made, value)
    return made


def _constant(made: Node, data: bytes) -> None:
    made.kind = "constant"
    for number, value in fields(data):
        made.type = _CONSTANTS.get(number, "")
        if made.type == "string":
            made.text = value.decode()


def _name(made: Node, data: bytes) -> None:
    made.kind, made.text = "name", dict(fields(data)).get(1, b"").decode()


def _select(made: Node, data: bytes) -> None:
    found = dict(fields(data))
    made.kind, made.text = "select", found.get(2, b"").decode()
    made.parts = [node(found[1])]


def _call(made: Node, data: bytes) -> None:
    made.kind = "call"
    for number, value in fields(data):
        if number == 2:
            made.text = value.decode()
        else:
            made.has_target = made.has_target or number == 1
            made.parts.append(node(value))


def _list(made: Node, data: bytes) -> None:
    made.kind = "list"
    made.parts = [node(value) for number, value in fields(data) if number == 1]


def _map(made: Node, data: bytes) -> None:
    made.kind = "map"
    for number, entry in fields(data):
        if number == 2:
            made.parts += [node(value) for place, value in fields(entry) if place in (3, 4)]


def _loop(made: Node, data: bytes) -> None:
    found = dict(fields(data))
    made.kind = "loop"
    made.variables = (found.get(1, b"").decode(), found.get(8, b"").decode(), found.get(3, b"").decode())
    made.parts = [node(found[number]) for number in (2, 4, 5, 6, 7)]


_READERS = {3: _constant, 4: _name, 5: _select, 6: _call, 7: _list, 8: _map, 9: _loop}
