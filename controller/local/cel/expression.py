# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL rules without an API server: the language with its common extensions and Kubernetes' own functions.

Values have no static types here, so a rule that names an unknown field compiles, and fails when it is evaluated.

Objects in expressions of MutatingAdmissionPolicies, such as `Object.spec{replicas: 1}`, are maps here: the evaluator
knows no such types. Source: https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/.
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


_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*)*(?P<token>
    (?:[bB]?[rR]|[rR][bB])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')
    |[bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |0[xX][0-9a-fA-F]+[uU]?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?
    |`[^`\n]*`|[A-Za-z_]\w*|&&|\|\||[<>=!]=|\S)""",
    re.DOTALL | re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z_]\w*|`[^`\n]*`")


def with_maps(expression: str) -> str:
    """The expression with a map in place of each object."""
    found = list(_TOKEN.finditer(expression))
    tokens = [one["token"] for one in found]
    made: list[str] = []
    copied, open_objects = 0, [False]
    """Whether what each bracket around the present token opened is an object."""
    for index, token in enumerate(tokens):
        if token in ("(", "[", "{"):
            start = _type_before(tokens, index) if token == "{" else None  # noqa: S105 - a bracket
            if start is not None:
                made.append(expression[copied : found[start].start("token")])
                copied = found[index].start("token")
            open_objects.append(start is not None)
        elif token in (")", "]", "}") and len(open_objects) > 1:
            open_objects.pop()
        elif open_objects[-1] and _is_key(tokens, index):
            name = token.strip("`")
            made += [expression[copied : found[index].start("token")], f'"{name}"']
            copied = found[index].end("token")
    return "".join([*made, expression[copied:]])


def _type_before(tokens: list[str], brace: int) -> int | None:
    """Where the name of a type begins that a brace follows; None if it is the brace of a map."""
    start = brace - 1
    while start >= 2 and tokens[start - 1] == "." and _NAME.fullmatch(tokens[start]):
        start -= 2
    if start < 0 or tokens[start] not in ("Object", "JSONPatch") or tokens[start - 1 : start] == ["."]:
        return None
    return start


def _is_key(tokens: list[str], index: int) -> bool:
    before = tokens[index - 1] if tokens[index - 1] != "?" else tokens[index - 2]
    return tokens[index + 1 : index + 2] == [":"] and before in ("{", ",") and bool(_NAME.fullmatch(tokens[index]))
