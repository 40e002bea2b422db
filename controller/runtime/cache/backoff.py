# SPDX-License-Identifier: Apache-2.0
"""The reflector's pause between attempts (spec section 2.1).

First 0.8 s, doubling to 30 s, each stretched by a random factor in [1, 2) so that a thousand clients do not return at
once. The state goes back to the start at the first use that comes more than two minutes after the last reset, also
while failures continue.
"""

import asyncio
import random
from collections.abc import Callable

FIRST_SECONDS = 0.8
CAP_SECONDS = 30.0
RESET_SECONDS = 120.0


class Backoff:
    """Growing pauses. `rand` gives numbers in [0, 1)."""

    def __init__(self, rand: Callable[[], float] = random.random) -> None:
        self._rand = rand
        self._next = FIRST_SECONDS
        self._reset_at: float | None = None

    def step(self, now: float) -> float:
        """The pause to make now, in seconds. `now` is the event loop's time."""
        if self._reset_at is None:
            self._reset_at = now
        elif now - self._reset_at > RESET_SECONDS:
            self._reset_at = now
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(CAP_SECONDS, self._next * 2)
        return delay * (1.0 + self._rand())

    async def sleep(self, most: float = float("inf")) -> float:
        """Make the pause, or one of `most` seconds if that is shorter; gives its length in seconds."""
        delay = min(most, self.step(asyncio.get_running_loop().time()))
        await asyncio.sleep(delay)
        return delay
