# SPDX-License-Identifier: Apache-2.0
"""The two servers that scenarios run against: the real kube-apiserver of the test kit, and ours in this process."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.store.store import expire_events
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime import HTTPTransport
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request, Transport
from trainwright.controller.runtime.testing import ControlPlane, programs

ACCOUNT = "scenario"
_FORGETFUL = ("--etcd-compaction-interval=2s", "--event-ttl=4s")


class Side(Protocol):
    """A server under test."""

    def transport(self, token: str | None = None) -> Transport:
        """The way to it, as the administrator or with another token; an empty one means none."""
        ...

    async def later(self) -> None:
        """Let more time pass than history and Events are kept; what that does may take seconds to be seen."""
        ...

    async def restart(self) -> None:
        """Stop it and start it again, with the same state."""
        ...


class RealSide:
    """The test kit's kube-apiserver."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._transports: dict[str, HTTPTransport] = {}

    def transport(self, token: str | None = None) -> Transport:
        """See Side."""
        used = self._control_plane.token if token is None else token
        if used not in self._transports:
            config = ClusterConfig(server=self._control_plane.url, ca_data=self._control_plane.ca, token=used or None)
            self._transports[used] = HTTPTransport(config)
        return self._transports[used]

    async def later(self) -> None:
        """See Side. A server that forgets within seconds needs nothing done."""

    async def restart(self) -> None:
        """See Side."""
        await self.close()
        await asyncio.to_thread(self._control_plane.restart, "kube-apiserver")

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()


class LocalSide:
    """Ours."""

    def __init__(self, folder: Path, *, memory: bool) -> None:
        self._folder = folder
        self._memory = memory
        self._passed = timedelta()
        self._stack = AsyncExitStack()
        self._server: RunningServer | None = None

    async def start(self) -> None:
        """Start it with the state of the folder."""
        server = api_server(self._folder, memory=self._memory, service_accounts=True, rbac=True, now=self._now)
        self._server = await self._stack.enter_async_context(server)

    async def stop(self) -> None:
        """Stop it."""
        await self._stack.aclose()

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._passed

    @property
    def _running(self) -> RunningServer:
        assert self._server is not None
        return self._server

    async def later(self) -> None:
        """See Side."""
        self._passed += timedelta(hours=1)
        expire_events(self._running.server.store, self._now())
        await self._running.server.store.compact()

    async def restart(self) -> None:
        """See Side."""
        await self.stop()
        await self.start()

    def transport(self, token: str | None = None) -> Transport:
        """See Side."""
        if token is None:
            return self._running.transport()
        return InProcessTransport(self._running.server, token)


@asynccontextmanager
async def real_side(*, forgetful: bool = False) -> AsyncIterator[RealSide]:
    """Run the real server for the length of the block; a forgetful one keeps history and Events for seconds."""
    with _with_flags(_FORGETFUL if forgetful else ()):
        control_plane = ControlPlane(audit=False)
        await asyncio.to_thread(control_plane.start)
    side = RealSide(control_plane)
    try:
        yield side
    finally:
        await side.close()
        await asyncio.to_thread(control_plane.stop)


@asynccontextmanager
async def local_side(*, memory: bool = True) -> AsyncIterator[LocalSide]:
    """Run ours for the length of the block."""
    with tempfile.TemporaryDirectory() as folder:
        side = LocalSide(Path(folder), memory=memory)
        try:
            await side.start()
            yield side
        finally:
            await side.stop()


@contextmanager
def _with_flags(flags: Sequence[str]) -> Iterator[None]:
    """Let the test kit's server check service accounts, whose accounts scenarios create, and give it more flags."""
    original: Callable[..., list[str]] = programs.kube_apiserver

    def command(*arguments: Any, **options: Any) -> list[str]:
        made = original(*arguments, **options)
        return [*(flag for flag in made if flag != "--disable-admission-plugins=ServiceAccount"), *flags]

    programs.kube_apiserver = command
    try:
        yield
    finally:
        programs.kube_apiserver = original


async def version_of(side: Side) -> str:
    """The version of Kubernetes that a server says it is."""
    answer = await side.transport().send(Request("GET", "/version"))
    version: str = json.loads(answer.body)["gitVersion"]
    return version
