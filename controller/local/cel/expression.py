# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL rules without an API server: the language with its common extensions and Kubernetes' own functions.

Values have no static types here, so a rule that names an unknown field compiles, and fails when it is evaluated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainwright.api.extras import load
from trainwright.controller.local.cel.functions import declarations

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
_TOO_DEEP = re.compile(r"recursion limit exceeded|max recursion depth")
"""What the compiler says of a rule that is nested deeper than its 32 levels."""
_NOT_EVALUATED = "ERROR: <input>:1:1: a rule that is nested more than 32 levels deep is not evaluated here"
_OF_RULES = ("self", "oldSelf", "newValue", "oldValue", "hasOld")
_TOO_LONG = re.compile(r"Iteration budget exceeded")
_NO_KEY = re.compile(r'Key not found in map : "?(.*?)"?$', re.DOTALL)
"""Refusals of policies are in the words of the API server."""
_NOT_LOOPED = "more than 10,000 iterations, which are not evaluated here (give the lists maxItems),"


class EvaluationError(ValueError):
    """A rule could not be evaluated."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A compiled rule."""

    compiled: Any
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
                raise EvaluationError(_bare(str(answer.value())))
            return answer.plain_value()
        except RuntimeError as error:
            raise EvaluationError(_bare(str(error))) from error
        except TypeError as error:
            raise EvaluationError("the result is not a value") from error  # such as an optional


def _bare(text: str) -> str:
    found = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)
    if _TOO_DEEP.search(found):
        return _NOT_EVALUATED
    return _NOT_LOOPED if _TOO_LONG.match(found) else _NO_KEY.sub(r"no such key: \1", found)


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
        raise ValueError(_bare(str(error))) from error
    return Expression(compiled, compiled.return_type())


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
        raise ValueError(_bare(str(error))) from error
    return Expression(compiled, compiled.return_type())


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
