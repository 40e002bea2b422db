# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in an apply, with the status that the API server answers.

ApplyError
├── BadRequestError      400 BadRequest: the document cannot be an apply of this kind
├── ConflictError        409 Conflict: another manager owns a field that the document would change
└── InternalError        500 without a reason: the document or the stored object does not fit the schema
    └── EntryError       an entry of managedFields cannot be read
SchemaError              the schema cannot be compiled; a CRD with it should have been refused
MissingVersionError      an unknown version; fields owned in it are forgotten
ConversionError          an object cannot be converted to a version that an owner names

The texts are those of Kubernetes, because clients match on them: that typing errors are answered 500 is its behaviour.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar


class ApplyError(Exception):
    """The apply or update is refused; the text is the message of the Status."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""


class BadRequestError(ApplyError):
    """The document names another kind or version, or carries managedFields."""

    code = 400
    reason = "BadRequest"


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One field of `details.causes`."""

    message: str
    field: str
    reason: str = "FieldManagerConflict"


class ConflictError(ApplyError):
    """Other managers own fields that the document would change."""

    code = 409
    reason = "Conflict"

    def __init__(self, message: str, causes: tuple[FieldCause, ...]) -> None:
        super().__init__(message)
        self.causes = causes


class InternalError(ApplyError):
    """A document does not fit its schema."""


class EntryError(InternalError):
    """An entry of managedFields cannot be read."""


class SchemaError(Exception):
    """A schema cannot be compiled."""


class MissingVersionError(Exception):
    """A version of a kind is not known: fields owned in it are forgotten."""


class ConversionError(Exception):
    """An object cannot be converted; the text says why."""


@contextmanager
def during(what: str) -> Iterator[None]:
    """Say what failed, before what an InternalError of the block says."""
    try:
        yield
    except InternalError as error:
        raise InternalError(f"{what}: {error}") from error
