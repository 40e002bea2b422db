# SPDX-License-Identifier: Apache-2.0
"""Admission with typed objects: decodes a review, calls a validator or a defaulter, encodes the response.

A validator gets the old and the new object and returns an `AdmissionResponse` with all errors, not only the first. A
defaulter changes the new object. The JSON patch holds exactly its changes, so fields that the model does not know stay
as they are. Both are plain functions, or coroutines if they must wait.

Caveats: a mutating webhook is called before the API server validates the object against its schema.

* A new object that does not fit its model passes the mutating webhook unchanged. The API server then reports all schema
  errors. What its schema check accepts nevertheless (such as an array in place of a time) the validating webhook
  refuses.
* A stored object that does not fit its model counts as absent, so that it can be repaired. Deletes, and updates that
  change the metadata alone, are allowed without a check.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.controller.runtime.errors import ApiError, DecodeError, ErrorCause
from trainwright.controller.runtime.kinds import codec_of
from trainwright.controller.runtime.webhook.jsonpatch import json_patch
from trainwright.controller.runtime.webhook.review import ReviewRequest, ReviewResponse, passed_through

log = logging.getLogger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as in the client

_ABSENT = b"null"


@dataclass(slots=True, kw_only=True)
class AdmissionRequest(Generic[O]):
    """A request to admit an object of a kind."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    new: O | None
    """The new object; None for DELETE. A defaulter changes it."""
    old: O | None
    """The stored object; None for CREATE, and for one that does not fit its model."""
    name: str
    """Empty if the server is going to generate it."""
    namespace: str
    subresource: str
    user: UserInfo
    dry_run: bool


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """What a validator returns. Without errors the object is admitted; the user sees the warnings in both cases."""

    errors: tuple[ErrorCause, ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    """Replaces the message that is made of the errors; not empty: refused."""
    code: int = 403
    reason: str = "Forbidden"
    annotations: dict[str, str] = field(default_factory=dict)


ALLOWED = AdmissionResponse()

Validator: TypeAlias = Callable[[AdmissionRequest[O]], AdmissionResponse | Awaitable[AdmissionResponse | None] | None]
Defaulter: TypeAlias = Callable[[AdmissionRequest[O]], Iterable[str] | Awaitable[Iterable[str] | None] | None]
"""Changes `new`; returns warnings, if any."""


class AdmissionHandler(Protocol):
    """Answers the reviews of one path."""

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Answer a review. An exception is a defect of the handler and is answered with 500."""
        ...


class Validating(Generic[O]):
    """A validator as a handler."""

    def __init__(self, kind: type[O], validator: Validator[O]) -> None:
        self.kind = kind
        self._validator = validator

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Validate; CONNECT is always allowed."""
        if review.operation == "CONNECT":
            return ReviewResponse(allowed=True)
        try:
            request = _request(self.kind, review)
        except DecodeError as error:
            if review.operation == "DELETE" or _changes_metadata_alone(review):
                _let_through(self.kind, review, error)
                return ReviewResponse(
                    allowed=True,
                    warnings=(f"allowed without a check, because the stored object cannot be decoded: {error}",),
                )
            return ReviewResponse(allowed=False, code=400, reason="BadRequest", message=str(error))
        try:
            found = self._validator(request)
            verdict = (await found if inspect.isawaitable(found) else found) or ALLOWED
        except ApiError as error:
            return passed_through(error)
        return _judged(verdict)


class Mutating(Generic[O]):
    """A defaulter as a handler."""

    def __init__(self, kind: type[O], defaulter: Defaulter[O]) -> None:
        self.kind = kind
        self._defaulter = defaulter

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Default; DELETE and CONNECT are allowed without calling the defaulter."""
        if review.operation in {"DELETE", "CONNECT"}:
            return ReviewResponse(allowed=True)
        try:
            request = _request(self.kind, review)
        except DecodeError as error:
            log.debug(
                "%s %s/%s: not defaulted, because it does not fit its model: %s",
                self.kind,
                review.namespace,
                review.name,
                error,
            )
            return ReviewResponse(allowed=True)
        before = msgspec.json.encode(request.new)
        try:
            found = self._defaulter(request)
            warnings = await found if inspect.isawaitable(found) else found
        except ApiError as error:
            return passed_through(error)
        after = msgspec.json.encode(request.new)
        patch = () if before == after else tuple(json_patch(msgspec.json.decode(before), msgspec.json.decode(after)))
        return ReviewResponse(allowed=True, patch=patch, warnings=tuple(warnings or ()))


def mutate_path(kind: type[Object]) -> str:
    """Path of the mutating webhook of a kind, as in controller-runtime."""
    return f"/mutate-{_dashed(kind.RESOURCE)}"


def validate_path(kind: type[Object]) -> str:
    """Path of the validating webhook of a kind, as in controller-runtime."""
    return f"/validate-{_dashed(kind.RESOURCE)}"


def _dashed(resource: Resource) -> str:
    return f"{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}"


def _request(kind: type[O], review: ReviewRequest) -> AdmissionRequest[O]:
    new = _decoded(kind, review.object, "object")
    try:
        old = _decoded(kind, review.old_object, "oldObject")
    except DecodeError as error:
        if new is None:
            raise
        _let_through(kind, review, error)
        old = None
    return AdmissionRequest(
        operation=review.operation,
        new=new,
        old=old,
        name=review.name,
        namespace=review.namespace,
        subresource=review.subresource,
        user=review.user,
        dry_run=bool(review.dry_run),
    )


def _let_through(kind: type[Object], review: ReviewRequest, error: DecodeError) -> None:
    where = f"{review.namespace}/{review.name}"
    log.warning(
        "%s %s: %s is allowed although the stored object cannot be decoded: %s",
        kind.RESOURCE.kind,
        where,
        review.operation,
        error,
    )


def _changes_metadata_alone(review: ReviewRequest) -> bool:
    """Whether an update changes only the metadata, such as the removal of a finalizer."""
    if review.operation != "UPDATE":
        return False
    new, old = (msgspec.json.decode(raw, type=dict[str, Any]) for raw in (review.object, review.old_object))
    return {**new, "metadata": None} == {**old, "metadata": None}


def _decoded(kind: type[O], raw: msgspec.Raw, what: str) -> O | None:
    if bytes(raw) == _ABSENT:
        return None
    try:
        return codec_of(kind).decode(raw)
    except DecodeError as error:
        raise DecodeError(f"{what}: {error}") from error


def _judged(verdict: AdmissionResponse) -> ReviewResponse:
    if not verdict.errors and not verdict.message:
        return ReviewResponse(allowed=True, warnings=verdict.warnings, annotations=verdict.annotations)
    return ReviewResponse(
        allowed=False,
        code=verdict.code,
        reason=verdict.reason,
        message=verdict.message or _together(verdict.errors),
        causes=verdict.errors,
        warnings=verdict.warnings,
        annotations=verdict.annotations,
    )


def _together(errors: tuple[ErrorCause, ...]) -> str:
    """All errors in one text, as Kubernetes formats them."""
    texts = [f"{error.field}: {error.message}" if error.field else error.message for error in errors]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
