# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a real API server that injects faults.

Requests pass unchanged, with credentials, until a fault is set: answers of its own (410, 429, 500), delays, refusals,
stale reads. Websockets are passed on once they are open. Open watches can be cut between or inside frames, expired, or
kept open without a byte. The proxy listens on the loopback interface without TLS, so that a cut is a cut and not a TLS
alert.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn, Self, TypeAlias

import aiohttp
from aiohttp import web
from yarl import URL

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.credentials import TLSFiles
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request, WebSocket
from trainwright.controller.runtime.client.websockets import abort
from trainwright.controller.runtime.errors import TransportError
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.scripted import frame, status_body

When: TypeAlias = Callable[[web.Request], bool]

_MESSAGE = 2**24
"""Bytes of a message of a websocket, at most."""
_HOP_BY_HOP = frozenset({"connection", "host", "transfer-encoding", "content-length", "content-encoding", "keep-alive"})


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def is_websocket(request: web.Request) -> bool:
    """Exec and whatever else asks for a websocket."""
    return request.headers.get("upgrade", "").lower() == "websocket"


def is_read(request: web.Request) -> bool:
    return request.method == "GET" and not is_watch(request)


def is_write(request: web.Request) -> bool:
    return request.method != "GET"


@dataclass(eq=False)
class Fault:
    """A fault for the next `times` requests that match."""

    when: When
    times: float = 1
    contains: bytes = b""
    """Only for requests whose body contains this."""
    status: int = 0
    """Answer with this status without asking the server; 0: pass the request on."""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Wait this many seconds first."""
    refuse: bool = False
    """Close the connection without an answer."""
    lose: bool = False
    """Pass the request on, then close the connection without an answer. A websocket is opened first."""
    hold: bool = False
    """Hold the request for ever, or with `lose` the answer; for clients that are killed in between."""
    stale: bool = False
    """Answer a read with the first answer of the same read."""
    hit: int = 0
    """Number of matched requests."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a request or an answer is held."""


@dataclass(eq=False)
class _OpenWatch:
    transport: asyncio.Transport
    response: web.StreamResponse
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Event = field(default_factory=asyncio.Event)


class FaultProxy:
    """An async context manager; use `config` to go through the proxy."""

    def __init__(self, upstream: ClusterConfig) -> None:
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._watches: list[_OpenWatch] = []
        self._answers: dict[str, tuple[int, bytes]] = {}
        self.watches_opened = 0

    async def __aenter__(self) -> Self:
        context = TLSFiles(self._upstream).context()
        connector = aiohttp.TCPConnector(limit=0, ssl=context or True)
        # The caller's credentials are passed on as they come.
        self._sockets = HTTPTransport(
            replace(
                self._upstream,
                token=None,
                token_file=None,
                username=None,
                password=None,
                external=None,
                impersonate_user=None,
                impersonate_groups=(),
            )
        )
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True, read_bufsize=2**18)
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.config = replace(
            self._upstream, server=f"http://127.0.0.1:{port}", ca_data=None, ca_file=None, tls_server_name=None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        await self._runner.cleanup()
        await self._session.close()
        await self._sockets.close()
        await asyncio.sleep(0)

    # ------------------------------------------------------------------ faults

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def cut_watches(self, *, inside_a_frame: bool = False) -> int:
        """Close the connections of all watches; returns their number."""
        watches, self._watches = self._watches, []
        for watch in watches:
            if inside_a_frame:
                watch.transport.write(b'1a\r\n{"type":"MODIFIED","obj\r\n')
            watch.end.set()
            watch.transport.close()
        return len(watches)

    def silence_watches(self) -> int:
        """Keep all watches open without passing anything on; returns their number."""
        for watch in self._watches:
            watch.silent.set()
        return len(self._watches)

    async def expire_watches(self) -> int:
        """Send all watches the error 410; returns their number."""
        watches, self._watches = self._watches, []
        for watch in watches:
            with suppress(ConnectionError):
                await watch.response.write(frame("ERROR", status_body(410, "Expired", "too old resource version")))
            watch.end.set()
        return len(watches)

    # ------------------------------------------------------------------ passing on

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = next((f for f in self._faults if f.times > 0 and f.contains in body and f.when(request)), None)
        if fault is not None:
            fault.times -= 1
            fault.hit += 1
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.hold and not fault.lose:
                await _keep(fault)
            if fault.refuse:
                _close(request)
            elif fault.status:
                return web.Response(status=fault.status, body=fault.body, headers=dict(fault.headers))
            elif fault.stale and str(request.rel_url) in self._answers:
                status, body = self._answers[str(request.rel_url)]
                return web.Response(status=status, body=body, content_type="application/json")
        if is_websocket(request):
            return await self._websocket(request, cut=fault is not None and fault.lose)
        if is_watch(request):
            return await self._stream(request)
        response = await self._once(request)
        if fault is not None and fault.lose:
            if fault.hold:
                await _keep(fault)
            _close(request)
        return response

    @asynccontextmanager
    async def _ask(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = self._upstream.server + request.raw_path
        try:
            async with self._session.request(
                request.method,
                URL(url, encoded=True),
                headers=headers,
                data=await request.read() or None,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                try:
                    yield answer
                finally:
                    if not answer.content.at_eof():
                        abort(answer)
        except aiohttp.ClientError:
            _close(request)

    async def _once(self, request: web.Request) -> web.Response:
        async with self._ask(request) as answer:
            body = await answer.read()
            if is_read(request):
                self._answers.setdefault(str(request.rel_url), (answer.status, body))
            return web.Response(status=answer.status, body=body, headers=_kept(answer))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        async with self._ask(request) as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer))
            await response.prepare(request)
            assert isinstance(request.transport, asyncio.Transport)
            watch = _OpenWatch(request.transport, response)
            self._watches.append(watch)
            self.watches_opened += 1
            try:
                await self._pump(answer, watch)
            finally:
                if watch in self._watches:
                    self._watches.remove(watch)
            return response

    async def _websocket(self, request: web.Request, *, cut: bool) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if _is_for_the_server(name)}
        query = {name: tuple(request.query.getall(name)) for name in request.query}
        offered = [one.strip() for one in request.headers.get("sec-websocket-protocol", "").split(",")]
        asked = Request("GET", request.path, query, headers)
        try:
            async with self._sockets.connect(asked, offered, limit=_MESSAGE) as upstream:
                if upstream.refusal is not None:
                    return web.Response(
                        status=upstream.refusal.status, body=upstream.refusal.body, content_type="application/json"
                    )
                downstream = web.WebSocketResponse(protocols=[upstream.protocol], max_msg_size=_MESSAGE, compress=False)
                await downstream.prepare(request)
                if cut:
                    _close(request)
                await _both_ways(upstream, downstream)
                return downstream
        except TransportError:
            _close(request)

    async def _pump(self, answer: aiohttp.ClientResponse, watch: _OpenWatch) -> None:
        async def copy() -> None:
            with suppress(ConnectionError, aiohttp.ClientError):
                async for chunk in answer.content.iter_any():
                    if watch.silent.is_set():
                        await watch.end.wait()
                    await watch.response.write(chunk)
            watch.end.set()

        async with asyncio.TaskGroup() as tasks:
            copying = tasks.create_task(copy(), name="proxy:copy")
            await watch.end.wait()
            copying.cancel()


async def _both_ways(upstream: WebSocket, downstream: web.WebSocketResponse) -> None:
    """Pass messages on until one side has closed."""

    async def to_server() -> None:
        async for message in downstream:
            if message.type is aiohttp.WSMsgType.BINARY:
                await upstream.send(message.data)

    async def to_client() -> None:
        while (message := await upstream.receive()) is not None:
            await downstream.send_bytes(message)
        await downstream.close()

    async with TaskScope("proxy:websocket") as tasks:
        ways = {tasks.start("proxy:to-server", to_server()), tasks.start("proxy:to-client", to_client())}
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)


def _is_for_the_server(name: str) -> bool:
    """Whether a header is the request's own and not of the connection."""
    lower = name.lower()
    return lower not in _HOP_BY_HOP and lower != "upgrade" and not lower.startswith("sec-websocket-")


async def _keep(fault: Fault) -> NoReturn:
    fault.held.set()
    await asyncio.Event().wait()
    raise AssertionError("unreachable: the event is never set")


def _close(request: web.Request) -> NoReturn:
    if request.transport is not None:
        request.transport.close()
    raise web.HTTPBadGateway


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
