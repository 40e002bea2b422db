# SPDX-License-Identifier: Apache-2.0
"""What the API server asks of a node about its pods: logs, processes in running containers, what they use.

Neither knows the other: `cluster` passes methods of the node, which fit the protocols here.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from trainwright.api.objects import Document


class UnavailableError(Exception):
    """The container has no log, or no process to join. The message is for the client: 400 for logs, 500 for exec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """What of a log is wanted (PodLogOptions). The API server has validated the values."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    run: int | None = None
    """Which run of the container, from 0: what the API of Kubernetes lacks; a reader may find another one running."""
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Gives the logs of containers."""

    async def __call__(self, namespace: str, pod: str, request: LogRequest) -> AsyncIterator[bytes]:
        """The log in chunks of any size. Raises UnavailableError before the first one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """Which process is wanted (PodExecOptions)."""

    container: str
    command: tuple[str, ...]
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class ExecSession(Protocol):
    """A process that was started in a container."""

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        """Output until the process and all that it started have closed it. With a terminal: all output."""
        ...

    @property
    def stderr(self) -> AsyncIterator[bytes]:
        """Error output; empty with a terminal."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to standard input; waits while the process does not read. Ignored without standard input."""
        ...

    async def close_stdin(self) -> None:
        """End standard input."""
        ...

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal, in characters. Ignored without one."""
        ...

    async def wait(self) -> int:
        """The exit code, 128 + n after signal n."""
        ...

    async def close(self) -> None:
        """Kill the process if it still runs, and close everything. Must be called."""
        ...


class ExecSource(Protocol):
    """Starts a process beside that of a running container."""

    async def __call__(self, namespace: str, pod: str, request: ExecRequest) -> ExecSession:
        """Raises UnavailableError."""
        ...


Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PortSource(Protocol):
    """Connects to ports of pods."""

    async def __call__(self, namespace: str, pod: str, port: int) -> Streams:
        """Raises UnavailableError or OSError."""
        ...


class GonePods(Protocol):
    """Knows pods whose logs outlive them."""

    async def __call__(self, namespace: str, pod: str) -> Document | None:
        """The pod as it was last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUse:
    """What one container uses now."""

    pod: str
    """Uid."""
    container: str
    cpu: float
    """CPUs."""
    memory: int
    """Bytes."""
    gpu: float | None
    """Busy devices."""
    gpu_memory: int | None
