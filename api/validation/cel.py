# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL rules without an API server: the language with its common extensions and Kubernetes' own functions.

Values have no static types here, so a rule that names an unknown field compiles, and fails when it is evaluated. The
texts of failures are those of the API server, as far as the evaluator tells them apart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from trainwright.api.extras import load
from trainwright.api.validation import celloops
from trainwright.api.validation.celloops import BUDGET_EXCEEDED, COST_EXCEEDED, CelFailure, CostError, Pieces
from trainwright.api.validation.celnesting import TOO_DEEP, compile_in_parts
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
    (re.compile(r"Applying SELECT to non-message type"), "no such overload"),
    (
        re.compile(r"invalid regular expression: missing (.): (.*)", re.DOTALL),
        r"error parsing regexp: missing closing \1: `\2`",
    ),
)


class EvaluationError(ValueError):
    """A rule could not be evaluated; the text is what the API server says, or near to it."""


_OPAQUE = object()
"""A value that Python cannot hold, such as an optional."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A compiled rule."""

    compiled: Any
    variables: tuple[str, ...]
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
            EvaluationError: a key is missing, a value has an unexpected type, a number is too large ….
        """
        answer = self._answer(variables)
        if answer is _OPAQUE:
            answer = CelFailure("the result is not a value")
        if isinstance(answer, CelFailure):
            raise EvaluationError(_in_words_of_go(answer.text))
        return answer

    def _answer(self, variables: dict[str, Any]) -> Any:
        # The evaluator takes seconds to make a list of 10,000 items.
        if self._pieces.makes_lists:
            return self._in_pieces(variables)
        answer = _evaluated(self.compiled, variables)
        return self._in_pieces(variables) if answer == CelFailure(BUDGET_EXCEEDED) else answer

    def _in_pieces(self, variables: dict[str, Any]) -> Any:
        try:
            return self._pieces.evaluate(variables, self._run, _OPAQUE)
        except CostError:
            return CelFailure(COST_EXCEEDED)

    def _run(self, piece: bytes, data: Mapping[str, Any]) -> Any:
        try:
            compiled = _environment(self.variables, counting=True).deserialize(piece)
        except RuntimeError as error:
            # A message that is nested too deep is taken apart as one that runs too long.
            return CelFailure(BUDGET_EXCEEDED if "Cannot parse serialized" in str(error) else _bare(str(error)))
        return _evaluated(compiled, data)

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self.serialized)


def _evaluated(compiled: Any, variables: Mapping[str, Any]) -> Any:
    """The value of an expression, a CelFailure, or _OPAQUE."""
    try:
        answer = compiled.eval(data=variables)
        return CelFailure(_bare(str(answer.value()))) if answer.type().name() == "ERROR" else answer.plain_value()
    except RuntimeError as error:
        return CelFailure(_bare(str(error)))
    except TypeError:
        return _OPAQUE


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
        deep = _compiled_in_parts(expression, variables) if TOO_DEEP.search(text) else None
        if deep is None:
            raise ValueError(text) from error
        try:
            return Expression(_environment(variables).deserialize(deep[0]), variables, *deep)
        except RuntimeError:
            raise ValueError(text) from error
    return Expression(compiled, variables, bytes(compiled.serialize()), compiled.return_type())


def _compiled_in_parts(expression: str, variables: tuple[str, ...]) -> tuple[bytes, Any] | None:
    def compile_part(text: str, others: dict[str, Any]) -> Any:
        try:
            return _made(variables, others).compile(text)
        except RuntimeError as error:
            raise ValueError(_bare(str(error))) from error

    return compile_in_parts(expression, variables, compile_part)


@cache
def _environment(names: tuple[str, ...], *, counting: bool = False) -> Any:
    """An environment with variables; `counting` ones have the functions of pieces too."""
    return _made(names, {}, counting=counting)


def _made(names: tuple[str, ...], others: Mapping[str, Any], *, counting: bool = False) -> Any:
    cel = load("cel_expr_python.cel")
    config = cel.NewEnvConfigFromYaml(_ENVIRONMENT)
    overloads: dict[str, list[Any]] = {}
    for name, identity, result, parameters, is_method, call in declarations(cel.Type):
        overloads.setdefault(name, []).append(cel.Overload(identity, result, parameters, is_method, impl=call))
    if counting:
        fail = cel.Overload("pieces_fail", cel.Type.DYN, [cel.Type.STRING], False, impl=celloops.fail)
        count = cel.Overload("pieces_count", cel.Type.BOOL, [cel.Type.INT, cel.Type.INT], False, impl=celloops.count)
        overloads |= {celloops.FAIL: [fail], celloops.COUNT: [count]}
    functions = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, found) for name, found in overloads.items()])
    variables = {name: others.get(name) or cel.Type.DYN for name in (*names, *others)}
    return cel.NewEnv(config=config, variables=variables, extensions=[functions])
