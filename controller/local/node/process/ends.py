# SPDX-License-Identifier: Apache-2.0
"""The order in which the programs of a node end.

Each program has a guard that waits for it, and on a busy machine guards wake in any order. So one observer watches all
programs. Before it becomes the program, a process adds a descriptor of itself (pidfd) to an epoll that it inherits, and
sends it to the node, which keeps it open. The kernel adds the descriptor to the ready list of the epoll in the moment
in which the process ends, and the node reads that list in its order, however late: no priority is needed, and no
program ends too early to be watched. The times are those of the guards, made to ascend in this order.

On a system without such descriptors a program has the time of its guard.
"""

import asyncio
import os
import re
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from trainwright.api.times import Now, wall_clock

# ---------------------------------------------------------------------- memory
#
# What the kernel says of processes that it killed for lack of memory. It is quoted, never guessed.
#
# The kernel's log names each of them, for those who may read it: by their numbers on the machine, so not in a container
# with numbers of its own. The events of the own control group are a number only, which does not tell who it was.
#
# https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html

LOG = Path("/dev/kmsg")
GROUPS = Path("/sys/fs/cgroup")
_RECORD_BYTES = 8192
_KILLED = re.compile(rb"\d+,\d+,(\d+),[^;]*;(?:Out of memory|Memory cgroup out of memory)[^:]*: Killed process (\d+) ")
"""A record: microseconds since the start of the machine, and the number of the process."""
_CLOCK_SECONDS = 2.0
"""How much the clock of the log may be behind."""
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_FIRST_NUMBERS = 0xEFFFFFFC
"""The namespace of process numbers that the machine itself has (PROC_PID_INIT_INO of the kernel)."""


def killed(pid: int, since: float, log: Path = LOG) -> bool:
    """Whether the kernel's log says that it killed this process for lack of memory. Blocks.

    `since` is when the process was started, of time.monotonic: an earlier one may have had its number.
    """
    if pid <= 0 or not has_own_numbers():
        return False
    return any(number == pid and at >= since - _CLOCK_SECONDS for at, number in _named(log))


def has_own_numbers() -> bool:
    """Whether process numbers here are those of the machine."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_NUMBERS
    except OSError:
        return False


def _named(log: Path) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # not everybody may read it
        return found
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_BYTES)  # one at a time
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            if not record:
                break
            found += [(int(at) / 1e6, int(number)) for at, number in _KILLED.findall(record)]
    except OSError:  # there are no more
        pass
    finally:
        os.close(descriptor)
    return found


def count(groups: Path = GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """How many processes of the own control group the kernel has killed for lack of memory; 0 if it does not say."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                places = [groups / path.lstrip("/") / "memory.events", groups / "memory.events"]
            elif controllers == "memory":
                places = [groups / "memory" / path.lstrip("/") / "memory.oom_control"]
            else:
                continue
            for place in places:
                with suppress(OSError):
                    if told := _COUNT.search(place.read_text()):
                        return int(told[1])
    return 0


# ---------------------------------------------------------------------- ends
#
# The order in which the programs of a node end.
#
# Each program has a guard that waits for it, and on a busy machine guards wake in any order. So one observer watches
# all programs. Before it becomes the program, a process adds a descriptor of itself (pidfd) to an epoll that it
# inherits, and sends it to the node, which keeps it open. The kernel adds the descriptor to the ready list of the epoll
# in the moment in which the process ends, and the node reads that list in its order, however late: no priority is
# needed, and no program ends too early to be watched. The times are those of the guards, made to ascend in this order.
#
# On a system without such descriptors a program has the time of its guard.

LATE_SECONDS = 10.0
"""Longest wait for the reports of programs that ended earlier; their guards may be stopped, or the machine is busy."""
_STEP = timedelta(microseconds=1)
_LATEST = timedelta(seconds=10)
_NUMBER_BYTES = 4
Ticket: TypeAlias = tuple[int, int, int]
"""The descriptors of the epoll and of the socket for announcements, and the number of the program."""


class End:
    """The end of one program."""

    def __init__(self, settle: Callable[["End", bool], None]) -> None:
        self._settle = settle
        self.seen: datetime | None = None
        """When the observer has put it in its place."""
        self.pid = 0
        """The number of the program on this machine, once it is known; of use when it has ended, too."""
        self.reported: datetime | None = None
        self.settled: asyncio.Future[datetime] = asyncio.get_running_loop().create_future()

    def report(self, at: datetime) -> None:
        """The guard says when the program ended."""
        if self.reported is None:
            self.reported = at
            self._settle(self, False)

    async def at(self) -> datetime:
        """When it ended; it must have been reported."""
        await asyncio.wait({self.settled}, timeout=LATE_SECONDS)
        if not self.settled.done():
            self._settle(self, True)
        return self.settled.result()


class Ends:
    """Watches the programs of one node. Of the event loop's thread."""

    def __init__(self, now: Now = wall_clock) -> None:
        self._now = now
        self._observer: _Observer | None = None
        self._number = 0
        self._expected: dict[int, End] = {}
        """The programs that run, by number."""
        self._order: deque[End] = deque()
        """Ends that were seen and have no time yet, the first end first."""
        self._last: datetime | None = None

    def expect(self) -> tuple[End, Ticket | None]:
        """The end of a program that is about to be started, and what it announces itself with."""
        end = End(lambda end, late: self.settle(end, late=late))
        if self._observer is None and hasattr(os, "pidfd_open") and hasattr(select, "epoll"):
            with suppress(OSError):  # no descriptor is left: the words of guards count
                self._observer = _Observer(self._announced, self._seen)
        if self._observer is None:
            return end, None
        # A number that a long-lived program still has is not taken again.
        while (number := self._number) in self._expected:
            self._number = (number + 1) % 2**31
        self._number = (number + 1) % 2**31
        self._expected[number] = end
        return end, (*self._observer.inherited, number)

    def forget(self, end: End) -> None:
        """It was not started: nobody will report it, and others do not wait for it."""
        self._drop(end)
        if end in self._order:
            self._order.remove(end)
            self._give_times()
        end.settled.cancel()

    def _drop(self, end: End) -> None:
        for number in [number for number, one in self._expected.items() if one is end]:
            del self._expected[number]

    def _announced(self, number: int, pid: int) -> None:
        if (end := self._expected.get(number)) is not None:
            end.pid = pid

    def _seen(self, number: int) -> None:
        if (end := self._expected.pop(number, None)) is not None:
            self.put(end)

    def put(self, end: End) -> None:
        """It has ended, after all that were put before."""
        if not end.settled.done():
            end.seen = self._now()
            self._order.append(end)

    def settle(self, end: End, *, late: bool = False) -> None:
        """Give times to all ends whose turn it is. `late`: this one does not wait for those before it."""
        if self._observer is not None:
            # The guard may be ahead of this loop: what the kernel has listed by now comes first.
            self._observer.look()
        if end.seen is None:
            # It could not announce itself.
            self._drop(end)
            if not end.settled.done():
                end.settled.set_result(end.reported or self._now())
            return
        if late and end in self._order:
            self._order.remove(end)
            self._order.appendleft(end)
        self._give_times()

    def _give_times(self) -> None:
        while self._order and self._order[0].reported is not None:
            first = self._order.popleft()
            assert first.reported is not None
            at = first.reported
            # Guards are late by moments; by more, the clock of the machine was set back, and later ends follow it.
            if self._last is not None and self._last - at < _LATEST:
                at = max(at, self._last + _STEP)
            self._last = at
            if not first.settled.done():
                first.settled.set_result(at)

    def close(self) -> None:
        """Give the descriptors back; no program runs any more."""
        if self._observer is not None:
            self._observer.close()
            self._observer = None


class _Observer:
    """The epoll, and the descriptors that programs sent."""

    def __init__(self, has_announced: Callable[[int, int], None], seen: Callable[[int], None]) -> None:
        self._has_announced, self._seen = has_announced, seen
        self._epoll = select.epoll()
        self._announced, self._announcing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (self._announced, self._announcing):
            one.setblocking(False)
        self._held: dict[int, int] = {}
        """Descriptors of programs, by number: without one the epoll forgets its program."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll, self.look)
        self._loop.add_reader(self._announced, self._receive)

    @property
    def inherited(self) -> tuple[int, int]:
        return self._epoll.fileno(), self._announcing.fileno()

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._announced, _NUMBER_BYTES, 1)
                if len(data) != _NUMBER_BYTES or len(descriptors) != 1:
                    return
                if (before := self._held.pop(number := int.from_bytes(data, "little"), None)) is not None:
                    os.close(before)
                self._held[number] = descriptors[0]
                self._has_announced(number, _number_of(descriptors[0]))

    def look(self) -> None:
        """See what has ended."""
        while ended := self._epoll.poll(0):
            # A program announces itself before it is in the list.
            self._receive()
            for number, _ in ended:
                if (descriptor := self._held.pop(number, None)) is not None:
                    os.close(descriptor)
                self._seen(number)

    def close(self) -> None:
        self._receive()
        self._loop.remove_reader(self._epoll)
        self._loop.remove_reader(self._announced)
        self._epoll.close()
        self._announced.close()
        self._announcing.close()
        for descriptor in self._held.values():
            os.close(descriptor)


def _number_of(descriptor: int) -> int:
    """The number of the process that a descriptor stands for; -1 if it has ended."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pid:")), -1)
