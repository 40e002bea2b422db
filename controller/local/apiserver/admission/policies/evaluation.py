# SPDX-License-Identifier: Apache-2.0
"""One policy, evaluated for one request and one parameter. Costs count as in rules of definitions; no `authorizer`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation.cel import EvaluationError, compiled_over
from trainwright.api.validation.celobjects import with_maps
from trainwright.controller.local.apiserver.kinds.admission import (
    CONDITION_VARIABLES,
    PATCHES,
    VARIABLES,
)

_LONGEST_MESSAGE = 5 * 1024
_USED = re.compile(r"\bvariables\.(\w+)")


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """A validation that does not hold, or cannot be evaluated."""

    message: str
    reason: str = ""
    """Of the answer; empty for the usual one."""
    is_error: bool = False
    """Whether it could not be evaluated: then the failure policy decides."""


def failures(spec: Document, facts: Document) -> Iterator[PolicyFailure]:
    """What is wrong with a request.

    Args:
        spec: of the policy.
        facts: values of all variables but `variables`.
    """
    try:
        if not _concerned(spec.get("matchConditions") or (), facts):
            return
    except EvaluationError as error:
        yield PolicyFailure(str(error), is_error=True)
        return
    data, broken = _with_variables(spec, facts)
    for validation in spec.get("validations") or ():
        expression = validation["expression"]
        try:
            holds = _value(expression, data, broken)
        except EvaluationError as error:
            yield PolicyFailure(f"expression '{expression}' resulted in error: {error}", is_error=True)
            continue
        if holds is not True:
            yield PolicyFailure(_message(validation, data, broken), validation.get("reason") or "")


def mutated(spec: Document, facts: Document, patch: Callable[[str, Document, Any], Document]) -> Iterator[Document]:
    """The object after each mutation of a policy, which sees what the one before made.

    Args:
        spec: of the policy.
        facts: values of all variables but `variables`.
        patch: applies what an expression gives, by `patchType`.

    Raises:
        EvaluationError: an expression cannot be evaluated, or what it gives cannot be applied.
    """
    made: Document = facts["object"]
    if not _concerned(spec.get("matchConditions") or (), facts):
        return
    for mutation in spec.get("mutations") or ():
        data, broken = _with_variables(spec, {**facts, "object": made})
        expression = mutation[PATCHES[mutation["patchType"]].field]["expression"]
        try:
            value = _value(with_maps(expression), data, broken)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression}' resulted in error: {error}") from error
        made = patch(mutation["patchType"], made, value)
        yield made


def _with_variables(spec: Document, facts: Document) -> tuple[Document, dict[str, str]]:
    """The facts with the variables of a policy, and why some could not be evaluated."""
    data: Document = {**facts, "variables": {}}
    broken: dict[str, str] = {}
    for variable in spec.get("variables") or ():
        name = variable["name"]
        try:
            data["variables"][name] = _value(variable["expression"], data, broken)
        except EvaluationError as error:
            # It matters only to what names it.
            broken[name] = f'composited variable "{name}" fails to evaluate: {error}'
    return data, broken


def _concerned(conditions: Sequence[Document], facts: Document) -> bool:
    """Whether all conditions hold; one that is false outweighs those that fail. Raises EvaluationError."""
    known = {name: facts[name] for name in CONDITION_VARIABLES}
    problems: list[str] = []
    for condition in conditions:
        try:
            if compiled_over(condition["expression"].strip(), CONDITION_VARIABLES).run(known) is False:
                return False
        except EvaluationError as error:
            problems.append(f"expression '{condition['expression'].strip()}' resulted in error: {error}")
    if problems:
        raise EvaluationError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


def _value(expression: str, data: Document, broken: dict[str, str]) -> Any:
    try:
        return compiled_over(expression, VARIABLES).run(data)
    except EvaluationError as error:
        for name in _USED.findall(expression):
            if name in broken:
                raise EvaluationError(broken[name]) from error
        raise


def _message(validation: Document, data: Document, broken: dict[str, str]) -> str:
    """What the messageExpression says, if it says something usable; else the message, else the expression."""
    text: Any = ""
    if (validation.get("messageExpression") or "").strip():
        try:
            text = _value(validation["messageExpression"], data, broken)
        except EvaluationError:
            text = ""
    text = text.strip() if isinstance(text, str) else ""
    if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE:
        text = ""
    text = text or (validation.get("message") or "").strip()
    return text or f"failed expression: {validation['expression'].strip()}"
