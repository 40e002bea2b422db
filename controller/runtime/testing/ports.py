# SPDX-License-Identifier: Apache-2.0
"""Loopback ports for programs that are about to start.

A port that is free now may be taken before the program listens on it: by another program that was given the same one,
or by any outgoing connection, which gets its port from the system's own range. Then the program ends, while whoever
has the port may answer in its place. So ports come from below the system's range, and each is reserved for a while,
across processes, by a file.
"""

import fcntl
import os
import random
import socket
import time
from contextlib import suppress
from pathlib import Path

from trainwright.controller.runtime.testing.tools import ControlPlaneError

FOLDER = Path("/tmp", f"trainwright-ports-{os.getuid()}")  # noqa: S108 - one for all processes, whatever their TMPDIR
"""Holds a file for each port that was given away."""
RESERVED_SECONDS = 300.0
"""How long a port is kept for who asked: longer than any program here takes to start."""
_FIRST, _LAST = 11_000, 32_000
_TRIES = 1_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A loopback port on which nothing listens, and which nobody else is given for a while.

    Raises:
        ControlPlaneError: none was found.
    """
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    low, high = _system_range()
    for _ in range(_TRIES):
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - no secret
        if not low <= port <= high and _reserve(FOLDER / str(port)) and is_free(port):
            return port
    raise ControlPlaneError(f"no free port was found between {_FIRST} and {_LAST}; files in {FOLDER} reserve them")


def is_free(port: int) -> bool:
    """Whether a server can listen on the loopback port now."""
    with socket.socket() as probe:
        # As servers do: a port counts as free while its last connections are closing.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reserve(file: Path) -> bool:
    """Write the time into the file, unless it holds a recent one."""
    with os.fdopen(os.open(file, os.O_CREAT | os.O_RDWR, 0o600), "r+") as entry:
        fcntl.flock(entry, fcntl.LOCK_EX)
        now, then = time.time(), float(entry.read() or 0)
        if abs(now - then) < RESERVED_SECONDS:
            return False
        entry.seek(0)
        entry.write(f"{now:.3f}")
        entry.truncate()
        return True


def _system_range() -> tuple[int, int]:
    """The ports that outgoing connections get; elsewhere than on Linux they begin far above ours."""
    with suppress(OSError, ValueError):
        low, high = map(int, _RANGE.read_text().split())
        return low, high
    return 49_152, 65_535
