# SPDX-License-Identifier: Apache-2.0
"""Runs one program and makes sure that it never outlives the process that started it.

The parent holds the write end of a pipe as long as it lives; even SIGKILL closes it. The guard watches the read end. At
end of file it stops the program and, if told to, deletes the working folder of the program. It passes on SIGTERM and
turns SIGUSR1 into SIGKILL. The program leads a process group: signals go to the whole group, and what is left of the
group when the program has ended is killed. If the guard itself is killed, the kernel kills the program (only on Linux,
and not the children of the program).

It runs as a file in a bare interpreter (`python -I -S guard.py FD REMOVE PROGRAM …`) and imports nothing of the
project, so that it starts in a few milliseconds. FD is the read end of the pipe; REMOVE is a folder or empty.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

_GRACE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1
_CANNOT_RUN = 127


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Run the program until it or the parent ends; returns the exit code of the program."""
    lifeline, remove, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # A signal wakes the select below through this pipe; the handlers do nothing.
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    # A session of its own: Ctrl-C on the terminal only reaches the parent, which stops all programs in order.
    os.setsid()
    try:
        # The hook is safe, because this process has a single thread.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=_die_with_parent,  # noqa: PLW1509
        )
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return _CANNOT_RUN
    orphaned = False
    while child.poll() is None and not orphaned:
        ready, _, _ = select.select([lifeline, wake_read], [], [])
        received = os.read(wake_read, 64) if wake_read in ready else b""
        if signal.SIGUSR1 in received:
            _signal_group(child, signal.SIGKILL)
        elif signal.SIGTERM in received:
            _signal_group(child, signal.SIGTERM)
        orphaned = lifeline in ready and not os.read(lifeline, 1)
    if orphaned:
        _signal_group(child, signal.SIGTERM)
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            _signal_group(child, signal.SIGKILL)
            child.wait()
    _signal_group(child, signal.SIGKILL)
    if orphaned:
        _remove(remove)
    return child.returncode


def _signal_group(child: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    # macOS refuses if every member has ended.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _remove(folder: str) -> None:
    """Delete the folder, also while other programs that are ending still write into it."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while folder and os.path.isdir(folder) and time.monotonic() < deadline:  # noqa: PTH112
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
            return
        time.sleep(0.1)


if __name__ == "__main__":
    # A program ended by a signal is reported as shells do.
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
