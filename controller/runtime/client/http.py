# SPDX-License-Identifier: Apache-2.0
"""The transport over aiohttp: the only module of the client that imports the HTTP library.

There are two connection pools. The one for requests is bounded, so a burst cannot open a thousand connections. The one
for streams and websockets is unbounded, because each watch holds a connection for minutes and must never delay a write.
Streams have no total time limit. The client decides what is retried. After a 401 the credentials are renewed and the
request is sent once more, which is safe for every verb because the server did not process it.
"""

import asyncio
import re
import socket
import ssl
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from aiohttp.http_writer import StreamWriter
from aiohttp.tracing import Trace
from yarl import URL

from trainwright.controller.runtime.client.authorization import authorization_of
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.credentials import (
    REREAD_SECONDS,
    ClientCertificate,
    Credential,
    TLSFiles,
)
from trainwright.controller.runtime.client.permission import WritePermission
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import (
    ConnectionLost,
    OutputTooLarge,
    RequestTimeout,
    TransportError,
    Unreachable,
)

CONNECTIONS = 64
"""Maximum of requests in flight, not counting streams."""
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 30.0
"""An idle connection is closed after this time, before a server or a load balancer drops it silently."""
READ_BUFFER = 2**18
_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Milliseconds that sent data may stay unacknowledged; only Linux has this option."""
_LONGEST = 2**31 - 1
_WARNING = re.compile(r'299 \S+ "((?:\\.|[^"\\])*)"')
"""A warning as Kubernetes writes it: code, agent and a quoted text."""


class HTTPTransport:
    """Talks to the server of one `ClusterConfig`. Create it inside a running event loop."""

    def __init__(self, config: ClusterConfig, *, connections: int = CONNECTIONS) -> None:
        self._config = config
        self._authorization = authorization_of(config)
        self._tls = TLSFiles(config)
        self._certificate: ClientCertificate | None = None
        self._tls_checked = asyncio.get_running_loop().time()
        self._connections = connections
        self._proxy = config.proxy_url or _environment_proxy(config.server)
        base = urlsplit(config.server)
        self._origin = f"{base.scheme}://{base.netloc}"
        self._prefix = base.path.rstrip("/")
        self._identity: list[tuple[str, str]] = []
        if config.impersonate_user:
            self._identity.append(("Impersonate-User", config.impersonate_user))
            self._identity += [("Impersonate-Group", group) for group in config.impersonate_groups]
        self._requests, self._streams = self._open_pools(self._tls.context())
        self._retired: list[aiohttp.ClientSession] = []

    def _open_pools(self, context: ssl.SSLContext | None) -> tuple[aiohttp.ClientSession, aiohttp.ClientSession]:
        def pool(limit: int) -> aiohttp.ClientSession:
            connector = _Connector(limit=limit, ssl=context or True, keepalive_timeout=IDLE_SECONDS)
            return aiohttp.ClientSession(
                connector=connector, auto_decompress=True, read_bufsize=READ_BUFFER, cookie_jar=aiohttp.DummyCookieJar()
            )

        return pool(self._connections), pool(0)

    async def send(self, request: Request) -> Response:
        """One exchange; see Transport."""
        async with self._exchange(request, stream=False) as answer:
            try:
                body = await answer.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise _lost(request, error) from error
            return Response(
                answer.status,
                {name.lower(): value for name, value in answer.headers.items()},
                body,
                _warnings(answer.headers.getall("Warning", ())),
            )

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator["HTTPStream"]:
        """One stream; see Transport."""
        async with self._exchange(request, stream=True) as answer:
            yield HTTPStream(request, answer)

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator["HTTPSocket"]:
        """One websocket; see Transport."""
        credential = await self._authorization.credential()
        opening = await self._open_socket(request, protocols, limit, credential)
        if opening.refusal is not None and opening.refusal.status == 401:
            other = await self._authorization.renew(credential)
            if other is not None:
                opening = await self._open_socket(request, protocols, limit, other)
        try:
            yield opening
        finally:
            opening.abort()

    async def close(self) -> None:
        """Close both pools, and with them every connection."""
        for session in (self._requests, self._streams, *self._retired):
            await session.close()
        self._retired.clear()
        await asyncio.sleep(0)  # aborted connections close their sockets in the next iteration of the loop

    @asynccontextmanager
    async def _exchange(self, request: Request, *, stream: bool) -> AsyncIterator[aiohttp.ClientResponse]:
        credential = await self._authorization.credential()
        answer = await self._once(request, credential, stream=stream)
        if answer.status == 401 and (other := await self._authorization.renew(credential)):
            answer.release()
            answer = await self._once(request, other, stream=stream)
        try:
            yield answer
        finally:
            abort(answer)

    def _address(self, request: Request, credential: Credential) -> tuple[URL, list[tuple[str, str]]]:
        """The URL and the headers of a request."""
        headers = [*request.headers.items(), *self._identity]
        if credential.header:
            headers.append(("Authorization", credential.header))
        return URL(self._origin + self._prefix + request.path, encoded=True).with_query(request.query), headers

    async def _open_socket(
        self, request: Request, protocols: Sequence[str], limit: int, credential: Credential
    ) -> "HTTPSocket":
        await self._renew_tls(credential.certificate)
        url, headers = self._address(request, credential)
        answers: list[aiohttp.ClientResponse] = []
        refusals: list[Response] = []

        async def once(asked: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            """Keep the answer to the handshake: aiohttp drops the body of a refusal, and repeats a GET that broke."""
            try:
                answer = await handler(asked)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _lost(request, error) from error
            answers.append(answer)
            if answer.status != 101:
                names = {name.lower(): value for name, value in answer.headers.items()}
                refusals.append(Response(answer.status, names, await answer.read()))
            return answer

        session = aiohttp.ClientSession(
            connector=self._streams.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(once,),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )
        try:
            async with session:  # it owns no connection; the websocket outlives it
                opened = await session.ws_connect(
                    url,
                    protocols=protocols,
                    headers=headers,
                    max_msg_size=limit,
                    server_hostname=self._config.tls_server_name,
                    proxy=self._proxy,
                )
        except aiohttp.WSServerHandshakeError as error:
            if refusals:
                return HTTPSocket(request, None, None, refusals[0])
            raise ConnectionLost(f"{request}: {error.message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(request, error) from error
        return HTTPSocket(request, opened, answers[-1], None)

    async def _once(self, request: Request, credential: Credential, *, stream: bool) -> aiohttp.ClientResponse:
        await self._renew_tls(credential.certificate)
        url, headers = self._address(request, credential)
        session = self._streams if stream else self._requests
        total, guarded = request.timeout, None
        if request.permission is not None:
            left = request.permission.remaining()
            total = max(0.001, left if total is None else min(total, left))  # 0 would mean no limit
            guarded = _GuardedBody(request.body or b"", request.permission)
        limits = aiohttp.ClientTimeout(total=None if stream else total, sock_connect=CONNECT_SECONDS)
        try:
            return await session.request(
                request.method,
                url,
                headers=headers,
                data=guarded or request.body,
                timeout=limits,
                allow_redirects=False,
                server_hostname=self._config.tls_server_name,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if guarded is not None and guarded.refusal is not None:
                raise guarded.refusal from None
            raise _lost(request, error) from error

    async def _renew_tls(self, certificate: ClientCertificate | None) -> None:
        """Open new pools if TLS files or client certificate have changed; running requests finish on the old ones."""
        now = asyncio.get_running_loop().time()
        changed = certificate != self._certificate
        if now - self._tls_checked >= REREAD_SECONDS:
            self._tls_checked = now
            changed = self._tls.changed() or changed
        if not changed:
            return
        opened = self._open_pools(self._tls.context(certificate))
        retired, self._retired = self._retired, [self._requests, self._streams]
        (self._requests, self._streams), self._certificate = opened, certificate
        for session in retired:
            await session.close()


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
        """Close every connection."""
        await super().close(abort_ssl=abort_ssl)
        self._cut()

    def _cut(self) -> None:
        """Abort the connections that are closing."""
        ending = {transport for transport in self._made if transport.is_closing()}
        for transport in ending:
            transport.abort()
        self._made -= ending


class _GuardedBody(aiohttp.BytesPayload):
    """A body that checks the write permission as the last step before headers and body are sent.

    The kernel drops data that it could not deliver while the permission lasted. Otherwise it would retry for minutes,
    even after this process has ended, and could deliver the write of a former leader once the network is back.
    """

    def __init__(self, body: bytes, permission: WritePermission) -> None:
        super().__init__(body)
        self._permission = permission
        self.refusal: TransportError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        try:
            self._permission.check()
        except TransportError as error:
            self.refusal = error
            raise
        if isinstance(writer, StreamWriter) and writer.transport is not None:
            _drop_after(writer.transport, self._permission.remaining())
        await super().write_with_length(writer, content_length)


class HTTPStream:
    """The answer to a streamed request."""

    def __init__(self, request: Request, answer: aiohttp.ClientResponse) -> None:
        self._request = request
        self._answer = answer

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""
        return {name.lower(): value for name, value in self._answer.headers.items()}

    async def read(self) -> bytes:
        """The rest of the body."""
        try:
            return await self._answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(self._request, error) from error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives."""
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(self._request, error) from error


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
        """The next message; see WebSocket."""
        assert self._opened is not None
        try:
            message = await self._opened.receive()
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(self._request, error) from error
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
        """Send a message; see WebSocket."""
        assert self._opened is not None
        try:
            await self._opened.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(self._request, error) from error

    def abort(self) -> None:
        """Close the connection at once."""
        if self._answer is not None:
            abort(self._answer)


def _drop_after(transport: asyncio.BaseTransport, seconds: float) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None and _USER_TIMEOUT is not None:
        milliseconds = min(max(1, int(1000 * seconds)), _LONGEST)  # 0 would mean no limit
        connection.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds)


def abort(answer: aiohttp.ClientResponse) -> None:
    """Abort an answer that is still arriving. Skips the TLS shutdown, which would outlive the transport.

    A connection whose answer was read to its end is back in the pool and stays open.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


def _lost(request: Request, error: Exception) -> TransportError:
    text = str(error) or type(error).__name__
    if isinstance(
        error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientProxyConnectionError)
    ):
        return Unreachable(f"{request}: {text}")
    if isinstance(error, TimeoutError):
        return RequestTimeout(f"{request}: no answer within {request.timeout} s")
    return ConnectionLost(f"{request}: {text}")


def _warnings(values: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    found = (_WARNING.match(value) for value in values)
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)


def _environment_proxy(server: str) -> str | None:
    """The proxy of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."""
    parts = urlsplit(server)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)
