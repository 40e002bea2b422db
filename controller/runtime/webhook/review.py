# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview on the wire: `admission.k8s.io` v1 and v1beta1 (M-35 to M-39).

Objects stay undecoded until it is known which model they are of. What cannot be read is `Malformed`; its answer is a
review that names neither version nor uid, because neither is known.
"""

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import ApiError, Cause
from trainwright.controller.runtime.webhook.jsonpatch import Operation

VERSIONS = frozenset({"admission.k8s.io/v1", "admission.k8s.io/v1beta1"})
_KIND = "AdmissionReview"


class Malformed(Exception):  # noqa: N818 - it is the request that is wrong
    """A body that is no question; `code` as in HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class GroupResource(msgspec.Struct, frozen=True):
    """What kind of thing is asked about."""

    group: str = ""
    version: str = ""
    resource: str = ""


class Question(msgspec.Struct, kw_only=True):
    """One `request`."""

    uid: str
    operation: str
    resource: GroupResource = GroupResource()
    subresource: str = msgspec.field(name="subResource", default="")
    name: str = ""
    namespace: str = ""
    user: UserInfo = msgspec.field(name="userInfo", default_factory=UserInfo)
    dry_run: bool | None = msgspec.field(name="dryRun", default=None)
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.field(name="oldObject", default=msgspec.Raw(b"null"))
    api_version: str = ""
    """Of the review; filled in after decoding."""


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: Question | None = None


_DECODER = msgspec.json.Decoder(_Review)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler decided."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    """For the audit log."""


def read(body: bytes) -> Question:
    """The question in a body. Raises Malformed."""
    try:
        review = nesting.decode(_DECODER, body)
    except msgspec.MsgspecError as error:
        raise Malformed(400, f"the body is no AdmissionReview: {error}") from error
    if review.kind != _KIND or review.api_version not in VERSIONS:
        raise Malformed(
            400,
            f"the body is {review.kind or 'of no kind'} of {review.api_version or 'no version'};"
            f" {_KIND} of {' or '.join(sorted(VERSIONS))} is understood",
        )
    if review.request is None:
        raise Malformed(400, "the AdmissionReview holds no request")
    review.request.api_version = review.api_version
    return review.request


def write(question: Question, answer: Answer) -> bytes:
    """The review that answers a question; the uid and the version are the question's."""
    response: dict[str, Any] = {"uid": question.uid, "allowed": answer.allowed}
    status: dict[str, Any] = {"metadata": {}, "code": answer.code}
    if not answer.allowed:
        status["status"] = "Failure"
    if answer.message:
        status["message"] = answer.message
    if answer.reason:
        status["reason"] = answer.reason
    if answer.causes:
        status["details"] = {
            "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in answer.causes]
        }
    response["status"] = status
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_ENCODER.encode(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.annotations:
        response["auditAnnotations"] = answer.annotations
    return _ENCODER.encode({"kind": _KIND, "apiVersion": question.api_version, "response": response})


def write_malformed(error: Malformed) -> bytes:
    """The review that answers what was no question."""
    status = {"metadata": {}, "code": error.code, "message": str(error), "status": "Failure"}
    return _ENCODER.encode({"response": {"uid": "", "allowed": False, "status": status}})


def passed_through(error: ApiError) -> Answer:
    """An API error that a handler met is the answer (M-38)."""
    return Answer(
        allowed=False, code=error.status, reason=error.reason, message=error.message, causes=tuple(error.causes)
    )
