# SPDX-License-Identifier: Apache-2.0
"""Spreads requests that arrive at once over several turns of the event loop.

Most of a request is done without waiting for anything. The controller of Jobs creates up to fifty pods at once, and an
event loop that answers all of them in one turn is blocked for longer than 50 ms.
"""

import asyncio
from collections import deque

from trainwright.api.surroundings import ticks

SLICE_SECONDS = 0.01


class Turns:
    """Lets requests begin in a turn of the loop until its slice of time is used up; others wait for later turns."""

    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        self._slice = slice_seconds
        self._since: float | None = None
        """When the first request of this turn began; None before that."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a turn that has time left, in the order of the calls."""
        if self._since is None:
            self._begin()
        elif self._waiting or ticks() - self._since >= self._slice:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def _begin(self) -> None:
        self._since = ticks()
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """The next turn of the loop has begun. One request that waits goes on in it."""
        self._since = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its request may have been given up
                turn.set_result(None)
                self._begin()
                return
