# SPDX-License-Identifier: Apache-2.0
"""Networks of jobs: the pods of a JobSet share one that has a loopback and no way out (`--network=isolated`).

A process outside of the pods holds each of them (`hold_network` of the launcher), and opens sockets in it for probes.
"""

import asyncio
import socket
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.node.ports import Holder, holder_of
from trainwright.controller.local.node.process.launcher import OPEN, READY
from trainwright.controller.local.node.process.supervision import LAUNCHER, start_program
from trainwright.controller.runtime.tasks import made_in_thread

_START_SECONDS = 10.0
_END_SECONDS = 10.0
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial: TypeAlias = Callable[..., Awaitable[Streams]]
"""Connects to a port of a pod, as `asyncio.open_connection` does. Raises OSError."""


class JobNetwork:
    """One network. The methods block, except `dial`."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        self._lock = threading.Lock()
        self._process, self._requests = start_program(LAUNCHER, "network")
        self._requests.settimeout(_START_SECONDS)
        try:
            said = self._requests.recv(4096)
        except TimeoutError:
            said = f"no answer within {_START_SECONDS:g} s".encode()
        if said != READY:
            self.close(wait=True)
            raise OSError(f"a network namespace cannot be made: {said.decode() or 'its process ended'}")

    @property
    def pid(self) -> int:
        """The process whose namespaces a container joins."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can still be joined."""
        return self._process.poll() is None

    def open(self) -> socket.socket:
        """A TCP socket in it. Raises OSError."""
        with self._lock:
            self._requests.sendall(OPEN)
            _, descriptors, _, _ = socket.recv_fds(self._requests, len(OPEN), 1)
        if not descriptors:
            raise OSError("the process that holds the network has ended")
        return socket.socket(fileno=descriptors[0])

    async def dial(self, host: str, port: int, **how: Any) -> Streams:
        """Connect to a port in it; see `Dial`."""
        opened = await made_in_thread(self.open, socket.socket.close)
        opened.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(opened, (host, port))
            if how.get("ssl"):
                how["server_hostname"] = host
            return await asyncio.open_connection(sock=opened, **how)
        except BaseException:
            opened.close()
            raise

    def close(self, *, wait: bool = False) -> None:
        """Let go of it: it ends with the last process in it. `wait` for the end of the process that holds it."""
        self._requests.close()
        self._process.kill()
        if wait:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)


class Networks:
    """The networks of a node, by who has one: a JobSet, or a pod without one."""

    def __init__(self) -> None:
        self._networks: dict[Holder, JobNetwork] = {}
        self._making = asyncio.Lock()
        self._ended: list[JobNetwork] = []
        """Their processes end, and are still to be waited for."""

    async def of(self, pod: Document) -> JobNetwork:
        """The network of a pod, made if there is none. Raises OSError."""
        holder = holder_of(pod)
        async with self._making:
            self._ended = [one for one in self._ended if one.is_alive()]
            network = self._networks.get(holder)
            if network is None or not network.is_alive():
                if network is not None:
                    network.close()
                network = await made_in_thread(JobNetwork, lambda made: made.close(wait=True))
                self._networks[holder] = network
        return network

    async def dial(self, pod: Document, host: str, port: int, **how: Any) -> Streams:
        """Connect to a port of a pod; see `Dial`."""
        return await (await self.of(pod)).dial(host, port, **how)

    def release(self, pod: Document) -> None:
        """The last pod of a holder has ended: its network goes."""
        if (network := self._networks.pop(holder_of(pod), None)) is not None:
            network.close()
            self._ended.append(network)

    def close(self) -> None:
        """Let go of all of them, at the end of the node. Blocks."""
        for network in (*self._networks.values(), *self._ended):
            network.close(wait=True)
        self._ended.clear()
        self._networks.clear()


def refused() -> str:
    """Make a network once. Returns why that does not work on this machine; empty if it does. Blocks."""
    try:
        JobNetwork().close(wait=True)
    except OSError as error:
        return str(error)
    return ""
