# SPDX-License-Identifier: Apache-2.0
"""What validation says of a TrainJob: field errors, which refuse it, and warnings, which are shown to the user.

Field errors have the types and the form of Kubernetes' own, so clients that parse them keep working.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import msgspec


class ErrorType(Enum):
    """Why a field is refused; the value is the reason of a cause in an API status."""

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
    """One reason to refuse."""

    path: str
    """From the root of the TrainJob, such as `spec.trainer.args[0]`."""
    type: ErrorType
    message: str
    value: Any = None
    """The refused value, for the types that show one."""
    plugin: str = ""
    """Who found it; filled in by the pipeline."""

    def __str__(self) -> str:
        """As Kubernetes writes it: path, kind of error, value, message."""
        shown = f": {_shown(self.value)}" if self.type in _WITH_VALUE else ""
        return f"{self.path}: {_TITLES[self.type]}{shown}: {self.message}"


@dataclass(frozen=True, slots=True)
class Warned:
    """One thing to tell the user, who gets the object anyway."""

    message: str
    plugin: str = ""

    def __str__(self) -> str:
        return self.message


Finding: TypeAlias = FieldError | Warned
"""What a validation yields."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that validation found, in the order of the plugins."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[Warned, ...] = field(default=())

    @property
    def allowed(self) -> bool:
        """Whether nothing refuses the job."""
        return not self.errors

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> "Verdict":
        """Sort findings into errors and warnings; their order stays."""
        found = tuple(findings)
        return cls(
            errors=tuple(finding for finding in found if isinstance(finding, FieldError)),
            warnings=tuple(finding for finding in found if isinstance(finding, Warned)),
        )


def invalid(path: str, value: Any, message: str) -> FieldError:
    """The value cannot be used."""
    return FieldError(path, ErrorType.INVALID, message, value)


def forbidden(path: str, message: str) -> FieldError:
    """The field may not be set, or not now."""
    return FieldError(path, ErrorType.FORBIDDEN, message)


def required(path: str, message: str) -> FieldError:
    """The field must be set."""
    return FieldError(path, ErrorType.REQUIRED, message)


def internal(path: str, message: str) -> FieldError:
    """Something else prevented a decision."""
    return FieldError(path, ErrorType.INTERNAL, message)


def _shown(value: Any) -> str:
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
    return text if len(text) <= _VALUE_LIMIT else text[:_VALUE_LIMIT] + "…"
