# SPDX-License-Identifier: Apache-2.0
"""Direct connections to the API server: HTTP/1.1 on asyncio's protocols, answers parsed by llhttp (httptools).

A request costs a third of what it costs in aiohttp's session (measured in docs/decisions.md). Through a proxy, a
connection is a tunnel (CONNECT), also without TLS. A request is written in one piece, so the write permission is
checked once, directly before its bytes are handed to the socket. A connection carries one exchange at a time. It is
used again only after an answer that was read to its end, and aborted after anything else.
"""

import asyncio
import base64
import socket
import ssl
from collections import deque
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

import aiohappyeyeballs
import httptools

from trainwright.controller.runtime.client.exchange import RawAnswer, bytes_of
from trainwright.controller.runtime.client.transport import READS, SECONDS, Request, Response
from trainwright.controller.runtime.errors import ConnectionLost, RequestTimeout, Unreachable, reason_of

CONNECT_SECONDS = 30.0
IDLE_SECONDS = 30.0
"""An idle connection is closed after this time, before a server or a load balancer drops it silently."""
ADDRESS_SECONDS = 0.25
"""How long one address of a host is tried alone before the next one is tried as well (RFC 8305)."""
READ_BUFFER = 2**16
_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Milliseconds that sent data may stay unacknowledged; only Linux has this option."""
_LONGEST = 2**31 - 1


class Address(NamedTuple):
    """The server of a pool."""

    host: str
    port: int
    certificate_name: str | None = None
    """The name in the server's certificate, where it is not that of the host."""
    proxy: str | None = None
    """URL of the proxy that leads there."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def way(self) -> str:
        """The server and the proxy, without its credentials, for messages."""
        return f"{self} through the proxy {urlsplit(self.proxy).netloc.rpartition('@')[2]}" if self.proxy else str(self)


class Connections:
    """A pool of connections to one server. Create it inside a running event loop."""

    def __init__(self, address: Address, context: ssl.SSLContext | None, *, limit: int = 0) -> None:
        """`context` None: without TLS. `limit`: connections at most, more requests wait; 0: no limit."""
        self._address = address
        self._context = context
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._open: set[_Connection] = set()
        self._opening = 0
        self._idle: deque[_Connection] = deque()
        self._waiting: deque[asyncio.Future[_Connection | None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._retired = self._closed = False
        self.buffer = memoryview(bytearray(READ_BUFFER))
        """Where the loop puts what it read. One for all connections of the pool: it is parsed before the loop reads
        again. Not one for all pools: leader election has a loop of its own in a thread, which reads meanwhile."""

    async def send(self, request: Request, target: str, fixed: str) -> Response:
        answer = await self.exchange(request, target, fixed, stream=False)
        response = Response(answer.status, answer.headers, answer.body(), answer.warnings())
        answer.end()
        return response

    async def exchange(self, request: Request, target: str, fixed: str, *, stream: bool) -> "RawAnswer":
        """Send a request. Returns its whole answer, or with `stream` the answer as soon as its head is there.

        `target` is the path with the prefix of the server; `fixed` are the header lines of every request. The caller
        ends the answer. Raises TransportError, or what the write permission raises.
        """
        if request.timeout is None:
            request.timeout = SECONDS
        total, permission = request.timeout if not stream else None, request.permission
        if permission is not None:
            left = permission.remaining()
            total = left if total is None else min(total, left)
        deadline = None if total is None else self._loop.time() + max(0.0, total)
        data = bytes_of(request, target, fixed)
        while True:
            connection, is_used = await self._acquire(request, deadline)
            if permission is not None:
                try:
                    permission.check()
                except BaseException:
                    self.release(connection)
                    raise
                drop_after(connection.socket, permission.remaining())
            answer = RawAnswer(connection, request, stream=stream)
            try:
                await answer.begin(data, deadline)
            except ConnectionLost:
                answer.end()
                # The server closed an idle connection while the request was on its way.
                if is_used and answer.is_untouched and request.method in READS:
                    continue
                raise
            except BaseException:
                answer.end()
                raise
            return answer

    def retire(self) -> None:
        """Close what is idle. Running exchanges and those that wait finish; the connections are closed then."""
        self._retired = True
        for connection in list(self._idle):
            connection.abort()

    def close(self) -> None:
        self._closed = True
        self.retire()
        for connection in list(self._open):
            connection.abort()

    # ------------------------------------------------------------------ connections

    async def _acquire(self, request: Request, deadline: float | None) -> tuple["_Connection", bool]:
        """A connection of this request's own, and whether it was used before."""
        while self._idle:
            connection = self._idle.pop()
            is_fresh = connection.idle_since > self._loop.time() - IDLE_SECONDS
            if is_fresh and not connection.transport.is_closing():
                return connection, True
            connection.abort()
        try:
            async with asyncio.timeout_at(deadline):
                while self._limit and len(self._open) + self._opening >= self._limit:
                    handed = await self._wait()
                    if handed is None:
                        return await self._connect(request), False
                    if not handed.transport.is_closing():
                        return handed, True
                    # The server closed it since the other request gave it back: nothing would answer on it.
                self._opening += 1
                return await self._connect(request), False
        except TimeoutError:
            raise RequestTimeout(f"{request}: no answer within {request.timeout} s") from None

    async def _wait(self) -> "_Connection | None":
        """A connection that another request has finished with; None: open one, its place is reserved."""
        waiter: asyncio.Future[_Connection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled() or not waiter.done():
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
            elif (handed := waiter.result()) is not None:
                self.release(handed)
            else:
                self._opening -= 1
                self._hand_on()
            raise

    async def _connect(self, request: Request) -> "_Connection":
        name = self._address.certificate_name or self._address.host
        try:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    found = await self._reach()
                    _, connection = await self._loop.create_connection(
                        lambda: _Connection(self),
                        sock=found,
                        ssl=self._context,
                        server_hostname=name if self._context else None,
                    )
            except TimeoutError as error:
                text = str(error) or f"no connection within {CONNECT_SECONDS:.0f} s"
                raise Unreachable(f"{request}: cannot connect to {self._address.way}: {text}") from error
            except OSError as error:
                raise Unreachable(f"{request}: cannot connect to {self._address.way}: {reason_of(error)}") from error
        except BaseException:
            self._opening -= 1
            self._hand_on()
            raise
        self._opening -= 1
        if connection.transport.is_closing():
            self._hand_on()
            raise ConnectionLost(f"{request}: the server closed the new connection")
        self._open.add(connection)
        if self._closed:
            connection.abort()
            raise ConnectionLost(f"{request}: the transport is closed")
        return connection

    async def _reach(self) -> socket.socket:
        """A socket that is connected to the server. Raises OSError."""
        proxy = urlsplit(self._address.proxy or "")
        host, port = (proxy.hostname, proxy.port or 80) if proxy.hostname else (self._address.host, self._address.port)
        infos = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = await aiohappyeyeballs.start_connection(infos, happy_eyeballs_delay=ADDRESS_SECONDS, loop=self._loop)
        if proxy.hostname:
            try:
                await self._tunnel(found, proxy)
            except BaseException:
                found.close()
                raise
        return found

    async def _tunnel(self, connected: socket.socket, proxy: SplitResult) -> None:
        """Ask the proxy for a connection to the server. Raises OSError if it refuses."""
        lines = [f"CONNECT {self._address} HTTP/1.1", f"Host: {self._address}"]
        if proxy.username is not None:
            pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
        await self._loop.sock_sendall(connected, "\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < READ_BUFFER:  # the server says nothing before it is asked
            if not (chunk := await self._loop.sock_recv(connected, 2**12)):
                break
            answer += chunk
        status = answer.partition(b"\r\n")[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            raise OSError(f"it answers {status or 'nothing'}")

    def release(self, connection: "_Connection") -> None:
        """The connection has no exchange any more."""
        if connection.transport.is_closing():
            connection.abort()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if self._retired:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(IDLE_SECONDS, self._sweep)

    def gone(self, connection: "_Connection") -> None:
        """The connection is closed. Called at least once for each."""
        if connection in self._open:
            self._open.remove(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._hand_on()

    def _hand_on(self) -> None:
        """There is room for one more connection: the next request that waits opens it."""
        while self._waiting and len(self._open) + self._opening < self._limit:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._opening += 1
                waiter.set_result(None)

    def _sweep(self) -> None:
        self._sweeper = None
        since = self._loop.time() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= since:
            self._idle[0].abort()
        if self._idle:
            self._sweeper = self._loop.call_at(self._idle[0].idle_since + IDLE_SECONDS, self._sweep)


class _Connection(asyncio.BufferedProtocol):
    """One connection; the callbacks of the loop and of the parser."""

    transport: asyncio.Transport

    def __init__(self, pool: Connections) -> None:
        self.idle_since = 0.0
        self.answer: RawAnswer | None = None
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self.socket: socket.socket | None = None

    def release(self) -> None:
        self._pool.release(self)

    def abort(self) -> None:
        """Close at once. Skips the TLS shutdown, which would outlive the transport."""
        self.transport.abort()
        self._pool.gone(self)

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's classes are not its subclasses
        self.socket = transport.get_extra_info("socket")

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - see BufferedProtocol
        return self._pool.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.answer is None:  # nothing was asked
            self.abort()
            return
        try:
            self._parser.feed_data(self._pool.buffer[:nbytes])
        except httptools.HttpParserError as error:
            self._broken(f"not an answer: {error}")

    def eof_received(self) -> None:
        if self.answer is not None and self.answer.reads_to_end:
            self.answer.complete(keep=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.gone(self)
        self._broken(str(exc) if exc is not None else "the server closed the connection")

    def _broken(self, why: str) -> None:
        if self.answer is not None:
            self.answer.fail(ConnectionLost(f"{self.answer.request}: {why}"))

    # ------------------------------------------------------------------ called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self.answer is not None
        self.answer.field(name, value)

    def on_headers_complete(self) -> None:
        assert self.answer is not None
        self.answer.head(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        assert self.answer is not None
        self.answer.add(body)

    def on_message_complete(self) -> None:
        if self.answer is not None:
            self.answer.complete(keep=self._parser.should_keep_alive())


def drop_after(connection: socket.socket | None, seconds: float) -> None:
    """Let the kernel drop what it could not deliver after this time.

    Otherwise it would retry for minutes, even after this process has ended, and could deliver the write of a former
    leader once the network is back.
    """
    if connection is not None and _USER_TIMEOUT is not None:
        milliseconds = min(max(1, int(1000 * seconds)), _LONGEST)  # 0 would mean no limit
        connection.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds)
