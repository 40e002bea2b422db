# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100 - pathlib would double the time to start
"""Starts guards for the node: a small process that forks, so that the large one of the cluster never has to.

A fork holds Python's interpreter lock until the new program runs, which on a busy machine stopped the cluster for 0.1 s
at a time. A fork of this process takes a millisecond, and the new one is a guard already: nothing has to be imported.

It runs in a bare interpreter (`python -I -S spawner.py FD`) and imports nothing of the project but `guard`. FD is a
socket. Each message is a byte, with which come the guard's standard input, output and error, and the descriptors that
the specification of the program names, in their order. This process ends with the socket; guards go on, and notice by
their own pipes that the cluster is gone.

What a guard leaves behind that was killed itself is found by its environment; see `lowlevel.kill_marked`.
"""

import os
import signal
import socket
import sys
import traceback

if __name__ == "__main__":  # a bare interpreter finds no packages
    sys.path.append(os.path.abspath(f"{__file__}/../../../../../.."))

from trainwright.controller.local.node.process import guard

STANDARD = 3
MOST = STANDARD + 5
"""Descriptors of a request: also standard input, output and error of a program, and those of its exit handle."""


def become_guard(descriptors: list[int]) -> None:
    """Run the guard in this process; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors[:STANDARD]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        guard.main(descriptors[STANDARD:])
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        # Whatever happens, and if the disk has no room for what happened: a copy of the spawner must not go on.
        os._exit(code)


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a guard ended
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1, MOST)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            become_guard(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
