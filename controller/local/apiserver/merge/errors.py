# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in an apply or a patch, with the status that the API server answers.

That typing errors, and a strategic merge patch without a merge key, are answered 500 is the behaviour of Kubernetes.
Clients match on the texts of conflicts.
"""

from dataclasses import dataclass
from typing import Any, ClassVar


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


class PatchError(Exception):
    """The patch is refused; the text is the message of the Status."""

    code: ClassVar[int]
    reason: ClassVar[str]
    details: dict[str, Any] | None = None
    """`details` of the Status; None where it has none."""


class MalformedPatchError(PatchError):
    """The body is not a patch of its type."""

    code = 400
    reason = "BadRequest"


class UnappliedPatchError(PatchError):
    """An operation of a JSON patch fails, or a patch merges lists of lists.

    Attributes:
        cause: which operation, and why. The API server keeps that to itself; it is for logs.
    """

    code = 422
    reason = "Invalid"

    def __init__(self, cause: str) -> None:
        super().__init__("the server rejected our request due to an error in our request")
        self.cause = cause
        self.details = {}


class BrokenPatchError(PatchError):
    """A strategic merge patch does not fit the object, or its directives contradict it."""

    code = 500
    reason = ""
