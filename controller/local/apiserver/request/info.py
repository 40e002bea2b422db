# SPDX-License-Identifier: Apache-2.0
"""Requests and answers, free of any HTTP library."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.schema.errors import forbidden, not_supported, required
from trainwright.controller.local.apiserver.schema.metadata import manager_errors

JSON = "application/json"
encode = msgspec.json.Encoder().encode

_SIGNED = re.compile("[-+]?[0-9]+")
_LONGEST = 100
"""Characters of a number."""
Query = Sequence[tuple[str, str]]


class User(NamedTuple):
    """Who asks."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
"""Requests without credentials. They may read health and version only."""


@dataclass(slots=True, kw_only=True)
class ServerRequest:
    """One request. Header names are lower case; the path is decoded."""

    method: str
    path: str
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    impersonation: Sequence[tuple[str, str]] = ()
    """Headers `Impersonate-*`, of which some may be there several times."""
    body: bytes = b""
    holder: User | None = None
    """Whom the client's certificate names; None without one."""

    def asked(self, name: str) -> str:
        """The first value of a query parameter; empty if there is none."""
        return next((value for key, value in self.query if key == name), "")

    def says(self, name: str) -> bool:
        """Whether a query parameter is there, even without a value."""
        return any(key == name for key, _ in self.query)

    def all(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false."""
        return self.says(name) and self.asked(name) not in ("false", "0")

    def number(self, name: str) -> int | None:
        """A query parameter that is a whole number; None where it is absent or empty. Raises StatusError."""
        text = self.asked(name)
        return whole_number(text) if text else None


def whole_number(text: str) -> int:
    """The number that a query parameter says. Raises StatusError with the words of Go's parser."""
    try:
        return go_integer(text, signed=True)
    except ValueError as error:
        raise errors.bad_request(str(error)) from error


def go_integer(text: str, *, signed: bool) -> int:
    """A number of 64 bits. Raises ValueError with the words of Go's parser."""
    low, high = (-(2**63), 2**63) if signed else (0, 2**64)
    problem = "invalid syntax"
    if _SIGNED.fullmatch(text) and (signed or text.isdigit()):
        # Python refuses to convert thousands of digits.
        if len(text) <= _LONGEST and low <= int(text) < high:
            return int(text)
        problem = "value out of range"
    raise ValueError(f'strconv.Parse{"Int" if signed else "Uint"}: parsing "{text}": {problem}')


class ServerWebSocket(Protocol):
    """An open websocket."""

    @property
    def protocol(self) -> str:
        """The subprotocol that was agreed on."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None once the client has closed the connection."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message; waits while the client does not read. Raises ConnectionError."""
        ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The connection is to become a websocket."""

    protocols: tuple[str, ...]
    """Subprotocols that are spoken, the best first."""
    serve: Callable[[ServerWebSocket], Awaitable[None]]
    """Speaks one of them; the connection is closed when it returns."""


@dataclass(slots=True, kw_only=True)
class ServerResponse:
    """One answer: whole, as a stream, or as a websocket."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None
    upgrade: Upgrade | None = None

    @classmethod
    def of(cls, document: Any, status: int = 200) -> "ServerResponse":
        """A document as JSON."""
        return cls(status=status, body=encode(document))


def failure(error: errors.StatusError) -> ServerResponse:
    """The answer for an error."""
    answer = ServerResponse.of(error.document(), error.code)
    if error.retry_after:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteQuery:
    """What a write says in its query."""

    manager: str
    """Empty if not said."""
    dry_run: bool
    validation: str
    """Ignore, Warn or Strict."""
    force: bool = False
    said_validation: str = ""
    """The validation as the client said it; empty if it did not."""

    def document(self, kind: str) -> Document:
        """As webhooks are told."""
        made: Document = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            made["dryRun"] = ["All"]
        if self.manager:
            made["fieldManager"] = self.manager
        if self.said_validation:
            made["fieldValidation"] = self.said_validation
        return made


_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


def write_options(request: ServerRequest, kind: str, *, apply: bool = False) -> WriteQuery:
    """Read the options of a write: `kind` is CreateOptions, UpdateOptions or PatchOptions. Raises StatusError."""
    manager, dry_run = request.asked("fieldManager"), request.all("dryRun")
    validation = request.asked("fieldValidation")
    found = []
    if kind == "PatchOptions":
        if apply and not manager:
            found.append(required("fieldManager", "is required for apply patch"))
        elif not apply and request.says("force"):
            found.append(forbidden("force", "may not be specified for non-apply patch"))
    found += manager_errors(manager)
    found += dry_run_errors(dry_run)
    if validation not in _VALIDATIONS:
        found.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if found:
        raise errors.invalid("meta.k8s.io", kind, "", found)
    return WriteQuery(
        manager=manager,
        dry_run=bool(dry_run),
        validation=validation or "Warn",
        force=request.flag("force"),
        said_validation=validation,
    )


def dry_run_errors(dry_run: Sequence[str]) -> list[DocumentError]:
    """Errors of the values of `dryRun`."""
    if all(value == "All" for value in dry_run):
        return []
    return [not_supported("dryRun", list(dry_run), ["All"])]
