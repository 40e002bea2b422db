# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of processes that it killed for lack of memory. It is quoted, never guessed.

The kernel's log names each of them, for those who may read it: by their numbers on the machine, so not in a container
with numbers of its own. The events of the own control group are a number only, which does not tell who it was.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import os
import re
from contextlib import suppress
from pathlib import Path

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
