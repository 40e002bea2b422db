# SPDX-License-Identifier: Apache-2.0
"""When a request that failed is tried again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from trainwright.controller.initialize.contract import InitializeError

TRIES = 5
LONGEST_SECONDS = 60.0
LONGEST_ORDERED_SECONDS = 300.0
"""Retry-After is obeyed up to here: limits of hubs are counted in windows of five minutes."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Tries:
    """Counts the failures of one action, and waits between them."""

    def __init__(self, sleep: Sleep, warn: Callable[[str], None]) -> None:
        self._sleep = sleep
        self._warn = warn
        self._failures = 0

    def begin_again(self) -> None:
        """Something was achieved since the last failure."""
        self._failures = 0

    async def after(self, error: InitializeError) -> None:
        """Wait before the next try; raises the error if there is none."""
        self._failures += 1
        if not error.retry:
            raise error
        if self._failures >= TRIES:
            raise InitializeError(error.word, f"{error.sentence}, after {TRIES} tries") from error
        pause = min(LONGEST_SECONDS, 2.0**self._failures)
        if error.after is not None:
            pause = max(pause, min(error.after, LONGEST_ORDERED_SECONDS))
        self._warn(f"{error.sentence}; trying again in {pause:.0f} s")
        await self._sleep(pause)


async def persist(action: Callable[[], Awaitable[T]], tries: Tries) -> T:
    """The result of an action that may fail for a while."""
    while True:
        try:
            return await action()
        except InitializeError as error:
            await tries.after(error)
