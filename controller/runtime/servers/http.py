# SPDX-License-Identifier: Apache-2.0
"""HTTP servers of the process: metrics, health probes, debug. One of the few modules that import aiohttp.

A server is a runnable. It listens as soon as it starts, answers while the groups above it stop, and gives running
requests some time when it is stopped itself.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from trainwright.controller.runtime.errors import ConfigurationError, reason_of
from trainwright.controller.runtime.servers.addresses import parse_address
from trainwright.controller.runtime.servers.probes import Checks, describe
from trainwright.controller.runtime.tasks import TaskScope

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHUTDOWN_SECONDS = 5.0
CLOSE_SECONDS = 5.0
"""Time for a peer to finish its TLS handshake, and to close its side of a connection. Then it is cut off."""
_LOOK_SECONDS = 0.05
_BACKLOG = 128


class Listener:
    """What serves one address. Port 0 takes a free port; read `port` once it listens."""

    def __init__(self, name: str, address: str) -> None:
        """`address`: `host:port`, or `:port` for all interfaces. Raises ConfigurationError for any other text."""
        self.name = name
        self.host, self.port = parse_address(address)
        self.listening = asyncio.Event()

    async def serve(self, runner: web.BaseRunner, tls: ssl.SSLContext | None) -> None:
        """Listen until cancelled, then finish running requests. Raises ConfigurationError if the address is in use."""
        async with listening(self.name, runner, self.host, self.port, tls=tls) as self.port:
            self.listening.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.listening.clear()


class HTTPServer(Listener):
    """Serves routes on one address. Port 0 takes a free port; read `port` once it runs."""

    def __init__(
        self,
        name: str,
        address: str,
        routes: Mapping[str, Handler],
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        super().__init__(name, address)
        self._routes = dict(routes)
        self._tls = tls

    def add_route(self, path: str, handler: Handler) -> None:
        """Answer GET on a path. Raises ConfigurationError if the path has a route, or if the server listens already."""
        if path in self._routes or self.listening.is_set():
            raise ConfigurationError(
                f"server {self.name}: cannot add {path}: it has a route already, or the server is listening"
            )
        self._routes[path] = handler

    async def run(self) -> None:
        """Listen until cancelled. Raises ConfigurationError if the address cannot be used."""
        application = web.Application()
        for path, handler in self._routes.items():
            application.router.add_get(path, handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=90.0)
        await self.serve(runner, self._tls() if self._tls else None)


@asynccontextmanager
async def listening(
    name: str, runner: web.BaseRunner, host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve an address for the length of the block; yields the port. An empty host means all interfaces.

    Guarantee: after the block, running requests are finished and no connection is open. asyncio alone leaves that to
    later iterations of the loop: a TLS shutdown waits for the peer, and a handshake continues without its server.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    await runner.setup()
    answering = runner.server
    assert answering is not None
    limit = CLOSE_SECONDS if tls is not None else None
    try:
        server = await asyncio.get_running_loop().create_server(
            answering,
            host or None,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=limit,
            ssl_shutdown_timeout=limit,
        )
    except BaseException as error:
        await runner.cleanup()
        if isinstance(error, OSError):
            raise ConfigurationError(f"{name}: cannot listen on {host}:{port}: {reason_of(error)}") from error
        raise
    async with TaskScope(name) as tasks:
        # Start before the server is closed: after that, Python 3.11 does not wait for connections.
        closed = tasks.start(f"{name}/connections", server.wait_closed())
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await _close(runner, answering, closed)


async def _close(runner: web.BaseRunner, answering: web.Server, closed: asyncio.Task[None]) -> None:
    """Finish running requests, then wait for `closed`, the end of the last connection. Cut off slow peers."""
    transports = [connection.transport for connection in answering.connections]
    await runner.cleanup()
    try:
        async with asyncio.timeout(CLOSE_SECONDS + 1):
            while not closed.done():
                for late in answering.connections:  # its handshake ended after the cleanup, which missed it
                    if late.transport is not None:
                        late.transport.abort()
                await asyncio.wait({closed}, timeout=_LOOK_SECONDS)
    except TimeoutError:
        # TLS has time limits of its own. A peer that does not read its answer over plain HTTP has none.
        for transport in transports:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)  # they end in the next iteration of the loop


def probe_routes(*probes: Checks) -> dict[str, Handler]:
    """Routes for each set of checks and for each single check."""
    routes: dict[str, Handler] = {}
    for checks in probes:
        routes[checks.path] = routes[checks.path + "/{check}"] = _probe(checks)
    return routes


def _probe(checks: Checks) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        single = request.match_info.get("check")
        try:
            results = await checks.run(exclude=request.query.getall("exclude", ()), only=single)
        except KeyError:
            return web.Response(status=404, text="no such check\n")
        healthy = all(results.values())
        verbose = not healthy or (single is None and "verbose" in request.query)
        return web.Response(status=200 if healthy else 500, text=describe(results) if verbose else "ok")

    return handle


def guarded(handler: Handler, decide: Callable[[str | None, str], Awaitable[int]]) -> Handler:
    """A route that answers only if `decide` returns 200 for the Authorization header and the path."""

    async def handle(request: web.Request) -> web.StreamResponse:
        status = await decide(request.headers.get("Authorization"), request.path)
        return await handler(request) if status == 200 else web.Response(status=status)

    return handle


def text_route(render: Callable[[], bytes], content_type: str) -> Handler:
    """A route that answers with the bytes of a function."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=render(), headers={"Content-Type": content_type})

    return handle


def json_route(render: Callable[[], object]) -> Handler:
    """A route that answers with the value of a function as indented JSON."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(render(), indent=2, default=str) + "\n", content_type="application/json")

    return handle
