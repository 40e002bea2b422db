# SPDX-License-Identifier: Apache-2.0
"""What can go wrong in a patch, with the Status that the API server answers.

PatchError
├── MalformedPatchError   400 BadRequest: the body is not a patch
├── UnappliedPatchError   422 Invalid: a JSON patch does not apply; its message names no reason
├── RejectedResultError   422 Invalid: the patched object cannot be decoded, or has unknown fields
└── BrokenPatchError      500 without a reason: a strategic merge patch does not fit the object

The messages are those of Kubernetes, because clients match on them: that a strategic merge patch without a merge key is
answered 500 is its behaviour.
"""

from typing import Any, ClassVar

from trainwright.controller.local.apiserver.merge.apply.values import quoted

Document = dict[str, Any]


class PatchError(Exception):
    """The patch is refused; the text is the message of the Status."""

    code: ClassVar[int]
    reason: ClassVar[str]
    details: Document | None = None
    """`details` of the Status; None where it has none."""

    @property
    def status(self) -> Document:
        """The Status that is answered."""
        made: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        made["message"] = str(self)
        if self.reason:
            made["reason"] = self.reason
        if self.details is not None:
            made["details"] = self.details
        return made | {"code": self.code}


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


class RejectedResultError(PatchError):
    """What a patch made is not an object of the kind.

    Args:
        value: the patched object as JSON.
        problem: such as `strict decoding error: unknown field "spec.x"`.
    """

    code = 422
    reason = "Invalid"

    def __init__(self, value: str, problem: str) -> None:
        # Kubernetes names neither kind nor object here, which leaves a blank and empty quotes.
        said = f"Invalid value: {quoted(value)}: {problem}"
        super().__init__(f' "" is invalid: patch: {said}')
        self.details = {"causes": [{"reason": "FieldValueInvalid", "message": said, "field": "patch"}]}


class BrokenPatchError(PatchError):
    """A strategic merge patch does not fit the object, or its directives contradict it."""

    code = 500
    reason = ""
