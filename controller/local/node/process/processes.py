# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, identified by number and start time, so that a reused number is never mistaken."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
MARKER = "TRAINWRIGHT_LOCAL_PROCESS"
"""A variable of every process that the node starts: its record. What it starts inherits it."""
KILL_SECONDS = 10.0
_AGAIN_SECONDS = 0.005


def start_time(pid: int) -> str:
    """When a process started, in a form that is unique for its number; empty if there is none.

    Ticks since boot on Linux (proc_pid_stat(5), field 22), elsewhere the time that `ps` prints. A zombie has ended.
    """
    if not LINUX:
        listed = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - POSIX
            capture_output=True,
            text=True,
            check=False,
        )
        return listed.stdout.strip()
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {b"Z", b"X"} else fields[19].decode()


def is_running(pid: int, started: str) -> bool:
    """Whether the process with this number is the one that started then."""
    return bool(started) and start_time(pid) == started


def kill_group(pid: int, started: str) -> bool:
    """SIGKILL to the process group that this process leads. Returns False if it is another process or has ended."""
    if not is_running(pid, started):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True


def kill_marked(record: str) -> list[int]:
    """SIGKILL to every process with this record, or one below it, until none is left. Blocks.

    Finds what left the process group and whose parent has ended, too, by its environment (Linux). Returns the numbers
    of those that do not end.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while left := _marked(record):
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        # New ones may have been started between the look and the signal.
        time.sleep(_AGAIN_SECONDS)
    return []


def _marked(record: str) -> list[int]:
    if not LINUX:
        return []
    wanted, below = (f"{MARKER}={record}{end}".encode() for end in ("\0", "/"))
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = b"\0" + (folder / "environ").read_bytes() + b"\0"
        except OSError:  # it has ended, or is another user's
            continue
        pid = int(folder.name)
        if (b"\0" + wanted in variables or b"\0" + below in variables) and start_time(pid) and pid != os.getpid():
            found.append(pid)
    return found
