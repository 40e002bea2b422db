# SPDX-License-Identifier: Apache-2.0
"""Reading documents: parts that may be absent, and paths such as `spec.rules[*].host`, which rules walk."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from trainwright.api.objects import Document

Place = tuple[str, Any]
"""Where something is, such as `spec.rules[0].host`, and what is there."""


def places(document: Document, path: str, where: str = "") -> Iterator[Place]:
    """What is at a path, whose step `x[*]` is each item of `x`. A last step that leads nowhere gives None.

    `where` is the place of the document; an empty path is the document.
    """
    if not path:
        yield where, document
        return
    step, _, rest = path.partition(".")
    name = step.removesuffix("[*]")
    held, here = document.get(name), f"{where}.{name}" if where else name
    if name != step:
        for index, item in enumerate(held or ()):
            if not rest:
                yield f"{here}[{index}]", item
            elif isinstance(item, dict):
                yield from places(item, rest, f"{here}[{index}]")
    elif not rest:
        yield here, held
    elif isinstance(held, dict):
        yield from places(held, rest, here)


@cache
def values_of(path: str) -> Callable[[Document], Iterable[Any]]:
    """What finds the values at the places of a path. It is compiled, because rules of all objects use it."""
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


def value_at(document: Document, path: str) -> Any:
    """The value at a path without `[*]`; None where the path leads nowhere."""
    if "." not in path:
        return document.get(path)
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


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
