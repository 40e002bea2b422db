# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL rules without an API server: the language with its common extensions and Kubernetes' own functions.

Values have no static types here, so a rule that names an unknown field compiles, and fails when it is evaluated. The
texts of failures are those of the API server, as far as the evaluator tells them apart.

A rule that is nested deeper than the 32 levels that the compiler permits is cut: what is deep inside is compiled on its
own, a variable stands in its place, and is bound to it.
Source of the grammar: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainwright.api.extras import load
from trainwright.api.validation.celast import Node, node
from trainwright.api.validation.celjoin import Joined, checked, serialized, shifted
from trainwright.api.validation.functions import declarations

_ENVIRONMENT = """
name: kubernetes
extensions:
- name: strings
  version: 2
- name: optional
- name: sets
- name: lists
- name: two-var-comprehensions
"""
_OF_RULES = ("self", "oldSelf", "newValue", "oldValue", "hasOld")
_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'Key not found in map : "?(.*?)"?$', re.DOTALL), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"No matching overloads found.*", re.DOTALL), "no such overload"),
    (
        re.compile(r"Iteration budget exceeded"),
        "more than 10,000 iterations, which are not evaluated here (give the lists maxItems),",
    ),
    (re.compile(r"Applying SELECT to non-message type"), "no such overload"),
    (
        re.compile(r"invalid regular expression: missing (.): (.*)", re.DOTALL),
        r"error parsing regexp: missing closing \1: `\2`",
    ),
)


class EvaluationError(ValueError):
    """A rule could not be evaluated; the text is what the API server says, or near to it."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A compiled rule."""

    compiled: Any
    serialized: bytes
    """The rule as a message `google.protobuf.Any` that holds a `cel.expr.CheckedExpr`."""
    result_type: Any

    @property
    def result(self) -> str:
        """The type of what it gives: `bool`, `string`, … or `dyn`."""
        return str(self.result_type.name()).lower()

    def run(self, variables: dict[str, Any]) -> Any:
        """Evaluate it.

        Raises:
            EvaluationError: a key is missing, a value has an unexpected type, a number is too large, a loop too long ….
        """
        try:
            answer = self.compiled.eval(data=variables)
            if answer.type().name() == "ERROR":
                raise EvaluationError(_in_words_of_go(_bare(str(answer.value()))))
            return answer.plain_value()
        except RuntimeError as error:
            raise EvaluationError(_in_words_of_go(_bare(str(error)))) from error
        except TypeError as error:
            raise EvaluationError("the result is not a value") from error  # such as an optional


def _bare(text: str) -> str:
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)


def _in_words_of_go(text: str) -> str:
    for pattern, words in _TEXTS:
        if pattern.match(text):
            return pattern.sub(words, text)
    return text


@cache
def compiled(rule: str) -> Expression:
    """Compile a rule over `self` and `oldSelf`. Raises `ValueError` with the first line of the compiler."""
    try:
        return compiled_with_text(rule)
    except ValueError as error:
        first = str(error).splitlines()[0].removeprefix("ERROR: ")
        raise ValueError(first.removeprefix("<input>:")) from error


@cache
def compiled_with_text(rule: str) -> Expression:
    """Compile a rule. Raises `ValueError` with all lines of the compiler: each error with its place in the rule."""
    return compiled_over(rule, _OF_RULES)


@cache
def compiled_over(expression: str, variables: tuple[str, ...]) -> Expression:
    """Compile an expression over variables of any type, such as those of admission. Raises as `compiled_with_text`."""
    try:
        compiled = _environment(variables).compile(expression)
    except RuntimeError as error:
        text = _bare(str(error))
        deep = _compile_in_parts(expression, variables) if _TOO_DEEP.search(text) else None
        if deep is None:
            raise ValueError(text) from error
        try:
            return Expression(_environment(variables).deserialize(deep[0]), *deep)
        except RuntimeError:
            raise ValueError(text) from error
    return Expression(compiled, bytes(compiled.serialize()), compiled.return_type())


def typed_expression(expression: str, variables: Mapping[str, Any], messages: Any) -> Expression:
    """Compile an expression over variables of known types. It can be looked at, not evaluated.

    Args:
        expression: a rule.
        variables: types of CEL by name.
        messages: a pool of descriptors, in which the types find the fields of objects.

    Raises:
        ValueError: as `compiled_with_text`.
    """
    try:
        compiled = _made((), variables, messages=messages, typed=True).compile(expression)
    except RuntimeError as error:
        if _TOO_DEEP.search(str(error)):
            return compiled_with_text(expression)
        raise ValueError(_bare(str(error))) from error
    return Expression(compiled, bytes(compiled.serialize()), compiled.return_type())


@cache
def _environment(names: tuple[str, ...]) -> Any:
    return _made(names, {})


def _made(
    names: tuple[str, ...],
    others: Mapping[str, Any],
    *,
    messages: Any = None,
    typed: bool = False,
) -> Any:
    cel = load("cel_expr_python.cel")
    variables = {name: others.get(name) or cel.Type.DYN for name in (*names, *others)}
    functions = _functions(typed=typed)
    return cel.NewEnv(messages, config=_config(), variables=variables, extensions=[functions])


@cache
def _config() -> Any:
    return load("cel_expr_python.cel").NewEnvConfigFromYaml(_ENVIRONMENT)


@cache
def _functions(*, typed: bool) -> Any:
    cel = load("cel_expr_python.cel")
    overloads: dict[str, list[Any]] = {}
    for name, identity, result, parameters, is_method, call in declarations(cel.Type, typed=typed):
        overloads.setdefault(name, []).append(cel.Overload(identity, result, parameters, is_method, impl=call))
    return cel.CelExtension("kubernetes", [cel.FunctionDecl(name, found) for name, found in overloads.items()])


_TOO_DEEP = re.compile(r"recursion limit exceeded|max recursion depth")
"""What the compiler says of a rule that is nested too deep."""
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


def _compile_in_parts(text: str, variables: tuple[str, ...]) -> tuple[bytes, Any] | None:
    """The serialized rule and the type of its result; None if it cannot be cut.

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
        try:
            compiled = _made(variables, known).compile(part)
        except RuntimeError as error:
            raise ValueError(_bare(str(error))) from error
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
