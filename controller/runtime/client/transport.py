# SPDX-License-Identifier: Apache-2.0
"""The interface between the client and HTTP.

A transport sends one request and returns one answer, whole, as a stream or as a websocket. It knows hosts, connections,
TLS and credentials. It does not know kinds, retries or Kubernetes' errors. `http` has the real one; the test kit has
one that answers from a script.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from urllib.parse import quote

from trainwright.api.base import Resource
from trainwright.controller.runtime.errors import BadRequest

READS = frozenset({"GET", "HEAD"})
"""Methods that need no permission."""


class WritePermission(Protocol):
    """Allows a context to write (leader election), so only leader-elected work and the tasks that it starts carry one.

    The client checks it when a write begins. The transport checks it again when the bytes are handed to the socket,
    because the request may have waited in between: for a connection, for a retry, or because the process was stopped.
    """

    def check(self) -> None:
        """Raise NotLeading if a write must not be sent now."""
        ...

    def remaining(self) -> float:
        """Seconds within which a request must have ended."""
        ...


permission: ContextVar[WritePermission | None] = ContextVar("write-permission", default=None)
"""The permission of this context; None: not needed."""


Query: TypeAlias = Mapping[str, str | tuple[str, ...]]
"""The parameters of a query. A tuple repeats its key, one time for each value."""


SECONDS = 60.0
"""Longest time of a request where nothing else is said."""


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: Query = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None
    """Seconds for the whole call, with its retries and waits. None: the limit of the client, or SECONDS without a
    client. Streams and websockets have no limit here; who opens them limits what can be limited."""
    permission: WritePermission | None = None
    """Checked when the bytes are handed to the socket; an exception ends the exchange."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Response:
    """A whole answer. Header names are lower case; `warnings` holds the texts of `Warning` headers with code 299."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()


class Stream(Protocol):
    """An answer whose body arrives over time."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header names are lower case."""
        ...

    async def read(self) -> bytes:
        """The rest of the body; used for error answers."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in chunks of any size; close the generator. Raises TransportError when the connection breaks."""
        ...


class WebSocket(Protocol):
    """The answer to a request for a websocket: an open one, or a refusal."""

    @property
    def refusal(self) -> Response | None:
        """The answer of a server that did not open the websocket; None if it is open."""
        ...

    @property
    def protocol(self) -> str:
        """The subprotocol that the server chose; empty if it chose none."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None once the server has closed the websocket.

        Raises ConnectionLost if the connection ends without a closing frame, OutputTooLarge for a message that exceeds
        the limit.
        """
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message. Raises ConnectionLost."""
        ...


class Transport(Protocol):
    """Sends requests to one API server. Raises only TransportError and its subclasses."""

    async def send(self, request: Request) -> Response:
        """Send a request and read the whole answer. Raises RequestTimeout after the `timeout` of the request."""
        ...

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and return the answer while its body arrives. Leaving the context closes the connection."""
        ...

    def connect(
        self, request: Request, protocols: Sequence[str], *, limit: int
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Ask for a websocket. Leaving the context closes the connection without waiting for the server.

        Args:
            request: method GET; the caller limits the time of the whole exchange.
            protocols: the subprotocols to offer, the best first.
            limit: bytes of a message that is received, at most.
        """
        ...

    async def close(self) -> None:
        """Close all connections. Can be called twice."""
        ...


_SAFE = ":@!$&'()*+,;="
"""Characters that a path segment may contain unescaped, beside letters, digits and -._~ (RFC 3986)."""


_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch


def object_path(resource: Resource, name: str, namespace: str = "", subresource: str = "") -> str:
    """The path of one object. Raises BadRequest for an invalid name or namespace; nothing is sent."""
    if resource.namespaced and not namespace:
        raise BadRequest(f"{resource.kind} {name!r} needs a namespace")
    return resource.path(_segment(resource, namespace), _segment(resource, name, needed=True), subresource or None)


def collection_path(resource: Resource, namespace: str = "") -> str:
    """The path of all objects, or of those of a namespace. Raises BadRequest for an invalid namespace."""
    return resource.path(_segment(resource, namespace) or None)


def _segment(resource: Resource, text: str, *, needed: bool = False) -> str:
    if text in {".", ".."} or "/" in text or "%" in text or (needed and not text):
        raise BadRequest(f"{text!r} is not a valid name of a {resource.kind} or of its namespace")
    return text if _PLAIN(text) else quote(text, safe=_SAFE)
