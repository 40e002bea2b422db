# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview on the wire: `admission.k8s.io` v1 and v1beta1.

Objects stay encoded until their model is known. A request that cannot be read is `MalformedReview`. Its answer names
neither version nor uid, because neither is known.
"""

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.api.messages import plain
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import ApiError, ErrorCause
from trainwright.controller.runtime.webhook.jsonpatch import Operation

VERSIONS = frozenset({"admission.k8s.io/v1", "admission.k8s.io/v1beta1"})
_KIND = "AdmissionReview"


class MalformedReview(Exception):  # noqa: N818 - an error of the client
    """The body is not a review; `code` is an HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class GroupResource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class ReviewRequest(msgspec.Struct, kw_only=True):
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
    """API version of the review; set after decoding."""


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: ReviewRequest | None = None


_DECODER = msgspec.json.Decoder(_Review)
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResponse:
    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[ErrorCause, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    """For the audit log."""


def read_review(body: bytes) -> ReviewRequest:
    """Decode the request of a review. Raises MalformedReview."""
    try:
        review = nesting.decode(_DECODER, body)
    except msgspec.MsgspecError as error:
        raise MalformedReview(400, f"the body is not an AdmissionReview: {error}") from error
    if review.kind != _KIND or review.api_version not in VERSIONS:
        raise MalformedReview(
            400,
            f"the body has kind {review.kind or 'none'} and apiVersion {review.api_version or 'none'};"
            f" send {_KIND} of {' or '.join(sorted(VERSIONS))}",
        )
    if review.request is None:
        raise MalformedReview(400, "the AdmissionReview has no request")
    review.request.api_version = review.api_version
    return review.request


def write_review(request: ReviewRequest, response: ReviewResponse) -> bytes:
    """Encode the review that answers a request, with its uid and version."""
    causes = [{"reason": c.reason, "message": c.message, "field": c.field} for c in response.causes]
    about = {
        "status": "" if response.allowed else "Failure",
        "message": response.message,
        "reason": response.reason,
        "details": {"causes": causes} if causes else None,
    }
    written: dict[str, Any] = {"uid": request.uid, "allowed": response.allowed}
    written["status"] = {"metadata": {}, "code": response.code, **{name: one for name, one in about.items() if one}}
    if response.patch:
        written["patchType"] = "JSONPatch"
        written["patch"] = base64.b64encode(_ENCODER.encode(response.patch)).decode()
    if response.warnings:
        # kube-apiserver drops a warning with a line break or a tab.
        written["warnings"] = [" ".join(plain(warning).split()) for warning in response.warnings]
    if response.annotations:
        written["auditAnnotations"] = response.annotations
    return _ENCODER.encode({"kind": _KIND, "apiVersion": request.api_version, "response": written})


def write_malformed(error: MalformedReview) -> bytes:
    status = {"metadata": {}, "code": error.code, "message": str(error), "status": "Failure"}
    return _ENCODER.encode({"response": {"uid": "", "allowed": False, "status": status}})


def passed_through(error: ApiError) -> ReviewResponse:
    """The response for an API error that a handler has raised: the same error."""
    return ReviewResponse(
        allowed=False, code=error.status, reason=error.reason, message=error.message, causes=tuple(error.causes)
    )
