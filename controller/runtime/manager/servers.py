# SPDX-License-Identifier: Apache-2.0
"""HTTP servers of the process: metrics, probes, debug (M-27, M-28, M-30). One of the few places that know aiohttp.

A server is a runnable that listens as soon as it is started, keeps answering while the groups above it end, and gives
requests in process a moment when it is stopped itself.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.manager.probes import Checks, describe

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHUTDOWN_SECONDS = 5.0


def parse_address(address: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port`, or `:port` for all interfaces, whose host is empty. Raises ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"{address!r} is no address: write host:port, or :port for all interfaces")
    return host.strip("[]"), int(port)


class HTTPServer:
    """Serves routes on one address. `port` 0 takes a free one; see `port` once it runs."""

    def __init__(
        self,
        name: str,
        address: str,
        routes: Mapping[str, Handler],
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.name = name
        self.host, self.port = parse_address(address)
        self._routes = dict(routes)
        self._tls = tls
        self.listening = asyncio.Event()

    def add_route(self, path: str, handler: Handler) -> None:
        """Answer GET on a path. Raises ConfigurationError for a path that is taken, or once the server listens."""
        if path in self._routes or self.listening.is_set():
            raise ConfigurationError(f"{self.name}: {path} is taken, or the server listens already")
        self._routes[path] = handler

    async def run(self) -> None:
        """Listen until cancelled. Raises ConfigurationError if the address cannot be used."""
        application = web.Application()
        for path, handler in self._routes.items():
            application.router.add_get(path, handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=90.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host or None, self.port, ssl_context=self._tls() if self._tls else None)
            try:
                await site.start()
            except OSError as error:
                raise ConfigurationError(f"{self.name}: cannot listen on {self.host}:{self.port}: {error}") from error
            self.port = runner.addresses[0][1]
            self.listening.set()
            await asyncio.Event().wait()
        finally:
            self.listening.clear()
            await runner.cleanup()


def probe_routes(*probes: Checks) -> dict[str, Handler]:
    """A route for each set of checks and one for each check in it."""
    routes: dict[str, Handler] = {}
    for checks in probes:
        routes[checks.path] = _all(checks)
        routes[checks.path + "/{check}"] = _single(checks)
    return routes


def _all(checks: Checks) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        results = await checks.run(exclude=request.query.getall("exclude", ()))
        healthy = all(results.values())
        verbose = "verbose" in request.query or not healthy
        return web.Response(status=200 if healthy else 500, text=describe(results) if verbose else "ok")

    return handle


def _single(checks: Checks) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        try:
            results = await checks.run(only=request.match_info["check"])
        except KeyError:
            return web.Response(status=404, text="no such check\n")
        healthy = all(results.values())
        return web.Response(status=200 if healthy else 500, text="ok" if healthy else describe(results))

    return handle


def guarded(handler: Handler, decide: Callable[[str | None, str], Awaitable[int]]) -> Handler:
    """A route for those whom `decide` answers 200, given the Authorization header and the path."""

    async def handle(request: web.Request) -> web.StreamResponse:
        status = await decide(request.headers.get("Authorization"), request.path)
        return await handler(request) if status == 200 else web.Response(status=status)

    return handle


def text_route(render: Callable[[], bytes], content_type: str) -> Handler:
    """A route that answers with what a function gives."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=render(), headers={"Content-Type": content_type})

    return handle


def json_route(render: Callable[[], object]) -> Handler:
    """A route that answers with a function's value as indented JSON."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(render(), indent=2, default=str) + "\n", content_type="application/json")

    return handle
