# SPDX-License-Identifier: Apache-2.0
"""Priority and fairness of requests that share one event loop with the controllers of this process.

Priority: writes of clients go before those of controllers. A burst of creations makes the controllers busy, and each
turn of a busy loop is long; 300 TrainJobs took three to four times as long to create without it. Fairness: most of a
request is done without waiting for anything, and fifty pods created at once would block the loop for over 50 ms.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from trainwright.api.surroundings import ticks

LONGEST_WAIT = 0.02
"""Seconds that one write of a controller waits for clients. While clients write without a pause, controllers write once
in this time; any moment without such a client lets all of them go on."""
SLICE_SECONDS = 0.01
"""Seconds of one turn of the event loop in which requests begin."""
_READS = frozenset({"GET", "HEAD"})


class PriorityAndFairness:
    """Decides when a request begins."""

    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        self._slice = slice_seconds
        self._since: float | None = None
        """When the first request of this turn of the loop began; None before that."""
        self._queue: deque[asyncio.Future[None]] = deque()
        self._client_writes = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._controller = asyncio.Lock()

    @property
    def client_waits(self) -> bool:
        """Whether a client waits for the answer to a write."""
        return not self._idle.is_set()

    @contextmanager
    def client_request(self, method: str) -> Iterator[None]:
        """For the length of a client's request, which counts if it writes."""
        if method in _READS:
            yield
            return
        self._client_writes += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._client_writes -= 1
            if not self._client_writes:
                self._idle.set()

    async def wait_for_clients(self, method: str) -> None:
        """Before a controller's request: if it writes, let clients go first, for a moment."""
        if method in _READS or not self.client_waits:
            return
        async with self._controller:
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT):
                    await self._idle.wait()

    async def next_turn(self) -> None:
        """Wait for a turn of the event loop that has time left, in the order of the calls."""
        if self._since is None:
            self._begin_turn()
        elif self._queue or ticks() - self._since >= self._slice:
            turn = asyncio.get_running_loop().create_future()
            self._queue.append(turn)
            await turn

    def _begin_turn(self) -> None:
        self._since = ticks()
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """The next turn of the loop has begun. One request that waits goes on in it."""
        self._since = None
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # its request may have been given up
                turn.set_result(None)
                self._begin_turn()
                return
