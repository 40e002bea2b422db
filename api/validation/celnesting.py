# SPDX-License-Identifier: Apache-2.0
"""Compiles rules that are nested deeper than the compiler permits, which is 32 levels.

Such a rule is cut: what is deep inside is compiled on its own, a variable stands in its place, and is bound to it.

Source of the grammar: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.
"""

import re
from collections.abc import Callable
from typing import Any

from trainwright.api.validation.celast import Node, node
from trainwright.api.validation.celloops import Joined, checked, serialized, shifted

TOO_DEEP = re.compile(r"recursion limit exceeded|max recursion depth")
"""What the compiler says of a rule that is nested too deep."""
_DEEPEST = 150
"""Levels of a rule; the stack of Python has room for them."""
_DEPTH = 8
"""Levels of one part: every level may be several of the compiler's."""
_TOKEN = re.compile(
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

Compile = Callable[[str, dict[str, Any]], Any]
"""Compiles a text with the types of further variables, where None is any type."""
_Part = tuple[str, int]
"""A text and how deep it is."""


class _NotReadError(Exception):
    """The text has no form that is known here."""


class _Cutter:
    """Reads a rule, and takes out what is deep."""

    def __init__(self, text: str) -> None:
        self._tokens = [found["token"] for found in _TOKEN.finditer(text)]
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


def compile_in_parts(text: str, variables: tuple[str, ...], compile_part: Compile) -> tuple[bytes, Any] | None:
    """The serialized rule and the type of its result; None if it cannot be cut.

    `compile_part` compiles a part, and raises ValueError.

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
    joined = Joined()
    compiled: Any = None
    for number, (name, part) in enumerate([*cutter.taken_out.items(), ("", outermost)], 1):
        compiled = compile_part(part, known)
        known[name] = compiled.return_type()
        own, tree = checked(bytes(compiled.serialize()))
        references += [shifted(one, number * _ID_STEP) for one in own]
        joined.add(name, node(tree), number * _ID_STEP)
    whole = joined.whole()
    for name in sorted(_free(node(whole)) & of_loops):
        raise ValueError(f"ERROR: <input>: undeclared reference to '{name}' (in container '')")
    return serialized(references, whole), compiled.return_type()


def _free(expression: Node) -> set[str]:
    """Names that no loop inside gives a meaning."""
    if expression.kind == "name":
        return {expression.text}
    found = [_free(part) for part in expression.parts]
    if expression.kind == "loop":
        found[2:] = [one - set(expression.variables) for one in found[2:]]
    return set().union(*found)
