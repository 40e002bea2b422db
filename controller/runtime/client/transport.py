# SPDX-License-Identifier: Apache-2.0
"""The seam between the client and HTTP.

A transport sends one request and gives one answer, whole or as a stream. It knows hosts, connections, TLS and
credentials; it knows nothing of kinds, retries or Kubernetes' errors. The real one is in `http`; the test kit has one
that answers from a script.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from trainwright.controller.runtime.client.permission import WritePermission


@dataclass(slots=True)
class Request:
    """What to send. `timeout` is in seconds and covers the whole exchange; None means no limit (streams)."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 60.0
    permission: WritePermission | None = None
    """Asked when the bytes are handed to the socket; what it raises ends the exchange."""

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
    """An answer whose body is still arriving."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header names are lower case."""
        ...

    async def read(self) -> bytes:
        """The rest of the body; for answers that turn out to be errors."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, cut anywhere; to be closed. Raises TransportError when the connection breaks."""
        ...


class Transport(Protocol):
    """Sends requests to one API server. Raises only TransportError and its leaves."""

    async def send(self, request: Request) -> Response:
        """Send, and wait for the whole answer."""
        ...

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send, and hand out the answer while its body arrives; leaving the context closes the connection."""
        ...

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        ...
