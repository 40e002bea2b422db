# SPDX-License-Identifier: Apache-2.0
"""The transport over HTTP: credentials, TLS files, and which pool carries a request.

Requests and streams use the connections of `connections`; websockets use `websockets`. There are two pools. The one for
requests is bounded, so a burst cannot open a thousand connections. The one for streams is unbounded, because each watch
holds a connection for minutes and must never delay a write. Streams have no total time limit. The client decides what
is retried. After a 401 the credentials are renewed and the request is sent once more, which is safe for every verb
because the server did not process it.
"""

import asyncio
import base64
import ssl
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.connections import Address, Connections
from trainwright.controller.runtime.client.credentials import (
    REREAD_SECONDS,
    Authorization,
    ClientCertificate,
    Credential,
    StaticAuthorization,
    TLSFiles,
    TokenFile,
)
from trainwright.controller.runtime.client.exchange import RawAnswer
from trainwright.controller.runtime.client.transport import Request, Response, Stream
from trainwright.controller.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from trainwright.controller.runtime.client.websockets import HTTPSocket, WebSockets

CONNECTIONS = 64
"""Maximum of requests in flight, not counting streams."""
_PORTS = {"http": 80, "https": 443}


class _Pools:
    """All connections that were opened with one TLS context."""

    def __init__(self, config: ClusterConfig, context: ssl.SSLContext | None, limit: int, proxy: str | None) -> None:
        base = urlsplit(config.server)
        port = base.port or _PORTS.get(base.scheme, 443)
        address = Address(base.hostname or "", port, config.tls_server_name, proxy)
        self.requests = Connections(address, context, limit=limit)
        self.streams = Connections(address, context)
        self._config = config
        self._context = context
        self._proxy = proxy
        self._sockets: WebSockets | None = None

    @property
    def sockets(self) -> "WebSockets":
        if self._sockets is None:
            from trainwright.controller.runtime.client.websockets import WebSockets  # noqa: PLC0415 - 0.3 s and 27 MB

            base = urlsplit(self._config.server)
            origin = f"{base.scheme}://{base.netloc}{base.path.rstrip('/')}"
            name = self._config.tls_server_name
            self._sockets = WebSockets(origin, self._context, certificate_name=name, proxy=self._proxy)
        return self._sockets

    def retire(self) -> None:
        """Close idle connections; running exchanges finish."""
        self.requests.retire()
        self.streams.retire()

    async def close(self) -> None:
        self.requests.close()
        self.streams.close()
        if self._sockets is not None:
            await self._sockets.close()


class HTTPTransport:
    """Talks to the server of one `ClusterConfig`. Create it inside a running event loop."""

    def __init__(self, config: ClusterConfig, *, connections: int = CONNECTIONS) -> None:
        """Raises ConfigurationError for a proxy that is not one of http."""
        self._config = config
        self._authorization = authorization_of(config)
        self._tls = TLSFiles(config)
        self._certificate: ClientCertificate | None = None
        self._loop = asyncio.get_running_loop()
        self._tls_checked = self._loop.time()
        self._connections = connections
        self._proxy = config.proxy_url or _environment_proxy(config.server)
        if self._proxy and not _is_supported(proxy := urlsplit(self._proxy)):
            shown = f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}"  # without its credentials
            raise ConfigurationError(f"the proxy {shown} is not supported: use one of the form http://HOST:PORT")
        base = urlsplit(config.server)
        self._host = base.netloc.rpartition("@")[2]
        self._prefix = base.path.rstrip("/")
        self._identity: list[tuple[str, str]] = []
        if config.impersonate_user:
            self._identity.append(("Impersonate-User", config.impersonate_user))
            self._identity += [("Impersonate-Group", group) for group in config.impersonate_groups]
        self._fixed: tuple[str | None, str] = (None, "")
        self._pools = self._open_pools(self._tls.context())
        self._retired: _Pools | None = None

    def _open_pools(self, context: ssl.SSLContext | None) -> _Pools:
        return _Pools(self._config, context, self._connections, self._proxy)

    async def send(self, request: Request) -> Response:
        """One exchange; see Transport."""
        credential = await self._authorization.credential()
        response = await self._send(request, credential)
        if response.status == 401 and (other := await self._authorization.renew(credential)):
            response = await self._send(request, other)
        return response

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        credential = await self._authorization.credential()
        answer = await self._open_stream(request, credential)
        try:
            if answer.status == 401 and (other := await self._authorization.renew(credential)):
                answer.end()
                answer = await self._open_stream(request, other)
            yield answer
        finally:
            answer.end()

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
        """Close all pools, and with them every connection."""
        for pools in filter(None, (self._pools, self._retired)):
            await pools.close()
        self._retired = None
        await asyncio.sleep(0)  # aborted connections close their sockets in the next iteration of the loop

    async def _send(self, request: Request, credential: Credential) -> Response:
        await self._renew_tls(credential.certificate)
        return await self._pools.requests.send(request, self._prefix + request.path, self._head(credential))

    async def _open_stream(self, request: Request, credential: Credential) -> RawAnswer:
        await self._renew_tls(credential.certificate)
        target = self._prefix + request.path
        return await self._pools.streams.exchange(request, target, self._head(credential), stream=True)

    async def _open_socket(
        self, request: Request, protocols: Sequence[str], limit: int, credential: Credential
    ) -> "HTTPSocket":
        await self._renew_tls(credential.certificate)
        return await self._pools.sockets.connect(request, self._headers(credential), protocols, limit)

    def _headers(self, credential: Credential) -> list[tuple[str, str]]:
        """The headers of every request with this credential."""
        given = [("Authorization", credential.header)] if credential.header else []
        return [*self._identity, *given]

    def _head(self, credential: Credential) -> str:
        """The same as lines, with those that aiohttp adds by itself; made once per credential."""
        if self._fixed[0] != credential.header or not self._fixed[1]:
            headers = [("Host", self._host), ("Accept-Encoding", "gzip"), *self._headers(credential)]
            self._fixed = (credential.header, "".join(f"{name}: {value}\r\n" for name, value in headers))
        return self._fixed[1]

    async def _renew_tls(self, certificate: ClientCertificate | None) -> None:
        """Open new pools if TLS files or client certificate have changed; running requests finish on the old ones."""
        now = self._loop.time()
        changed = certificate != self._certificate
        if now - self._tls_checked >= REREAD_SECONDS:
            self._tls_checked = now
            changed = self._tls.changed() or changed
        if not changed:
            return
        opened = self._open_pools(self._tls.context(certificate))
        older, self._retired = self._retired, self._pools
        self._pools, self._certificate = opened, certificate
        self._retired.retire()
        if older is not None:
            await older.close()


def _environment_proxy(server: str) -> str | None:
    """The proxy of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."""
    parts = urlsplit(server)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _is_supported(proxy: SplitResult) -> bool:
    try:
        return proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:  # the port is no number
        return False


def authorization_of(config: ClusterConfig) -> Authorization:
    """The authorization that a configuration asks for."""
    if config.external is not None:
        from trainwright.controller.runtime.client.external import (  # noqa: PLC0415 - costs 0.6 s and 40 MB
            ExternalAuthorization,
        )

        return ExternalAuthorization(config.external)
    if config.token_file:
        return TokenFile(config.token_file)
    if config.token:
        return StaticAuthorization(f"Bearer {config.token}")
    if config.username:
        pair = f"{config.username}:{config.password or ''}".encode()
        return StaticAuthorization("Basic " + base64.b64encode(pair).decode())
    return StaticAuthorization(None)
