# SPDX-License-Identifier: Apache-2.0
"""Reading documents: parts that may be absent, and paths such as `spec.rules[*].host`, which rules walk."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from trainwright.api.objects import Document

Place = tuple[str, Any]
"""Where something is, such as `spec.rules[0].host`, and what is there."""
Walk = Callable[[Document, str], Iterable[Place]]
"""The places of a path in a document; the second argument is where the document is."""


def places(document: Document, path: str) -> Iterable[Place]:
    """What is at a path, whose step `x[*]` is each item of `x`. A last step that leads nowhere gives None."""
    return walk_of(path)(document, "")


@cache
def walk_of(path: str) -> Walk:
    """What finds the places of a path."""
    if not path:
        return lambda document, where: ((where, document),)
    step, _, rest = path.partition(".")
    if step.endswith("[*]"):
        return _items(step.removesuffix("[*]"), walk_of(rest))
    return _inner(step, walk_of(rest)) if rest else _field(step)


def _field(name: str) -> Walk:
    def walk(document: Document, where: str) -> Iterable[Place]:
        return ((f"{where}.{name}" if where else name, document.get(name)),)

    return walk


def _inner(name: str, rest: Walk) -> Walk:
    def walk(document: Document, where: str) -> Iterable[Place]:
        held = document.get(name)
        return rest(held, f"{where}.{name}" if where else name) if isinstance(held, dict) else ()

    return walk


def _items(name: str, rest: Walk) -> Walk:
    def walk(document: Document, where: str) -> Iterable[Place]:
        items = document.get(name)
        if not items:
            return ()
        here = f"{where}.{name}" if where else name
        plain = rest is walk_of("")
        return [
            place
            for index, item in enumerate(items)
            if plain or isinstance(item, dict)
            for place in rest(item, f"{here}[{index}]")
        ]

    return walk


@cache
def values_of(path: str) -> Callable[[Document], Iterable[Any]]:
    """What finds the values at the places of a path, without saying where they are."""
    if not path:
        return lambda document: (document,)
    step, _, rest = path.partition(".")
    name, inner = step.removesuffix("[*]"), values_of(rest)
    if name != step:
        if not rest:
            return lambda document: document.get(name) or ()
        return lambda document: [
            value for item in document.get(name) or () if isinstance(item, dict) for value in inner(item)
        ]
    if not rest:
        return lambda document: (document.get(name),)

    def found(document: Document) -> Iterable[Any]:
        held = document.get(name)
        return inner(held) if isinstance(held, dict) else ()

    return found


@cache
def value_of(path: str) -> Callable[[Document], Any]:
    """What reads the value at a path without `[*]`; None where the path leads nowhere."""
    steps = path.split(".")
    if len(steps) == 1:
        return lambda document: document.get(path)

    def read(document: Document) -> Any:
        value: Any = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    return read


def part(document: Document, field: str) -> Document:
    """The object at a field, or an empty one that is not stored in the document."""
    found: Document = document.get(field) or {}
    return found


def entries(document: Document, field: str) -> list[Document]:
    """The list of objects at a field. The objects are those of the document, the list may not be."""
    found: list[Document] = document.get(field) or []
    return found


def texts(document: Document, field: str) -> list[str]:
    """The list of strings at a field."""
    found: list[str] = document.get(field) or []
    return found


def ensure(document: Document, field: str, value: Any) -> None:
    """Set a field whose Go type is a pointer, unless it is set."""
    if document.get(field) is None:
        document[field] = value


def ensure_filled(document: Document, field: str, value: Any) -> None:
    """Set a field whose Go type is no pointer: its zero value counts as absent."""
    if not document.get(field):
        document[field] = value
