# SPDX-License-Identifier: Apache-2.0
"""Schemas of one field, and what the server says of a value of it."""

from typing import Any

from trainwright.controller.local.apiserver.kinds.custom import Schema

Document = dict[str, Any]


def root(field: Document, **words: Any) -> Document:
    """A schema with one field, `x`."""
    return {"type": "object", "properties": {"x": field}, **words}


def errors(field: Document, value: Any, old: Any = None, **words: Any) -> list[str]:
    """What is wrong with a value of a field: reason without its prefix, field and message."""
    before = {"x": old} if old is not None else None
    found = Schema(root(field, **words)).validate({"x": value}, before)
    return [f"{one.reason.removeprefix('FieldValue')} {one}" for one in found]


def decoded(field: Document, value: Any) -> tuple[Any, list[str]]:
    """A value after pruning and defaulting, and what was dropped."""
    document = {"x": value}
    schema = Schema(root(field))
    dropped = schema.prune(document)
    schema.default(document)
    return document.get("x", "absent"), dropped
