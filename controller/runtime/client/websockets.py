# SPDX-License-Identifier: Apache-2.0
"""Websockets over aiohttp: the only module of the client that imports that library, when the first one is asked for."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from trainwright.controller.runtime.client.connections import CONNECT_SECONDS, IDLE_SECONDS
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import (
    ConnectionLost,
    OutputTooLarge,
    RequestTimeout,
    TransportError,
    Unreachable,
    reason_of,
)

READ_BUFFER = 2**18
Headers: TypeAlias = list[tuple[str, str]]


class WebSockets:
    """The websockets of one server, with one TLS context. Create it inside a running event loop."""

    def __init__(
        self, origin: str, context: ssl.SSLContext | None, *, certificate_name: str | None, proxy: str | None
    ) -> None:
        """`origin`: scheme, host, port and the prefix of all paths."""
        self._origin = origin
        self._certificate_name = certificate_name
        self._proxy = proxy
        self._connector = _Connector(limit=0, ssl=context or True, keepalive_timeout=IDLE_SECONDS)

    async def connect(self, request: Request, headers: Headers, protocols: Sequence[str], limit: int) -> "HTTPSocket":
        answers: list[aiohttp.ClientResponse] = []
        refusals: list[Response] = []

        async def kept(asked: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            """Keep the answer to the handshake: aiohttp drops the body of a refusal."""
            answer = await handler(asked)
            answers.append(answer)
            if answer.status != 101:
                names = {name.lower(): value for name, value in answer.headers.items()}
                refusals.append(Response(answer.status, names, await answer.read()))
            return answer

        session = aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(kept, _sent_once(request)),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )
        try:
            async with session:  # it owns no connection; the websocket outlives it
                opened = await session.ws_connect(
                    self._url(request),
                    protocols=protocols,
                    headers=[*request.headers.items(), *headers],
                    max_msg_size=limit,
                    server_hostname=self._certificate_name,
                    proxy=self._proxy,
                )
        except aiohttp.WSServerHandshakeError as error:
            if refusals:
                return HTTPSocket(request, None, None, refusals[0])
            raise ConnectionLost(f"{request}: {error.message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(request, error) from error
        return HTTPSocket(request, opened, answers[-1], None)

    async def close(self) -> None:
        await self._connector.close()

    def _url(self, request: Request) -> URL:
        return URL(self._origin + request.path, encoded=True).with_query(request.query)


def _sent_once(request: Request) -> aiohttp.ClientMiddlewareType:
    """Turn errors into our own, which aiohttp does not know: it sends a GET again, and one may have run a command."""

    async def send(asked: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        with _translated(request):
            return await handler(asked)

    return send


class _Connector(aiohttp.TCPConnector):
    """Keeps every connection until it has ended.

    aiohttp closes the connection of a cancelled request with a TLS shutdown and forgets it at once. It would outlive
    the transport until the server answers, or for 30 s.
    """

    def __init__(self, *, limit: int, ssl: ssl.SSLContext | bool, keepalive_timeout: float) -> None:
        super().__init__(limit=limit, ssl=ssl, keepalive_timeout=keepalive_timeout)
        self._made: set[asyncio.Transport] = set()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Connection:
        """A connection of the pool, or a new one."""
        connection = await super().connect(req, traces, timeout)
        if connection.transport is not None and connection.transport not in self._made:
            self._cut()
            self._made.add(connection.transport)
        return connection

    async def close(self, *, abort_ssl: bool = True) -> None:
        await super().close(abort_ssl=abort_ssl)
        self._cut()

    def _cut(self) -> None:
        """Abort the connections that are closing."""
        ending = {transport for transport in self._made if transport.is_closing()}
        for transport in ending:
            transport.abort()
        self._made -= ending


class HTTPSocket:
    """The answer to a request for a websocket."""

    def __init__(
        self,
        request: Request,
        opened: aiohttp.ClientWebSocketResponse | None,
        answer: aiohttp.ClientResponse | None,
        refusal: Response | None,
    ) -> None:
        self.refusal = refusal
        self.protocol = (opened.protocol if opened is not None else None) or ""
        self._request = request
        self._opened = opened
        self._answer = answer

    async def receive(self) -> bytes | None:
        assert self._opened is not None
        with _translated(self._request):
            message = await self._opened.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        if message.type is aiohttp.WSMsgType.ERROR:
            if self._opened.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
                raise OutputTooLarge(f"{self._request}: {message.data}")
            raise ConnectionLost(f"{self._request}: {message.data}")
        if self._opened.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
            raise ConnectionLost(f"{self._request}: the connection ended without a closing frame")
        return None

    async def send(self, message: bytes) -> None:
        assert self._opened is not None
        with _translated(self._request):
            await self._opened.send_bytes(message)

    def abort(self) -> None:
        if self._answer is not None:
            abort(self._answer)


def abort(answer: aiohttp.ClientResponse) -> None:
    """Abort an answer that is still arriving. Skips the TLS shutdown, which would outlive the transport.

    A connection whose answer was read to its end is back in the pool and stays open.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


@contextmanager
def _translated(request: Request) -> Iterator[None]:
    """Raise our own errors for those of aiohttp."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _lost(request, error) from error


def _lost(request: Request, error: Exception) -> TransportError:
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        text = f"cannot connect to {error.host}:{error.port}: {reason_of(error.os_error)}"
    if isinstance(
        error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientProxyConnectionError)
    ):
        return Unreachable(f"{request}: {text}")
    if isinstance(error, TimeoutError):
        return RequestTimeout(f"{request}: no answer within {request.timeout} s")
    return ConnectionLost(f"{request}: {text}")
