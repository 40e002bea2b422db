# SPDX-License-Identifier: Apache-2.0
"""Delays between the attempts of a reflector, as in client-go.

The first delay is 0.8 s; each further one doubles, up to 30 s. Each is multiplied by a random factor in [1, 2), so that
a thousand clients do not return at once. More than two minutes after the last reset the delays start again with the
first one, even while failures continue.
"""

import asyncio
from collections.abc import Callable

from trainwright.api.surroundings import fraction

FIRST_SECONDS = 0.8
CAP_SECONDS = 30.0
RESET_SECONDS = 120.0


class RetryDelays:
    """Growing delays. `rand` returns numbers in [0, 1)."""

    def __init__(self, rand: Callable[[], float] = fraction) -> None:
        self._rand = rand
        self._next = FIRST_SECONDS
        self._reset_at: float | None = None

    def step(self, now: float) -> float:
        """The next delay in seconds. `now` is the time of the event loop."""
        if self._reset_at is None:
            self._reset_at = now
        elif now - self._reset_at > RESET_SECONDS:
            self._reset_at = now
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(CAP_SECONDS, self._next * 2)
        return delay * (1.0 + self._rand())

    async def sleep(self, most: float = float("inf")) -> float:
        """Sleep for the next delay, at most `most` seconds; returns the seconds."""
        delay = min(most, self.step(asyncio.get_running_loop().time()))
        await asyncio.sleep(delay)
        return delay
