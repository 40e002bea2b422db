# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in a patch, with the Status that the API server answers.

PatchError
├── MalformedPatchError   400 BadRequest: the body is not a patch
├── UnappliedPatchError   422 Invalid: a JSON patch does not apply; its message names no reason
└── BrokenPatchError      500 without a reason: a strategic merge patch does not fit the object

That a strategic merge patch without a merge key is answered 500 is the behaviour of Kubernetes.
"""

from typing import Any, ClassVar

Document = dict[str, Any]


class PatchError(Exception):
    """The patch is refused; the text is the message of the Status."""

    code: ClassVar[int]
    reason: ClassVar[str]
    details: Document | None = None
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
