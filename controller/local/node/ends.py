# SPDX-License-Identifier: Apache-2.0
"""The order in which the programs of a node end.

Each program has a guard that waits for it, and on a busy machine guards wake in any order. So one observer watches all
programs: the kernel adds a descriptor of a process (pidfd) to the ready list of an epoll when the process ends, and the
event loop gets that list in its order. The times are those of the guards, made to ascend in this order.

A program that ended before it could be watched, or on a system without such descriptors, has the time of its guard.
"""

import asyncio
import os
from collections import deque
from datetime import datetime, timedelta

from trainwright.api.times import Now, wall_clock

LATE_SECONDS = 10.0
"""Longest wait for the reports of programs that ended earlier; their guards may be stopped, or the machine is busy."""
_STEP = timedelta(microseconds=1)
_LATEST = timedelta(seconds=10)


class End:
    """The end of one program."""

    def __init__(self, ends: "Ends") -> None:
        self._ends = ends
        self.seen = False
        """Whether the observer has put it in its place."""
        self.reported: datetime | None = None
        self.settled: asyncio.Future[datetime] = asyncio.get_running_loop().create_future()

    def report(self, at: datetime) -> None:
        """The guard says when the program ended."""
        if self.reported is None:
            self.reported = at
            self._ends.settle(self)

    async def at(self) -> datetime:
        """When it ended; it must have been reported."""
        await asyncio.wait({self.settled}, timeout=LATE_SECONDS)
        if not self.settled.done():
            self._ends.settle(self, late=True)
        return self.settled.result()


class Ends:
    """Watches the programs of one node. Of the event loop's thread."""

    def __init__(self, now: Now = wall_clock) -> None:
        self._now = now
        self._order: deque[End] = deque()
        """Ends that were seen and have no time yet, the first end first."""
        self._last: datetime | None = None

    def watch(self, pid: int) -> End:
        """Watch a program from now on; 0 is one that has ended."""
        end = End(self)
        if pid and hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(pid)
            except OSError:
                return end
            asyncio.get_running_loop().add_reader(descriptor, self._seen, end, descriptor)
        return end

    def _seen(self, end: End, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self.put(end)

    def put(self, end: End) -> None:
        """It has ended, after all that were put before."""
        if not end.settled.done():
            end.seen = True
            self._order.append(end)

    def settle(self, end: End, *, late: bool = False) -> None:
        """Give times to all ends whose turn it is. `late`: this one does not wait for those before it."""
        if not end.seen:
            end.settled.set_result(end.reported or self._now())
            return
        if late:
            self._order.remove(end)
            self._order.appendleft(end)
        while self._order and self._order[0].reported is not None:
            first = self._order.popleft()
            assert first.reported is not None
            at = first.reported
            # Guards are late by moments; by more, the clock of the machine was set back, and later ends follow it.
            if self._last is not None and self._last - at < _LATEST:
                at = max(at, self._last + _STEP)
            self._last = at
            first.settled.set_result(at)
