# SPDX-License-Identifier: Apache-2.0
"""Rules that are nested deeper than the 32 levels that the compiler permits.

Such a rule is cut: what is deep inside is compiled on its own, a variable stands in its place, and is bound to it in
the compiled message. Source of the grammar: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from trainwright.controller.local.cel.tree import Node, fields, node

_DEEPEST = 150
"""Levels of a rule; the stack of Python has room for them."""
_DEPTH = 8
"""Levels of one part: every level may be several of the compiler's."""
TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*)*(?P<token>
    (?:[bB]?[rR]|[rR][bB])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')
    |[bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |0[xX][0-9a-fA-F]+[uU]?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?
    |`[^`\n]*`|[A-Za-z_]\w*|&&|\|\||[<>=!]=|\S)""",
    re.DOTALL | re.VERBOSE,
)
_LOOP_NAMES = re.compile(r"\(\s*([A-Za-z_]\w*)\s*,(?:\s*([A-Za-z_]\w*)\s*,)?")
_OPERATORS = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_PRECEDENCE = {operator: level for level, operators in enumerate(_OPERATORS) for operator in operators}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ID_STEP = 1 << 20

_Part = tuple[str, int]
"""A text and how deep it is."""


class _NotReadError(Exception):
    """The text has no form that is known here."""


class _Cutter:
    """Reads a rule, and takes out what is deep."""

    def __init__(self, text: str) -> None:
        self._tokens = [found["token"] for found in TOKEN.finditer(text)]
        self._at = 0
        self._level = 0
        self.taken_out: dict[str, str] = {}

    def read(self) -> str:
        text, _ = self._expression()
        if self._at < len(self._tokens):
            raise _NotReadError
        return text

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> str:
        token = self._next()
        if not token or (wanted and token != wanted):
            raise _NotReadError
        self._at += 1
        return token

    def _takes(self, wanted: str) -> bool:
        found = self._next() == wanted
        self._at += found
        return found

    def _shallow(self, part: _Part) -> _Part:
        text, depth = part
        if depth < _DEPTH:
            return part
        name = f"taken_out_{len(self.taken_out)}__"
        self.taken_out[name] = text
        return name, 0

    def _expression(self) -> _Part:
        self._level += 1
        if self._level > _DEEPEST:
            raise _NotReadError
        condition = self._chain(0)
        if self._takes("?"):
            parts = [self._shallow(condition), self._shallow(self._chain(0))]
            self._take(":")
            parts.append(self._shallow(self._expression()))
            condition = (f"{parts[0][0]} ? {parts[1][0]} : {parts[2][0]}", 1 + max(depth for _, depth in parts))
        self._level -= 1
        return condition

    def _chain(self, lowest: int) -> _Part:
        left = self._operand()
        while _PRECEDENCE.get(self._next(), -1) >= lowest:
            operator = self._take()
            right = self._shallow(self._chain(_PRECEDENCE[operator] + 1))
            left = self._shallow(left)
            left = (f"{left[0]} {operator} {right[0]}", 1 + max(left[1], right[1]))
        return left

    def _operand(self) -> _Part:
        signs = ""
        while self._next() in ("!", "-"):
            signs += self._take()
        if self._next() in _CLOSING:
            text, depth = self._listed(self._next())
        elif re.match(r"[\w\"'.`]", self._next()):
            text, depth = self._take(), 0
            text += self._take() if text == "." else ""
            if self._next() == "(":
                arguments, depth = self._listed("(", whole=text == "has")
                text += arguments
        else:
            raise _NotReadError
        while self._next() in (".", "["):
            text, depth = self._shallow((text, depth))
            if self._takes("."):
                text += "." + ("?" if self._takes("?") else "") + self._take()
            if self._next() in ("(", "["):
                arguments, inner = self._listed(self._next())
                text, depth = text + arguments, max(depth, inner)
            depth += 1
        return signs + text, depth

    def _listed(self, opening: str, *, whole: bool = False) -> _Part:
        """What is in brackets; `whole` keeps it as it is on the first level."""
        text, closing, deepest = self._take(opening), _CLOSING[opening], 0
        while not self._takes(closing):
            text += "?" if self._takes("?") else ""
            for separator in (":", ",") if opening == "{" else (",",):
                part = self._expression()
                inner, depth = part if whole else self._shallow(part)
                text, deepest = text + inner, max(deepest, depth)
                if separator == ":":
                    self._take(":")
                    text += ": "
            if self._takes(","):
                text += ", "
            elif self._next() != closing:
                raise _NotReadError
        return text + closing, deepest + 1


def compile_in_parts(
    text: str, variables: tuple[str, ...], compile_part: Callable[[str, dict[str, Any]], Any]
) -> tuple[bytes, Any] | None:
    """The serialized rule and the type of its result; None if it cannot be cut.

    Args:
        text: the rule.
        variables: that it may name.
        compile_part: compiles a part, which may name what was cut before: its types by name, None where not known.

    Raises:
        ValueError: a part does not compile.
    """
    cutter = _Cutter(text)
    try:
        outermost = cutter.read()
    except _NotReadError:
        return None
    of_loops = {name for found in _LOOP_NAMES.findall(text) for name in found if name} - set(variables)
    known: dict[str, Any] = dict.fromkeys(sorted(of_loops))
    references: list[bytes] = []
    joined = _Joined()
    compiled: Any = None
    for number, (name, part) in enumerate([*cutter.taken_out.items(), ("", outermost)], 1):
        compiled = compile_part(part, known)
        known[name] = compiled.return_type()
        own, tree = _checked(bytes(compiled.serialize()))
        references += [_shifted(one, number * _ID_STEP) for one in own]
        joined.add(name, node(tree), number * _ID_STEP)
    whole = joined.whole()
    for name in sorted(_free(node(whole)) & of_loops):
        raise ValueError(f"ERROR: <input>: undeclared reference to '{name}' (in container '')")
    return _serialized(references, whole), compiled.return_type()


def _free(expression: Node) -> set[str]:
    """Names that no loop inside gives a meaning."""
    if expression.kind == "name":
        return {expression.text}
    found = [_free(part) for part in expression.parts]
    if expression.kind == "loop":
        found[2:] = [one - set(expression.variables) for one in found[2:]]
    return set().union(*found)


_CHILDREN = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Where expressions are inside a select, call, list and loop."""
_LIST, _MAP, _LOOP = 7, 8, 9
_TYPE = b"type.googleapis.com/cel.expr.CheckedExpr"
_numbers = itertools.count(1 << 40)


def _checked(serialized: bytes) -> tuple[list[bytes], bytes]:
    """The references and the expression of a serialized rule."""
    inside = next(value for number, value in fields(serialized) if number == 2)
    references = [value for number, value in fields(inside) if number == 2]
    return references, next(value for number, value in fields(inside) if number == 4)


def _serialized(references: list[bytes], encoded: bytes) -> bytes:
    """A rule as the evaluator reads it."""
    inside = b"".join(_message(2, one) for one in references) + _message(4, encoded)
    return _message(1, _TYPE) + _message(2, inside)


def _shifted(reference: bytes, offset: int) -> bytes:
    """A reference for an expression that was joined with this offset."""
    found = ((number, value + offset if number == 1 else value) for number, value in fields(reference))
    return b"".join(_encoded(number, value) for number, value in found)


class _Joined:
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
