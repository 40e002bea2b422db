# SPDX-License-Identifier: Apache-2.0
"""Reading parts of a document that may be absent or null."""

from typing import Any

from trainwright.api.objects import Document


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
