# SPDX-License-Identifier: Apache-2.0
"""What an API server asks of a node: the logs of a container, and further processes in it.

`LocalNode` has both. An API server needs no more than these protocols; it never imports the rest of the package.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class UnavailableError(Exception):
    """The container has no log, or no process to join. The message is for the client: 400 for logs, 500 for exec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What of a log is wanted (PodLogOptions). The API server has validated the values."""

    follow: bool = False
    previous: bool = False
    run: int | None = None
    """That run of the container, whatever its status says."""
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None
    limit_bytes: int | None = None


class PodLogs(Protocol):
    """Gives the logs of containers."""

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The log in chunks of any size. Close the generator (`aclosing`) when leaving it early.

        Raises UnavailableError before the first chunk.
        """
        ...


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


class PodExec(Protocol):
    """Starts processes in containers, and joins those that run."""

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool = False) -> ExecSession:
        """Join the process of a running container: its output from now on, and its input if it has one.

        Raises UnavailableError.
        """
        ...

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> ExecSession:
        """Start a process beside that of a running container. Raises UnavailableError."""
        ...
