# SPDX-License-Identifier: Apache-2.0
"""Credentials that a user renews by logging in again, while the dashboard runs.

Exec plugins, token files and providers are asked again by the transport itself. But a token that a login writes into
the kubeconfig, as `oc login` does, is only there after the file is read again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from trainwright.controller.runtime import (
    ClusterConfig,
    ConfigurationError,
    HTTPTransport,
    Request,
    Response,
    Stream,
    WebSocket,
)

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Shortest time between two looks at the kubeconfig."""
_REFUSED = 401


class Renewing:
    """A transport that reads the kubeconfig again when the credentials are refused."""

    def __init__(self, config: ClusterConfig, load: Callable[[], ClusterConfig]) -> None:
        """`load` reads the configuration again; it may raise ConfigurationError."""
        self._config = config
        self._load = load
        self._current = HTTPTransport(config)
        self._replaced: list[HTTPTransport] = []
        self._looked_at = float("-inf")

    async def send(self, request: Request) -> Response:
        answer = await self._current.send(request)
        if answer.status == _REFUSED:
            self._look()
        return answer

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        async with self._current.open(request) as stream:
            if stream.status == _REFUSED:
                self._look()
            yield stream

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator[WebSocket]:
        async with self._current.connect(request, protocols, limit=limit) as socket:
            yield socket

    async def close(self) -> None:
        """See Transport."""
        while self._replaced:
            await self._replaced.pop().close()
        await self._current.close()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        try:
            found = self._load()
            if found == self._config or found.server != self._config.server:
                return  # the same, or another cluster
            transport = HTTPTransport(found)
        except ConfigurationError as error:
            log.info("the kubeconfig cannot be read again: %s", error)
            return
        self._replaced.append(self._current)  # requests may be on their way
        self._config, self._current = found, transport
