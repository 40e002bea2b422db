# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100 - pathlib would double the time to start
"""Starts guards for the node: a small process that forks, so that the large one of the cluster never has to.

A fork holds Python's interpreter lock until the new program runs, which on a busy machine stopped the cluster for 0.1 s
at a time. A fork of this process takes a millisecond, and the new one is a guard already: nothing has to be imported.

It runs in a bare interpreter (`python -I -S spawner.py FD`) and imports nothing of the project but `guard`. FD is a
socket. Each message is `HEADER`: how many more descriptors there are, and which numbers the specification of the
program knows them by. With it come the guard's standard input, output and error, and those descriptors. At the end of
the socket guards go on, and notice by their own pipes that the cluster is gone; this process ends with the last of
them.

It adopts what a guard leaves behind that was killed itself, and kills it: also a process in a session of its own whose
parent has ended. A guard that ends as it should leaves nothing.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from typing import Any

if __name__ == "__main__":  # a bare interpreter finds no packages
    sys.path.append(os.path.abspath(f"{__file__}/../../../../../.."))

from trainwright.controller.local.node.process import guard, lowlevel

NUMBERS = 5
"""So many descriptors more at most: standard input, output and error of a program, and those of its exit handle."""
HEADER = struct.Struct(f"={1 + NUMBERS}i")
STANDARD = 3
MOST = STANDARD + NUMBERS
ORPHAN_SECONDS = 0.005
"""Time until orphans are looked for again: a killed process takes a moment to end, and may have forked before."""


def become_guard(numbers: list[int], descriptors: list[int]) -> None:
    """Run the guard in this process; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors[:STANDARD]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        guard.main(dict(zip(numbers, descriptors[STANDARD:], strict=True)))
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        # Whatever happens, and if the disk has no room for what happened: a copy of the spawner must not go on.
        os._exit(code)


class Spawner:
    """The loop of the process: it starts guards, collects them, and ends what a dead one left."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests: socket.socket | None = requests
        self._guards: set[int] = set()
        lowlevel.adopt_orphans()
        self._wake, self._woken = os.pipe()
        for descriptor in (self._wake, self._woken):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Serve the socket until its end, and stay until the last guard has ended."""
        orphans = False
        while self._requests is not None or self._guards or orphans:
            sources: list[Any] = [self._wake, *([self._requests] if self._requests is not None else [])]
            ready, _, _ = select.select(sources, [], [], ORPHAN_SECONDS if orphans else None)
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            orphans = self._collect()
            if self._requests is not None and self._requests in ready:
                self._serve(self._requests)

    def _serve(self, requests: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(requests, HEADER.size, MOST)
        while 0 < len(data) < HEADER.size and (more := requests.recv(HEADER.size - len(data))):
            data += more
        if len(data) < HEADER.size:
            # The node ended, perhaps in the middle of a request.
            for descriptor in descriptors:
                os.close(descriptor)
            requests.close()
            self._requests = None
            return
        count, *numbers = HEADER.unpack(data)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for descriptor in (self._wake, self._woken):
                os.close(descriptor)
            requests.close()
            become_guard(numbers[:count], descriptors)
        self._guards.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)

    def _collect(self) -> bool:
        """Collect what has ended, and kill what belongs to no guard any more. Returns whether some may be left."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._guards.discard(pid)
        orphans = [pid for pid in lowlevel.children(os.getpid()) if pid not in self._guards]
        for orphan in orphans:
            # Its children are no orphans yet, and may start others meanwhile.
            lowlevel.kill([orphan, *lowlevel.descendants(orphan)])
        return bool(orphans)


def main() -> None:
    """Serve the socket until its end."""
    Spawner(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
