# SPDX-License-Identifier: Apache-2.0
"""The interface between the client and HTTP.

A transport sends one request and returns one answer, whole or as a stream. It knows hosts, connections, TLS and
credentials. It does not know kinds, retries or Kubernetes' errors. `http` has the real one; the test kit has one that
answers from a script.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from trainwright.controller.runtime.client.permission import WritePermission


@dataclass(slots=True)
class Request:
    """A request. `timeout` is in seconds and covers the whole exchange; None means no limit (streams)."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = 60.0
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


class Transport(Protocol):
    """Sends requests to one API server. Raises only TransportError and its subclasses."""

    async def send(self, request: Request) -> Response:
        """Send a request and read the whole answer."""
        ...

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and return the answer while its body arrives. Leaving the context closes the connection."""
        ...

    async def close(self) -> None:
        """Close all connections. Can be called twice."""
        ...
