# SPDX-License-Identifier: Apache-2.0
"""What the API server asks of a node about its pods: logs, processes in running containers, what they use.

Neither knows the other: `cluster` passes methods of the node, which fit the types here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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


LogSource: TypeAlias = Callable[[str, str, LogRequest], Awaitable[AsyncIterator[bytes]]]
"""Gives the log of a container, by namespace and pod, in chunks. Raises UnavailableError before the first one."""


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


ExecSource: TypeAlias = Callable[[str, str, ExecRequest], Awaitable[ExecSession]]
"""Starts a process beside that of a running container. Raises UnavailableError."""
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PortSource: TypeAlias = Callable[[str, str, int], Awaitable[Streams]]
"""Connects to a port of a pod. Raises UnavailableError or OSError."""
GonePods: TypeAlias = Callable[[str, str], Awaitable[Document | None]]
"""Gives a pod whose logs outlive it, as it was last."""


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
