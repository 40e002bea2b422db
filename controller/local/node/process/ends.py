# SPDX-License-Identifier: Apache-2.0
"""The order in which the programs of a node end, and what the kernel says of those that it killed.

Each program has a guard that waits for it, and on a busy machine guards wake in any order. So one tracker watches all
programs. Before it becomes the program, a process adds a descriptor of itself (pidfd) to an epoll that it inherits, and
sends it to the node, which keeps it open. The kernel adds the descriptor to the ready list of the epoll in the moment
in which the process ends, and the node reads that list in its order, however late: no priority is needed, and no
program ends too early to be watched. Times of ends ascend in this order.
"""

import asyncio
import os
import re
import select
import socket
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from trainwright.api.times import Now, wall_clock

_STEP = timedelta(microseconds=1)
_SET_BACK = timedelta(seconds=10)
"""By more, the clock of the machine was set back, and later ends follow it."""
_NUMBER_BYTES = 4
ExitHandle: TypeAlias = tuple[int, int, int]
"""The descriptors of the epoll and of the socket for announcements, and the number of the program."""


class TrackedExit:
    def __init__(self, tracker: "ExitOrderTracker") -> None:
        self._tracker = tracker
        self.pid = 0
        """The number of the program on this machine, once it is known; of use when it has ended, too."""
        self.at: datetime | None = None
        """When it ended; None: it runs, as far as was seen."""

    def seen(self) -> bool:
        self._tracker.look()
        return self.at is not None

    def forget(self) -> None:
        self._tracker.forget(self)

    def report(self, at: datetime) -> datetime:
        """The guard says when the program ended. Returns when it did in the order of all ends."""
        # The guard may be ahead of this loop: what the kernel has listed by now comes first.
        self._tracker.look()
        return self.at or self._tracker.settle(self, at)


class ExitOrderTracker:
    """Watches the programs of one node. Of the event loop's thread."""

    def __init__(self, now: Now = wall_clock) -> None:
        self._now = now
        self._loop: asyncio.AbstractEventLoop
        self._epoll: select.epoll | None = None
        self._announced: socket.socket
        self._announcing: socket.socket
        self._held: dict[int, int] = {}
        """Descriptors of programs, by number: without one the epoll forgets its program."""
        self._number = 0
        self._expected: dict[int, TrackedExit] = {}
        """The programs that run, by number."""
        self._last: datetime | None = None

    def expect(self) -> tuple[TrackedExit, ExitHandle | None]:
        """The end of a program that is about to be started, and what it announces itself with."""
        expected = TrackedExit(self)
        if self._epoll is None:
            try:
                self._epoll = self._open()
            except OSError:  # no descriptor is left: the words of guards count
                return expected, None
        self._number += 1
        self._expected[self._number] = expected
        return expected, (self._epoll.fileno(), self._announcing.fileno(), self._number)

    def _open(self) -> select.epoll:
        self._announced, self._announcing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (self._announced, self._announcing):
            one.setblocking(False)
        epoll, self._loop = select.epoll(), asyncio.get_running_loop()
        self._loop.add_reader(epoll, self.look)
        self._loop.add_reader(self._announced, self._receive)
        return epoll

    def forget(self, exit_: TrackedExit) -> None:
        self._expected = {number: one for number, one in self._expected.items() if one is not exit_}

    def settle(self, exit_: TrackedExit, at: datetime) -> datetime:
        """It has ended, after all that have ended before. Returns when it did in this order."""
        self.forget(exit_)
        if self._last is not None and self._last - at < _SET_BACK:
            at = max(at, self._last + _STEP)
        self._last = exit_.at = at
        return at

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._announced, _NUMBER_BYTES, 1)
                if len(data) != _NUMBER_BYTES or len(descriptors) != 1:
                    return
                number = int.from_bytes(data, "little")
                self._let_go(number)
                self._held[number] = descriptors[0]
                if (expected := self._expected.get(number)) is not None:
                    expected.pid = _number_of(descriptors[0])

    def _let_go(self, number: int) -> None:
        if (descriptor := self._held.pop(number, None)) is not None:
            os.close(descriptor)

    def look(self) -> None:
        """See what has ended."""
        while self._epoll is not None and (ended := self._epoll.poll(0)):
            # A program announces itself before it is in the list.
            self._receive()
            for number, _ in ended:
                self._let_go(number)
                if (expected := self._expected.get(number)) is not None:
                    self.settle(expected, self._now())

    def close(self) -> None:
        if self._epoll is None:
            return
        self._receive()
        for one in (self._epoll, self._announced):
            self._loop.remove_reader(one)
        for closed in (self._epoll, self._announced, self._announcing):
            closed.close()
        self._epoll = None
        for number in list(self._held):
            self._let_go(number)


def _number_of(descriptor: int) -> int:
    """The number of the process that a descriptor stands for; -1 if it has ended."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pid:")), -1)


# ---------------------------------------------------------------------- lack of memory
#
# The kernel is quoted, never guessed. Its log names each process that it killed, for those who may read it: by their
# numbers on the machine, so not in a container with numbers of its own. The events of the own control group are a
# number only. https://docs.kernel.org/admin-guide/cgroup-v2.html,
# https://docs.kernel.org/admin-guide/cgroup-v1/memory.html

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
    with suppress(OSError):  # not everybody may read it; or there are no more records
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0):
            while True:
                try:
                    record = os.read(descriptor, _RECORD_BYTES)  # one at a time
                except BrokenPipeError:  # it was overwritten meanwhile
                    continue
                if not record:
                    break
                for at, number in _KILLED.findall(record):
                    if int(number) == pid and int(at) / 1e6 >= since - _CLOCK_SECONDS:
                        return True
    return False


def has_own_numbers() -> bool:
    """Whether process numbers here are those of the machine."""
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino == _FIRST_NUMBERS
    return False


def count(groups: Path = GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """How many processes of the own control group the kernel has killed for lack of memory; 0 if it does not say."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            places = []
            if controllers == "":
                places = [groups / path.lstrip("/") / "memory.events", groups / "memory.events"]
            elif controllers == "memory":
                places = [groups / "memory" / path.lstrip("/") / "memory.oom_control"]
            for place in places:
                with suppress(OSError):
                    if told := _COUNT.search(place.read_text()):
                        return int(told[1])
    return 0
