# SPDX-License-Identifier: Apache-2.0
"""Hands changes to those who watch. A watcher that does not read is ended, and holds up nobody."""

import asyncio
from collections import deque
from collections.abc import Iterable

from trainwright.controller.local.apiserver.store.changes import StoreChange

BACKLOG_BYTES = 32 * 2**20
"""What waits for one watcher at most."""


class Overflow(Exception):  # noqa: N818 - an outcome, not a defect
    """The watcher did not keep up; it has to list again."""


class StoreWatch:
    """The changes of one collection after a version, in their order. Close it.

    Args:
        since: the version.
        changes: those that were told already.
    """

    def __init__(self, since: int, changes: Iterable[StoreChange]) -> None:
        self._since = since
        self._waiting: deque[StoreChange] = deque(changes)
        self._bytes = sum(change.size for change in self._waiting)
        self._arrived = asyncio.Event()
        self._overflow = False
        self.closed = False
        self.ended = False
        """No more changes come; those that wait can still be taken."""
        if self._waiting:
            self._arrived.set()

    def offer(self, change: StoreChange) -> None:
        """Add a change; for the store."""
        # What was written before the watch began may be told after that: it waits for its commit.
        if self._overflow or self.closed or change.version <= self._since:
            return
        self._bytes += change.size
        if self._bytes > BACKLOG_BYTES and self._waiting:
            self._overflow = True
            self._waiting.clear()
        else:
            self._waiting.append(change)
        self._arrived.set()

    async def take(self, seconds: float | None = None) -> list[StoreChange]:
        """All changes that wait; empty if there is none within `seconds`, or if the watch was closed.

        Raises:
            Overflow: too much waited.
        """
        if not (self._waiting or self._overflow or self.closed or self.ended):
            try:
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        self._arrived.clear()
        if self._overflow:
            raise Overflow
        taken = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    def end(self) -> None:
        """Add no more changes: what it follows is gone."""
        self.ended = True
        self._arrived.set()

    def close(self) -> None:
        """End it; who waits in `take` gets nothing."""
        self.closed = True
        self._waiting.clear()
        self._arrived.set()
