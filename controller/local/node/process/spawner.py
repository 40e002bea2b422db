# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100 - pathlib would double the time to start
"""Starts guards for the node: a small process that forks, so that the large one of the cluster never has to.

A fork holds Python's interpreter lock until the new program runs, which on a busy machine stopped the cluster for 0.1 s
at a time. A fork of this process takes a millisecond, and the new one is a guard already: nothing has to be imported.

It runs in a bare interpreter (`python -I -S spawner.py FD`) and imports nothing of the project but `guard`. FD is a
socket. Each message is `HEADER`: how many more descriptors there are, and which numbers the specification of the
program knows them by. With it come the guard's standard input, output and error, and those descriptors. This process
ends with the socket; guards go on, and notice by their own pipes that the cluster is gone.

What a guard leaves behind that was killed itself is found by its environment; see `lowlevel.kill_marked`.
"""

import os
import signal
import socket
import struct
import sys
import traceback

if __name__ == "__main__":  # a bare interpreter finds no packages
    sys.path.append(os.path.abspath(f"{__file__}/../../../../../.."))

from trainwright.controller.local.node.process import guard

NUMBERS = 5
"""So many descriptors more at most: standard input, output and error of a program, and those of its exit handle."""
HEADER = struct.Struct(f"={1 + NUMBERS}i")
STANDARD = 3
MOST = STANDARD + NUMBERS


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


def received(requests: socket.socket) -> tuple[list[int], list[int]] | None:
    """The numbers and the descriptors of the next request; None if the node has ended, perhaps in the middle of one."""
    data, descriptors, _, _ = socket.recv_fds(requests, HEADER.size, MOST)
    while 0 < len(data) < HEADER.size and (more := requests.recv(HEADER.size - len(data))):
        data += more
    if len(data) < HEADER.size:
        return None
    count, *numbers = HEADER.unpack(data)
    return numbers[:count], descriptors


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a guard ended
    while (request := received(requests)) is not None:
        if os.fork() == 0:
            requests.close()
            become_guard(*request)
        for descriptor in request[1]:
            os.close(descriptor)


if __name__ == "__main__":
    main()
