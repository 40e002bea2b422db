# SPDX-License-Identifier: Apache-2.0
"""Evaluates CEL rules without an API server: the language with its common extensions.

Functions of Kubernetes alone (`quantity`, `isSorted`, `url` ...) are missing. Of a rule that calls one, only the syntax
is checked, and validation reports that the rule was not evaluated.
"""

import re
from functools import cache
from typing import Any

from trainwright.api.validation.extra import load

_ENVIRONMENT = """
name: kubernetes
extensions:
- name: strings
- name: optional
- name: sets
- name: lists
- name: two-var-comprehensions
"""
_ONLY_IN_KUBERNETES = frozenset(
    {
        "cidr",
        "find",
        "findAll",
        "format",
        "indexOf",
        "ip",
        "isCIDR",
        "isIP",
        "isQuantity",
        "isSemver",
        "isSorted",
        "isURL",
    }
    | {"lastIndexOf", "max", "min", "quantity", "semver", "sum", "url"}
)
_UNDECLARED = re.compile(r"undeclared reference to '(\w+)'|found no matching overload for '(\w+)'")


class UnknownFunctionError(ValueError):
    """The rule calls a function that only an API server has."""


class Expression:
    """A compiled rule."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def evaluate(self, value: Any, old: Any) -> Any:
        """True, false, or anything else when the rule could not be evaluated."""
        return self._compiled.eval(data={"self": value, "oldSelf": old}).value()


@cache
def compiled(rule: str) -> Expression:
    """Compile a rule over `self` and `oldSelf`. Raises `UnknownFunctionError`, or `ValueError` if the rule is
    invalid."""
    try:
        return Expression(_environment().compile(rule))
    except RuntimeError as error:
        text = str(error)
        missing = _UNDECLARED.search(text)
        if missing is not None and (missing[1] or missing[2]) in _ONLY_IN_KUBERNETES:
            raise UnknownFunctionError(missing[1] or missing[2]) from error
        first = text.splitlines()[0].partition("ERROR: ")[2] or text
        raise ValueError(first.removeprefix("<input>:")) from error


@cache
def _environment() -> Any:
    cel = load("cel_expr_python.cel")
    config = cel.NewEnvConfigFromYaml(_ENVIRONMENT)
    return cel.NewEnv(config=config, variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})
