# SPDX-License-Identifier: Apache-2.0
"""Errors of fields, with the texts that the API server writes.

FieldError     one field is wrong; an entry of `details.causes` of a Status with code 422
DecodeError    a document cannot be read as its kind; 400
SchemaError    a schema cannot be compiled; a CRD with it should have been refused

Source of the texts: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from trainwright.controller.local.apiserver.merge.apply.values import json_text, quoted, shown

REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"
INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
WRONG_TYPE: Final = "FieldValueTypeInvalid"
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
    INTERNAL: "Internal error",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG, INTERNAL})


class DocumentDecodeError(ValueError):
    """A document cannot be read as an object of its kind; the text is that of the decoder."""


class SchemaError(ValueError):
    """A schema cannot be compiled."""


class SchemaFieldError(NamedTuple):
    """One wrong field."""

    reason: str
    """Such as `FieldValueInvalid`."""
    field: str
    """The path, such as `spec.jobs[0].name`; `<nil>` where the server gives none."""
    message: str
    """Title, value and detail: `Invalid value: "a": must be b`."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def cause(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class _Omitted:
    """Stands for a value that is not shown."""


OMITTED: Final = _Omitted()


def error(reason: str, field: str, value: Any = "", detail: str = "") -> SchemaFieldError:
    """A field error. The value is shown unless it is OMITTED or errors of this reason do not show one."""
    message = _TITLES[reason]
    if reason not in _WITHOUT_VALUE and value is not OMITTED:
        message += f": {_value_text(value)}"
    return SchemaFieldError(reason, field, f"{message}: {detail}" if detail else message)


def _value_text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return quoted(value)
    return shown(value) if kind in (int, float, bool) else json_text(value)


def required(field: str, detail: str = "") -> SchemaFieldError:
    """A value is missing."""
    return error(REQUIRED, field, detail=detail)


def invalid(field: str, value: Any, detail: str) -> SchemaFieldError:
    """A value breaks a rule."""
    return error(INVALID, field, value, detail)


def forbidden(field: str, detail: str) -> SchemaFieldError:
    """A value is valid in itself but not allowed here."""
    return error(FORBIDDEN, field, detail=detail)


def duplicate(field: str, value: Any) -> SchemaFieldError:
    """A value is there twice."""
    return error(DUPLICATE, field, value)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> SchemaFieldError:
    """A value is none of those that are allowed."""
    listed = ", ".join(map(quoted, supported))
    return error(NOT_SUPPORTED, field, value, f"supported values: {listed}" if listed else "")


def too_long(field: str, limit: int) -> SchemaFieldError:
    """A string is too long. The server speaks of bytes also where it counts characters."""
    return error(TOO_LONG, field, detail=f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(field: str, actual: int, limit: int) -> SchemaFieldError:
    """A list or map has too many entries."""
    return error(TOO_MANY, field, actual, f"must have at most {limit} {'item' if limit == 1 else 'items'}")


def causes(errors: Iterable[SchemaFieldError]) -> list[dict[str, str]]:
    """The entries of `details.causes`: one for each error, repeated ones too."""
    return [one.cause for one in errors]


def summary(errors: Sequence[SchemaFieldError]) -> str:
    """What the Status says after `… is invalid: `: one text, or a list in brackets without repetitions."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
