# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, identified by number and start time, so that a reused number is never mistaken."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"


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
