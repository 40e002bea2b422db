# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112, PTH123, PTH208 - pathlib would double the time to start
"""Processes of this machine by /proc, and calls of the kernel: for the node and for its small programs.

The programs load it in a bare interpreter, so it imports little.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence

MARKER = "TRAINWRIGHT_LOCAL_PROCESS"
"""A variable of every process that the node starts: a path in the folder of its pod. What it starts inherits it."""
KILL_SECONDS = 10.0
_AGAIN_SECONDS = 0.005
_ENDED = (b"Z", b"X")
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_EPOLL_CTL_ADD = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def die_with_parent() -> None:
    """Be killed when the parent ends, whatever ends it."""
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of each descendant whose parent ends, also of one in a session of its own."""
    LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def map_own_user(user: int, group: int) -> None:
    """In a new user namespace: the own user and group, and no others. Raises OSError."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def announce(epoll: int, channel: int, number: int) -> None:
    """Let the tracker of exits (see `ends`) see the end of this process; without that, its guard's word counts."""
    with contextlib.suppress(OSError):
        me = os.pidfd_open(os.getpid())
        with socket.socket(fileno=os.dup(channel)) as announcing:
            # It keeps the descriptor open; in the message already, before it is read.
            socket.send_fds(announcing, [number.to_bytes(4, "little")], [me])
        # Once only, with the number for data. The kernel's structure has a gap before the data, but not on x86-64.
        gap = "" if os.uname().machine == "x86_64" else "4x"
        event = struct.pack(f"=I{gap}i4x", select.EPOLLIN | select.EPOLLONESHOT, number)
        LIBC.epoll_ctl(epoll, _EPOLL_CTL_ADD, me, event)
        os.close(me)


def exit_code(status: int) -> int:
    """The code of a process as shells report it: 128 + n after signal n."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def start_failure(error: Exception, command: Sequence[str], folder: str) -> str:
    """Why a program cannot run, in the words of container runtimes."""
    name = command[0]
    strerror = getattr(error, "strerror", None)
    if getattr(error, "filename", None) == folder and name != folder:
        return f'working directory "{folder}": {strerror}'
    if isinstance(error, PermissionError) and os.path.isdir(name):
        return f'exec: "{name}": is a directory'
    if isinstance(error, FileNotFoundError):
        missing = f"stat {name}: no such file or directory" if "/" in name else "executable file not found in $PATH"
        return f'exec: "{name}": {missing}'
    return f'exec: "{name}": {(strerror or str(error)).lower()}'


# ---------------------------------------------------------------------- /proc


def processes(proc: str = "/proc") -> Iterator[tuple[int, list[bytes]]]:
    """The processes that have not ended, with the fields of `stat` from the third on: proc_pid_stat(5)."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(proc):
            if name.isdigit() and (fields := _stat(f"{proc}/{name}/stat")):
                yield int(name), fields


def _stat(path: str) -> list[bytes]:
    """Empty for a process that has ended."""
    try:
        with open(path, "rb") as file:
            # The name of the program stands in brackets and may hold anything.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return []
    return fields if fields and fields[0] not in _ENDED else []


def descendants(root: int) -> list[int]:
    known: dict[int, list[int]] = {}
    for pid, fields in processes():
        known.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = known.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_marked(mark: str) -> list[int]:
    """SIGKILL to every process with this mark, or one below it, until none is left. Blocks.

    Finds what left the process group and whose parent has ended, too, by its environment. Returns the numbers of those
    that do not end.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while left := marked(mark):
        kill(left)
        if time.monotonic() > deadline:
            return left
        # New ones may have been started between the look and the signal.
        time.sleep(_AGAIN_SECONDS)
    return []


def marked(mark: str) -> list[int]:
    """The processes with this mark, or one below it. Blocks."""
    wanted, below = (f"\0{MARKER}={mark}{end}".encode() for end in ("\0", "/"))
    found = []
    for pid, _ in processes():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = b"\0" + file.read() + b"\0"
            if (wanted in variables or below in variables) and pid != os.getpid():
                found.append(pid)
    return found
