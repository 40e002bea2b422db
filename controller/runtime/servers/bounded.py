# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for clients that are not trusted: nothing that one client does costs the others more than its share.

All requests go to one endpoint, whatever their path and method, and get its answer; so do malformed ones. Guarantees: a
body is never read beyond the limit, a header or a body that arrives too slowly ends the connection, an answer that
takes too long becomes a failure, and connections over the limit are closed at once, so that their clients fail fast.
One of the few modules that import aiohttp.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import HttpVersion11, web

from trainwright.controller.runtime.servers.http import Listener

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 5.0
"""Time for open requests when the server stops."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read and dropped. A connection that is closed at once loses the answer."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyTooLarge(Exception):  # noqa: N818 - named after what the client sent
    """The body is longer than the limit; the rest was not read."""


class BodyIncomplete(Exception):  # noqa: N818 - as above
    """The connection broke, the encoding is broken, or the body did not arrive in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedLimits:
    """What one client may cost."""

    body: int
    """Bytes."""
    connections: int = 2000
    read_seconds: float = 10.0
    """For a header, and for a body."""
    answer_seconds: float = 10.0
    """For an answer, the body not counted."""
    idle_seconds: float = 120.0
    """How long a connection is kept between two requests."""


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class BoundedCall:
    """A request, as an endpoint sees it."""

    __slots__ = ("_body", "_limits", "_request", "was_cut")

    def __init__(self, request: web.BaseRequest, limits: BoundedLimits) -> None:
        self._request = request
        self._limits = limits
        self._body: bytes | None = None
        self.was_cut = False
        """Whether reading the body ended before its end."""

    @property
    def method(self) -> str:
        """In capitals, such as POST."""
        return self._request.method

    @property
    def path(self) -> str:
        """As it was sent, without the query; percent signs are not decoded."""
        return self._request.raw_path.partition("?")[0]

    @property
    def too_large(self) -> bool:
        """Whether the declared length of the body is over the limit."""
        return (self._request.content_length or 0) > self._limits.body

    def header(self, name: str) -> str | None:
        """The first value of a header; None without one."""
        return self._request.headers.get(name)

    async def body(self) -> bytes:
        """Read the body.

        Raises:
            BodyTooLarge: it is over the limit.
            BodyIncomplete: it did not arrive.
        """
        if self._body is None:
            self.was_cut = True
            self._body = await self._read()
            self.was_cut = False
        return self._body

    async def _read(self) -> bytes:
        request, limits = self._request, self._limits
        if self.too_large:
            raise BodyTooLarge
        if request.headers.get("Expect", "").lower() == "100-continue" and request.version == HttpVersion11:
            await request.writer.write(_CONTINUE)
            request.writer.output_size = 0
        return await read_body(request, limit=limits.body, seconds=limits.read_seconds)


async def read_body(request: web.BaseRequest, *, limit: int, seconds: float) -> bytes:
    """Read a body of at most `limit` bytes. Raises BodyTooLarge, BodyIncomplete."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.content.iter_any():
                size += len(part)
                if size > limit:
                    raise BodyTooLarge
                parts.append(part)
    except TimeoutError as error:
        request.content.feed_eof()  # do not wait for the rest again after the answer
        raise BodyIncomplete(f"the body did not arrive within {seconds:g} s") from error
    except (web.RequestPayloadError, OSError) as error:
        raise BodyIncomplete(f"the body is incomplete: {error}") from error
    return b"".join(parts)


class Endpoint(Protocol):
    """Answers all requests."""

    async def answer(self, call: BoundedCall) -> BoundedAnswer:
        """The answer to a request. An exception becomes `failure(500)`, so does a BodyIncomplete `failure(400)`."""
        ...

    def failure(self, status: int) -> BoundedAnswer:
        """The answer to a malformed request (400), or to one whose answer failed (500)."""
        ...


class BoundedServer(Listener):
    """A runnable. Port 0 takes a free port; read `port` once it listens."""

    def __init__(
        self, name: str, address: str, endpoint: Endpoint, limits: BoundedLimits, *, tls: ssl.SSLContext | None
    ) -> None:
        """`address`: `host:port`, or `:port` for all interfaces. `tls` None serves plain HTTP, for tests.

        Raises ConfigurationError for an address that is none.
        """
        super().__init__(name, address)
        self.endpoint = endpoint
        self.limits = limits
        self._tls = tls
        self._draining = False
        self.refused = 0
        """How many connections were closed because there were too many."""

    async def run(self) -> None:
        """Listen until cancelled, then finish open requests. Raises ConfigurationError: the address cannot be used."""
        server = _Server(self._answer, self)
        await self.serve(web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS), self._tls)

    def begin_drain(self) -> None:
        """Close each connection after its next answer, so that the client opens one to another replica."""
        self._draining = True

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        call = BoundedCall(request, self.limits)
        try:
            # Reading the body has a limit of its own.
            async with asyncio.timeout(self.limits.read_seconds + self.limits.answer_seconds):
                answer = await self.endpoint.answer(call)
        except BodyIncomplete as error:
            log.debug("%s: %s from %s: %s", self.name, request.method, request.remote, error)
            answer = self.endpoint.failure(400)
        except TimeoutError:
            log.warning("%s: %s %s took too long", self.name, request.method, call.path[:300])
            answer = self.endpoint.failure(500)
        except Exception:
            log.exception("%s: %s %s failed", self.name, request.method, call.path[:300])
            answer = self.endpoint.failure(500)
        response = _response(answer)
        # The start of a next request on this connection may be unknown.
        if self._draining or call.was_cut or not request.content.is_eof():
            response.force_close()
        return response


def _response(answer: BoundedAnswer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


class _Server(web.Server):
    """Makes connections of our own class for a BoundedServer."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], owner: BoundedServer
    ) -> None:
        super().__init__(handler)
        self.owner = owner

    def __call__(self) -> web.RequestHandler:
        return _Connection(self)


class _Connection(web.RequestHandler):
    """A connection that is closed if there are too many, and if a header does not arrive in time."""

    __slots__ = ("_deadline", "_server")

    def __init__(self, server: _Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None turns it off
            keepalive_timeout=server.owner.limits.idle_seconds,
            lingering_time=LINGER_SECONDS,
            auto_decompress=False,
        )
        self._server = server
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._server.connections) > self._server.owner.limits.connections:
            self._server.owner.refused += 1
            self._abort()
            return
        self._expect_header()

    def data_received(self, data: bytes) -> None:
        seen = self._request_count
        super().data_received(data)
        if self._request_count > seen:
            self._cancel_deadline()
        elif self._waiter is not None and self._deadline is None:
            self._expect_header()  # this was the first part of one

    def connection_lost(self, exc: BaseException | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """What aiohttp answers to malformed requests, in the words of the endpoint."""
        log.debug("malformed request from %s: %s", request.remote, message or exc)
        if exc is not None:
            # The frames of the traceback hold the exception and this connection. Such a cycle lives until a full
            # collection, which is rare, so a client could fill the memory with malformed requests.
            exc.__traceback__ = None
        response = _response(self._server.owner.endpoint.failure(400 if status < 500 else 500))
        response.force_close()
        return response

    def _expect_header(self) -> None:
        self._deadline = self._loop.call_later(self._server.owner.limits.read_seconds, self._give_up)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self._abort()

    def _abort(self) -> None:
        """Close the connection at once; a TLS shutdown would wait for the peer."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()
