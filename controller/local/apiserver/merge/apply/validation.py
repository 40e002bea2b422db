# SPDX-License-Identifier: Apache-2.0
"""Whether a document fits its schema, as far as a merge needs it.

This is not the validation of the API server: it sees types, undeclared fields and items that cannot be told apart.
The texts are those of structured merge, down to Go's rendering of values.
"""

from dataclasses import dataclass

from trainwright.controller.local.apiserver.merge.apply.element import described
from trainwright.controller.local.apiserver.merge.apply.schema import (
    FITTING,
    ElementError,
    ListView,
    MapView,
    Scalar,
    SchemaView,
    part,
)
from trainwright.controller.local.apiserver.merge.apply.values import Value, literal, shown, type_name


@dataclass(slots=True)
class TypedProblem:
    """One thing that does not fit."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


Problems = list[TypedProblem]


class UnfitError(Exception):
    """A document does not fit its schema; the text names every problem."""

    def __init__(self, problems: Problems) -> None:
        lines = list(map(str, problems))
        super().__init__(lines[0] if len(lines) == 1 else "\n".join(["errors:", *(f"  {line}" for line in lines)]))


def check(view: SchemaView, document: Value, *, duplicates: bool) -> None:
    """Check a document.

    Args:
        view: of its kind.
        document: the document.
        duplicates: lists may hold several items of the same keys, as stored objects may.

    Raises:
        UnfitError: it does not fit.
    """
    if problems := _check(view, document, duplicates):
        raise UnfitError(problems)


def _check(view: SchemaView, value: Value, duplicates: bool) -> Problems | None:
    form = part(view, value)
    if type(form) is MapView:
        return _check_map(form, value, duplicates) if type(value) is dict else _not("map", value)
    if type(form) is ListView:
        return _check_list(form, value, duplicates) if type(value) is list else _not("list", value)
    if value is None:
        return None
    return _check_scalar(form, value)  # type: ignore[arg-type]


def _not(what: str, value: Value) -> Problems | None:
    return None if value is None else [TypedProblem("", f"expected {what}, got &{{{shown(value)}}}")]


def _check_map(view: MapView, value: dict[str, Value], duplicates: bool) -> Problems | None:
    found: Problems | None = None
    declared, others = view.declared, view.others
    for name, inner in value.items():
        child = declared.get(name, others)
        if child is None:
            # Kubernetes looks no further, in an order of its own.
            return [*(found or ()), TypedProblem("." + name, "field not declared in schema")]
        if type(inner) in FITTING[child.scalar]:
            continue
        if problems := _check(child, inner, duplicates):
            found = [*(found or ()), *_below("." + name, problems)]
    return found


def _check_list(view: ListView, value: list[Value], duplicates: bool) -> Problems | None:
    found: Problems = []
    seen: set[str | tuple[str]] = set()
    for index, inner in enumerate(value):
        if not view.atomic:
            # The one key of most items tells them apart as their path element does, which takes longer to make.
            identity: str | tuple[str] | None = view.text_key(inner)
            if identity is None:
                try:
                    identity = view.element(inner)
                except ElementError as error:
                    return [*found, TypedProblem("", f"element {index}: {error}")]
            if identity in seen and not duplicates:
                shown_key = described(view.element(inner), stored=False)
                found.append(TypedProblem("", f"duplicate entries for key {shown_key}"))
            seen.add(identity)
        if problems := _check(view.item, inner, duplicates):
            element = f"i:{index}" if view.atomic else view.element(inner)
            found += _below(described(element, stored=False), problems)
    return found or None


def _below(prefix: str, problems: Problems) -> Problems:
    for problem in problems:
        problem.path = prefix + problem.path
    return problems


def _check_scalar(form: Scalar | None, value: Value) -> Problems | None:
    if type(value) in FITTING[form]:
        return None
    said = {
        "string": f"expected string, got &value.valueUnstructured{{Value:{literal(value)}}}",
        "numeric": f"expected numeric (int or float), got {type_name(value)}",
        "boolean": f"expected boolean, got &{{{shown(value)}}}",
    }
    return [TypedProblem("", said.get(str(form), f"expected any scalar, got &{{{shown(value)}}}"))]
