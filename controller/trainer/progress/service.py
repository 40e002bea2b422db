# SPDX-License-Identifier: Apache-2.0
"""Runs what takes and stores progress, on every replica, and stops it in the order that loses nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from trainwright.controller.runtime import BoundedServer, TaskScope
from trainwright.controller.trainer.progress.coalescer import Coalescer
from trainwright.controller.trainer.progress.tokens import ReportAccess


class Progress:
    """A runnable. When it is stopped, it is not ready any more; then it listens no more, answers what is open, and
    writes what is left.
    """

    def __init__(self, coalescer: Coalescer, server: BoundedServer, access: ReportAccess) -> None:
        """The server hands what it accepts to the coalescer; `access` checks its tokens."""
        self.coalescer = coalescer
        self.server = server
        self._access = access
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until `request_stop`. Raises ConfigurationError: the address of the server cannot be used."""
        async with TaskScope("progress") as tasks:

            def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                return tasks.start(f"progress/{name}", work)

            writing = start("writer", self.coalescer.run())
            checking = start("tokens", self._access.run())
            serving = start("server", self.server.run())
            stop = start("stop", _wait(self._stop))
            done, _ = await asyncio.wait({writing, checking, serving, stop}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
            serving.cancel()
            await asyncio.wait({serving})
            self.coalescer.request_stop()
            await writing

    def begin_drain(self) -> None:
        """See `BoundedServer.begin_drain`."""
        self.server.begin_drain()

    def request_stop(self) -> None:
        """Take no more reports, write what is left, return from `run`."""
        self._stop.set()

    def unready(self) -> str | None:
        """Why no reports are taken now; None: they are."""
        if self._stop.is_set():
            return "the manager is stopping"
        if not self.server.listening.is_set():
            return "the status server is not listening yet"
        return self._access.unready()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
