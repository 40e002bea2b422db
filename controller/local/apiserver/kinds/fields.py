# SPDX-License-Identifier: Apache-2.0
"""Errors of fields, worded as the real server words them."""

import json
from collections.abc import Iterable
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.merge.apply import values


def quoted(text: str) -> str:
    """A text in double quotes, as Go's %q writes it."""
    return values.quoted(text)


def shown(value: Any) -> str:
    """A wrong value in a message."""
    if isinstance(value, str):
        return quoted(value)
    return as_go_json(value)


def as_go_json(value: Any, *, indented: bool = False) -> str:
    """JSON as Go writes it."""
    if indented:
        text = json.dumps(value, indent=1, ensure_ascii=False)
    else:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return values.escaped(text)


def required(field: str, detail: str = "") -> DocumentError:
    """Nothing is there."""
    return DocumentError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def wrong(field: str, value: Any, detail: str = "") -> DocumentError:
    """The value is malformed."""
    text = f"Invalid value: {shown(value)}"
    return DocumentError("FieldValueInvalid", field, f"{text}: {detail}" if detail else text)


def wrong_without_value(field: str, detail: str) -> DocumentError:
    """The value is malformed, and too large or too intricate to be shown."""
    return DocumentError("FieldValueInvalid", field, f"Invalid value: {detail}")


def duplicate(field: str, value: Any) -> DocumentError:
    """The value is there twice."""
    return DocumentError("FieldValueDuplicate", field, f"Duplicate value: {shown(value)}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> DocumentError:
    """The value is none of those that are possible."""
    text = ", ".join(quoted(one) for one in supported)
    message = f"Unsupported value: {shown(value)}: supported values: {text}"
    return DocumentError("FieldValueNotSupported", field, message)


def not_allowed(field: str, detail: str) -> DocumentError:
    """The value is well-formed, but may not be there."""
    return DocumentError("FieldValueForbidden", field, f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> DocumentError:
    """A text has too many bytes."""
    return DocumentError(
        "FieldValueTooLong", field, f"Too long: may not be more than {limit} {'byte' if limit == 1 else 'bytes'}"
    )


def missing(field: str, value: Any, detail: str = "") -> DocumentError:
    """What the value names is not there."""
    text = f"Not found: {shown(value)}"
    return DocumentError("FieldValueNotFound", field, f"{text}: {detail}" if detail else text)


def too_many(field: str, count: int, most: int) -> DocumentError:
    """A list has too many items."""
    text = f"Too many: {count}: must have at most {most} {'item' if most == 1 else 'items'}"
    return DocumentError("FieldValueTooMany", field, text)
