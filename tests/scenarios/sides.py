# SPDX-License-Identifier: Apache-2.0
"""The two servers that scenarios run against: the real kube-apiserver of the test kit, and ours in this process."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from trainwright.controller.local.apiserver.transport import InProcessTransport
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime import HTTPTransport
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request, Transport
from trainwright.controller.runtime.testing import ControlPlane, programs

ACCOUNT = "scenario"


class Side(Protocol):
    """A server under test."""

    def transport(self, token: str | None = None) -> Transport:
        """The way to it, as the administrator or with another token; an empty one means none."""
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

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.close()


class LocalSide:
    """Ours."""

    def __init__(self, running: RunningServer) -> None:
        self._running = running

    def transport(self, token: str | None = None) -> Transport:
        """See Side."""
        if token is None:
            return self._running.transport()
        return InProcessTransport(self._running.server, token)


@asynccontextmanager
async def real_side() -> AsyncIterator[RealSide]:
    """Run the real server for the length of the block."""
    with _with_service_accounts():
        control_plane = ControlPlane(audit=False)
        await asyncio.to_thread(control_plane.start)
    side = RealSide(control_plane)
    try:
        yield side
    finally:
        await side.close()
        await asyncio.to_thread(control_plane.stop)


@asynccontextmanager
async def local_side() -> AsyncIterator[LocalSide]:
    """Run ours for the length of the block."""
    with tempfile.TemporaryDirectory() as folder:
        async with api_server(Path(folder), memory=True, service_accounts=True) as running:
            yield LocalSide(running)


@contextmanager
def _with_service_accounts() -> Iterator[None]:
    """Let the test kit's server check service accounts: scenarios create the accounts that their pods need."""
    original: Callable[..., list[str]] = programs.kube_apiserver

    def command(*arguments: Any, **options: Any) -> list[str]:
        made = original(*arguments, **options)
        return [flag for flag in made if flag != "--disable-admission-plugins=ServiceAccount"]

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
