# SPDX-License-Identifier: Apache-2.0
"""From a question to a function on models, and from what it found to an answer (M-37 to M-41).

A validator sees what is and what would be, and gives a Verdict with every reason to refuse, not the first. A defaulter
changes the object it is given; the patch holds exactly those changes, so a field that the model does not know is never
touched. Both are plain functions, or coroutines if they must wait.

Caveats: a mutating webhook sees objects before the API server checked them against their schema. One that does not fit
its model is let through untouched: the API server says everything that is wrong with it, and what it takes all the same
(an array where a time belongs) the validator refuses. What is stored and does not fit can be mended, labelled and
deleted: a stored object that cannot be read counts as absent, and neither a delete nor a change of metadata alone is
refused because of it.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.controller.runtime.errors import ApiError, Cause, DecodeError
from trainwright.controller.runtime.kinds import codec_of
from trainwright.controller.runtime.webhook.jsonpatch import diff
from trainwright.controller.runtime.webhook.review import Answer, Question, passed_through

log = logging.getLogger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as in the client

_ABSENT = b"null"


@dataclass(slots=True, kw_only=True)
class Admission(Generic[O]):
    """One question about objects of a kind."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    new: O | None
    """The object as it would be; None for DELETE. A defaulter may change it."""
    old: O | None
    """The object as it is; None for CREATE, and for one that is stored and does not fit its model."""
    name: str
    """Empty if the server is still to make one."""
    namespace: str
    subresource: str
    user: UserInfo
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validator found. Without errors it is allowed; warnings reach the user in both cases."""

    errors: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    message: str = ""
    """Instead of the errors put together."""
    code: int = 403
    reason: str = "Forbidden"
    annotations: dict[str, str] = field(default_factory=dict)


ALLOWED = Verdict()

Validator: TypeAlias = Callable[[Admission[O]], Verdict | Awaitable[Verdict | None] | None]
Defaulter: TypeAlias = Callable[[Admission[O]], Iterable[str] | Awaitable[Iterable[str] | None] | None]
"""Changes `new`; gives warnings, if any."""


class Handler(Protocol):
    """Answers the questions that come to one path."""

    async def answer(self, question: Question) -> Answer:
        """Decide. What it raises is a defect of the handler, and answered with 500."""
        ...


class Validating(Generic[O]):
    """A validator as a handler."""

    def __init__(self, kind: type[O], validator: Validator[O]) -> None:
        self.kind = kind
        self._validator = validator

    async def answer(self, question: Question) -> Answer:
        """CONNECT is always allowed (M-41)."""
        if question.operation == "CONNECT":
            return Answer(allowed=True)
        try:
            admission = _admission(self.kind, question)
        except DecodeError as error:
            if question.operation == "DELETE" or _changes_metadata_alone(question):
                _let_through(self.kind, question, error)
                return Answer(allowed=True, warnings=(f"not checked, because it cannot be read: {error}",))
            return Answer(allowed=False, code=400, reason="BadRequest", message=str(error))
        try:
            found = self._validator(admission)
            verdict = (await found if inspect.isawaitable(found) else found) or ALLOWED
        except ApiError as error:
            return passed_through(error)
        return _judged(verdict)


class Mutating(Generic[O]):
    """A defaulter as a handler."""

    def __init__(self, kind: type[O], defaulter: Defaulter[O]) -> None:
        self.kind = kind
        self._defaulter = defaulter

    async def answer(self, question: Question) -> Answer:
        """Not called for DELETE and CONNECT (M-40)."""
        if question.operation in {"DELETE", "CONNECT"}:
            return Answer(allowed=True)
        try:
            admission = _admission(self.kind, question)
        except DecodeError as error:
            log.debug("%s %s/%s: left to the API server: %s", self.kind, question.namespace, question.name, error)
            return Answer(allowed=True)
        before = msgspec.json.encode(admission.new)
        try:
            found = self._defaulter(admission)
            warnings = await found if inspect.isawaitable(found) else found
        except ApiError as error:
            return passed_through(error)
        after = msgspec.json.encode(admission.new)
        patch = () if before == after else tuple(diff(msgspec.json.decode(before), msgspec.json.decode(after)))
        return Answer(allowed=True, patch=patch, warnings=tuple(warnings or ()))


def mutate_path(kind: type[Object]) -> str:
    """Where the API server asks for changes (M-34)."""
    return f"/mutate-{_dashed(kind.RESOURCE)}"


def validate_path(kind: type[Object]) -> str:
    """Where the API server asks for approval (M-34)."""
    return f"/validate-{_dashed(kind.RESOURCE)}"


def _dashed(resource: Resource) -> str:
    return f"{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}"


def _admission(kind: type[O], question: Question) -> Admission[O]:
    new = _decoded(kind, question.object, "object")
    try:
        old = _decoded(kind, question.old_object, "oldObject")
    except DecodeError as error:
        if new is None:
            raise
        _let_through(kind, question, error)
        old = None
    return Admission(
        operation=question.operation,
        new=new,
        old=old,
        name=question.name,
        namespace=question.namespace,
        subresource=question.subresource,
        user=question.user,
        dry_run=bool(question.dry_run),
    )


def _let_through(kind: type[Object], question: Question, error: DecodeError) -> None:
    where = f"{question.namespace}/{question.name}"
    log.warning("%s %s: %s is not held up by what is stored: %s", kind.RESOURCE.kind, where, question.operation, error)


def _changes_metadata_alone(question: Question) -> bool:
    """Whether an update leaves everything but the metadata as it is, such as the removal of a finalizer."""
    if question.operation != "UPDATE":
        return False
    new, old = (msgspec.json.decode(raw, type=dict[str, Any]) for raw in (question.object, question.old_object))
    return {**new, "metadata": None} == {**old, "metadata": None}


def _decoded(kind: type[O], raw: msgspec.Raw, what: str) -> O | None:
    if bytes(raw) == _ABSENT:
        return None
    try:
        obj: Any = codec_of(kind).decode(raw)
    except DecodeError as error:
        raise DecodeError(f"{what}: {error}") from error
    decoded: O = obj
    return decoded


def _judged(verdict: Verdict) -> Answer:
    if not verdict.errors and not verdict.message:
        return Answer(allowed=True, warnings=verdict.warnings, annotations=verdict.annotations)
    return Answer(
        allowed=False,
        code=verdict.code,
        reason=verdict.reason,
        message=verdict.message or _together(verdict.errors),
        causes=verdict.errors,
        warnings=verdict.warnings,
        annotations=verdict.annotations,
    )


def _together(errors: tuple[Cause, ...]) -> str:
    """All errors in one text, as Kubernetes does it."""
    texts = [f"{error.field}: {error.message}" if error.field else error.message for error in errors]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
