# SPDX-License-Identifier: Apache-2.0
"""Errors of fields, with the texts that the API server writes, and problems that do not know their path yet.

Source of the texts: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from trainwright.api.validation import DocumentError
from trainwright.controller.local.values import Step, join, json_text, path_text, quoted, shown

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
    kind = type(value)
    if kind is str:
        return quoted(value)
    return shown(value) if kind in (int, float, bool) else json_text(value)


def required(field: str, detail: str = "") -> DocumentError:
    """A value is missing."""
    return error(REQUIRED, field, detail=detail)


def invalid(field: str, value: Any, detail: str = "") -> DocumentError:
    """A value breaks a rule."""
    return error(INVALID, field, value, detail)


def invalid_unshown(field: str, detail: str) -> DocumentError:
    """A value breaks a rule, and is too large or too intricate to be shown."""
    return error(INVALID, field, OMITTED, detail)


def forbidden(field: str, detail: str) -> DocumentError:
    """A value is valid in itself but not allowed here."""
    return error(FORBIDDEN, field, detail=detail)


def duplicate(field: str, value: Any) -> DocumentError:
    """A value is there twice."""
    return error(DUPLICATE, field, value)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> DocumentError:
    """A value is none of those that are allowed."""
    listed = ", ".join(map(quoted, supported))
    return error(NOT_SUPPORTED, field, value, f"supported values: {listed}" if listed else "")


def too_long(field: str, limit: int) -> DocumentError:
    """A string is too long. The server speaks of bytes also where it counts characters."""
    return error(TOO_LONG, field, detail=f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(field: str, actual: int, limit: int) -> DocumentError:
    """A list or map has too many entries."""
    return error(TOO_MANY, field, actual, f"must have at most {limit} {'item' if limit == 1 else 'items'}")


def not_found(field: str, value: Any, detail: str = "") -> DocumentError:
    """What the value names is not there."""
    return error(NOT_FOUND, field, value, detail)


class SchemaProblem:
    """One thing that is wrong with a value."""

    __slots__ = ("fixed", "nowhere", "reason", "steps", "text", "value")

    def __init__(
        self,
        text: str,
        value: Any = "",
        *,
        reason: str = INVALID,
        steps: list[Step] | None = None,
        nowhere: bool = False,
    ) -> None:
        self.text = text
        self.value = value
        self.reason = reason
        self.steps: list[Step] = steps or []
        """The way to the value, backwards."""
        self.nowhere = nowhere
        """The server names the field in the text only."""
        self.fixed = 0
        """So many of the first steps lie in `anyOf`, `allOf` or `oneOf`: unchanged values are not excused there."""

    @property
    def name(self) -> str:
        """The path from where the check started, such as `spec.jobs[0].name`; empty for the start."""
        return path_text(reversed(self.steps))

    def located(self, base: str = "") -> DocumentError:
        """The error; `base` is the path of where the check started."""
        name = self.name
        if self.nowhere:
            return error(self.reason, base or NOWHERE, self.value, f"{quoted(name)} {self.text}")
        return error(self.reason, join(base, name) or NOWHERE, self.value, self.text)


Check = Callable[[Any], list[SchemaProblem] | None]
"""Looks at a value of one type; None or an empty list if nothing is wrong."""

Checks = dict[type, tuple[Check, ...]]
"""What is checked of a value, by its type."""

TYPES: tuple[type, ...] = (dict, list, str, int, float, bool, type(None))
"""The types of JSON values."""


def run(checks: Checks, value: Any) -> list[SchemaProblem]:
    """All problems of a value."""
    found: list[SchemaProblem] = []
    for check in checks[type(value)]:
        problems = check(value)
        if problems:
            found += problems
    return found
