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
from trainwright.controller.local.apiserver.merge.apply.values import Value, equal, literal, shown, type_name


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


def unlike(document: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """What there is to check of a document if another one fits: its maps without the fields that are equal in both."""
    left: dict[str, Value] = {}
    for name, value in document.items():
        known = other.get(name)
        if value is None or not equal(value, known):
            left[name] = unlike(value, known) if type(value) is dict and type(known) is dict else value
    return left


def _check(view: SchemaView, value: Value, duplicates: bool) -> Problems | None:
    # What fits comes first.
    if type(value) is dict and view.fields is not None:
        return _check_map(view.fields, value, duplicates)
    if type(value) is list and view.items is not None:
        return _check_list(view.items, value, duplicates)
    if value is None:
        return None
    form = part(view, value)
    if type(form) is MapView or type(form) is ListView:
        what = "map" if type(form) is MapView else "list"
        return [TypedProblem("", f"expected {what}, got &{{{shown(value)}}}")]
    return _check_scalar(form, value)  # type: ignore[arg-type]


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
    seen: set[str] = set()
    texts = None if view.atomic else view.texts(value)
    apart = view.atomic or (texts is not None and (duplicates or len(set(texts)) == len(texts)))
    for index, inner in enumerate(value):
        if not apart:
            try:
                identity = view.element(inner)
            except ElementError as error:
                return [*found, TypedProblem("", f"element {index}: {error}")]
            if identity in seen and not duplicates:
                found.append(TypedProblem("", f"duplicate entries for key {described(identity, stored=False)}"))
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
