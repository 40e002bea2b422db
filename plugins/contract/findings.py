# SPDX-License-Identifier: Apache-2.0
"""The results of validation: field errors, which refuse a TrainJob, and warnings, which are shown to the user.

Field errors have the types and the text form of Kubernetes' own errors, so clients that parse those can parse these.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from trainwright.api.messages import value_text


class ErrorType(Enum):
    """Why a field is refused; the value is the `reason` of a cause in an API status."""

    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"
    REQUIRED = "FieldValueRequired"
    NOT_FOUND = "FieldValueNotFound"
    DUPLICATE = "FieldValueDuplicate"
    INTERNAL = "InternalError"


_TITLES = {
    ErrorType.INVALID: "Invalid value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.REQUIRED: "Required value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INTERNAL: "Internal error",
}
_WITH_VALUE = frozenset({ErrorType.INVALID, ErrorType.NOT_FOUND, ErrorType.DUPLICATE})
_VALUE_LIMIT = 120


@dataclass(frozen=True, slots=True)
class FieldError:
    """One reason to refuse a TrainJob."""

    path: str
    """The field, from the root of the TrainJob, such as `spec.trainer.args[0]`."""
    type: ErrorType
    message: str
    value: Any = None
    """The refused value, shown by INVALID, NOT_FOUND and DUPLICATE."""
    plugin: str = ""
    """The plugin that found it; filled in by the pipeline."""

    def __str__(self) -> str:
        """As Kubernetes writes it: path, kind of error, value, message."""
        shown = f": {value_text(self.value, _VALUE_LIMIT)}" if self.type in _WITH_VALUE else ""
        return f"{self.path}: {_TITLES[self.type]}{shown}: {self.message}"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning. The TrainJob is accepted all the same."""

    message: str
    plugin: str = ""

    def __str__(self) -> str:
        return self.message


Finding: TypeAlias = FieldError | Warned
"""What `validate` yields."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings, in the order of the plugins."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[Warned, ...] = field(default=())

    @property
    def allowed(self) -> bool:
        """Whether the job is accepted."""
        return not self.errors

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> "Verdict":
        """Split findings into errors and warnings, each in the given order."""
        found = tuple(findings)
        return cls(
            errors=tuple(finding for finding in found if isinstance(finding, FieldError)),
            warnings=tuple(finding for finding in found if isinstance(finding, Warned)),
        )


def invalid(path: str, value: Any, message: str) -> FieldError:
    """The field has a value that cannot be used."""
    return FieldError(path, ErrorType.INVALID, message, value)


def forbidden(path: str, message: str) -> FieldError:
    """The field must not be set, or not at this time."""
    return FieldError(path, ErrorType.FORBIDDEN, message)


def required(path: str, message: str) -> FieldError:
    """The field must be set."""
    return FieldError(path, ErrorType.REQUIRED, message)


def internal(path: str, message: str) -> FieldError:
    """The field could not be checked."""
    return FieldError(path, ErrorType.INTERNAL, message)
