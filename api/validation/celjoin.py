# SPDX-License-Identifier: Apache-2.0
"""Joins compiled expressions that name each other to one, as messages of the evaluator.

A rule that is nested too deep for the compiler is compiled in parts; see `cel`.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from trainwright.api.validation.celast import Node, fields

_CHILDREN = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Where expressions are inside a select, call, list and loop."""
_LIST, _MAP, _LOOP = 7, 8, 9
_TYPE = b"type.googleapis.com/cel.expr.CheckedExpr"
_numbers = itertools.count(1 << 40)


def checked(serialized: bytes) -> tuple[list[bytes], bytes]:
    """The references and the expression of a serialized rule."""
    inside = next(value for number, value in fields(serialized) if number == 2)
    references = [value for number, value in fields(inside) if number == 2]
    return references, next(value for number, value in fields(inside) if number == 4)


def serialized(references: list[bytes], encoded: bytes) -> bytes:
    """A rule as the evaluator reads it."""
    inside = b"".join(_message(2, one) for one in references) + _message(4, encoded)
    return _message(1, _TYPE) + _message(2, inside)


def shifted(reference: bytes, offset: int) -> bytes:
    """A reference for an expression that was joined with this offset."""
    found = ((number, value + offset if number == 1 else value) for number, value in fields(reference))
    return b"".join(_encoded(number, value) for number, value in found)


class Joined:
    """Expressions that name each other, as one: names are bound where they are used, inside the loops around them."""

    def __init__(self) -> None:
        self._trees: dict[str, bytes] = {}
        self._needs: dict[str, set[str]] = {}
        self._last = ""

    def add(self, name: str, expression: Node, offset: int) -> None:
        """Add an expression, after all that it names; its identities grow by `offset`."""
        self._last = name
        self._trees[name], self._needs[name] = self._part(expression, offset)

    def whole(self) -> bytes:
        """The last expression with the others."""
        return self._bound(self._trees[self._last], self._needs[self._last])

    def _part(self, expression: Node, offset: int) -> tuple[bytes, set[str]]:
        needs: set[str] = set()
        if expression.kind == "name" and expression.text in self._trees:
            needs |= {expression.text, *self._needs[expression.text]}
        parts: list[bytes] = []
        for index, part in enumerate(expression.parts):
            encoded, needed = self._part(part, offset)
            if expression.kind == "loop" and index > 1:
                encoded, needed = self._bound(encoded, needed), set()
            parts.append(encoded)
            needs |= needed
        found = fields(_with_parts(expression.encoded, parts))
        return b"".join(_encoded(number, value + offset if number == 2 else value) for number, value in found), needs

    def _bound(self, encoded: bytes, needs: set[str]) -> bytes:
        for name in reversed([name for name in self._trees if name in needs]):
            encoded = _binding(name, self._trees[name], encoded)
        return encoded


def _with_parts(encoded: bytes, parts: list[bytes]) -> bytes:
    """An expression with other parts in the place of its first ones."""
    left = iter(parts)
    made = b""
    for number, value in fields(encoded):
        if number in _CHILDREN:
            value = _replaced(value, _CHILDREN[number], left)  # noqa: PLW2901
        elif number == _MAP:
            entries = (
                _message(place, _replaced(inner, (3, 4), left)) if place == 2 else _encoded(place, inner)
                for place, inner in fields(value)
            )
            value = b"".join(entries)  # noqa: PLW2901
        made += _encoded(number, value)
    return made


def _replaced(data: bytes, places: tuple[int, ...], parts: Iterator[bytes]) -> bytes:
    # Names come before and between the parts, which are in the order of their numbers.
    found = sorted(fields(data), key=lambda one: places.index(one[0]) if one[0] in places else -1)
    return b"".join(_encoded(number, next(parts, value) if number in places else value) for number, value in found)


def _encoded(number: int, value: Any) -> bytes:
    return _number(number, value) if isinstance(value, int) else _message(number, value)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _message(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _expression(kind: int, value: bytes) -> bytes:
    return _number(2, next(_numbers)) + _message(kind, value)


def _name(name: str) -> bytes:
    return _expression(4, _message(1, name.encode()))


def _binding(name: str, value: bytes, expression: bytes) -> bytes:
    """`cel.bind(name, value, expression)`: a loop without iterations whose accumulator has the name."""
    parts = [_expression(_LIST, b""), value, _expression(3, _number(2, 0)), _name(name), expression]
    named = _message(1, b"#unused") + _message(3, name.encode())
    return _expression(_LOOP, named + b"".join(map(_message, _CHILDREN[_LOOP], parts)))
