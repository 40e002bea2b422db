# SPDX-License-Identifier: Apache-2.0
"""Errors of fields, with the texts that the API server writes.

Source of the texts: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from trainwright.controller.local.values import json_text, quoted


class DocumentError(NamedTuple):
    """One error, with the fields of an entry of `causes` in a Status."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field or '<root>'}: {self.message}"


REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"
INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
WRONG_TYPE: Final = "FieldValueTypeInvalid"
NOT_FOUND: Final = "FieldValueNotFound"
INTERNAL: Final = "InternalError"

BLOCKING: Final = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, WRONG_TYPE})
"""After one of these no CEL rule is evaluated."""

NOWHERE: Final = "<nil>"
"""The field of an error without a path, as Go prints it."""

_TITLES: Final = {
    REQUIRED: "Required value",
    DUPLICATE: "Duplicate value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    WRONG_TYPE: "Invalid value",
    NOT_FOUND: "Not found",
    INTERNAL: "Internal error",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG, INTERNAL})


class _Omitted:
    """Stands for a value that is not shown."""


OMITTED: Final = _Omitted()


def error(reason: str, field: str, value: Any = "", detail: str = "") -> DocumentError:
    """A field error. The value is shown unless it is OMITTED or errors of this reason do not show one."""
    message = _TITLES[reason]
    if reason not in _WITHOUT_VALUE and value is not OMITTED:
        message += f": {_value_text(value)}"
    return DocumentError(reason, field, f"{message}: {detail}" if detail else message)


def _value_text(value: Any) -> str:
    return quoted(value) if type(value) is str else json_text(value)


def required(field: str, detail: str = "") -> DocumentError:
    return error(REQUIRED, field, detail=detail)


def invalid(field: str, value: Any, detail: str = "") -> DocumentError:
    return error(INVALID, field, value, detail)


def invalid_unshown(field: str, detail: str) -> DocumentError:
    """A value breaks a rule, and is too large or too intricate to be shown."""
    return error(INVALID, field, OMITTED, detail)


def forbidden(field: str, detail: str) -> DocumentError:
    return error(FORBIDDEN, field, detail=detail)


def duplicate(field: str, value: Any) -> DocumentError:
    return error(DUPLICATE, field, value)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> DocumentError:
    """A value is none of those that are allowed."""
    listed = ", ".join(map(quoted, supported))
    return error(NOT_SUPPORTED, field, value, f"supported values: {listed}" if listed else "")


def too_long(field: str, limit: int) -> DocumentError:
    """A string is too long. The server speaks of bytes also where it counts characters."""
    return error(TOO_LONG, field, detail=f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(field: str, actual: int, limit: int) -> DocumentError:
    return error(TOO_MANY, field, actual, f"must have at most {limit} {'item' if limit == 1 else 'items'}")


def not_found(field: str, value: Any, detail: str = "") -> DocumentError:
    return error(NOT_FOUND, field, value, detail)
