# SPDX-License-Identifier: Apache-2.0
"""Writes of clients go before those of the controllers in this process, with which they share one event loop.

A burst of creations makes the controllers busy, and each turn of a busy loop is long. Without precedence the clients
wait several such turns for each answer: 300 TrainJobs took three to four times as long to create, while their JobSets
were there no sooner.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SECONDS = 0.02
"""The longest wait of one write of a controller. They wait one after the other: while clients write without a pause,
controllers write once in this time. Any moment without such a client lets all of them go on."""
_READS = frozenset({"GET", "HEAD"})


class Precedence:
    """Knows whether clients wait for the answer to a write."""

    def __init__(self) -> None:
        self._asking = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._turn = asyncio.Lock()

    @property
    def is_asked(self) -> bool:
        """Whether a client waits."""
        return not self._idle.is_set()

    @contextmanager
    def asking(self, method: str) -> Iterator[None]:
        """For the length of a client's request, which counts if it writes."""
        if method in _READS:
            yield
            return
        self._asking += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._idle.set()

    async def make_way(self, method: str) -> None:
        """Before a controller's request: if it writes, let clients go first, for a moment."""
        if method in _READS or not self.is_asked:
            return
        async with self._turn:
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._idle.wait()
