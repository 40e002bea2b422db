# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100, PTH120, PTH118 - pathlib would double the time to start
"""Starts guards for the node: a small process that forks, so that the large one of the cluster never has to.

A fork holds Python's interpreter lock until the new program runs, which on a busy machine stopped the cluster for 0.1 s
at a time. A fork of this process takes a millisecond, and the new one is a guard already: nothing has to be imported.

It runs as a file in a bare interpreter (`python -I -S spawner.py FD`) and imports nothing of the project but `guard`.
FD is a socket. Each message is `HEADER`: how many more descriptors there are, and which numbers the order of the guard
knows them by. With it come the guard's standard input, output and error, and those descriptors. At the end of the
socket this process ends; guards go on, and notice by their own pipes that the cluster is gone.
"""

import importlib.util
import os
import signal
import socket
import struct
import sys
import traceback
from typing import Any

HEADER = struct.Struct("=4i")
STANDARD = 3
MOST = STANDARD + 3


def load_guard() -> Any:
    """The module `guard`, by its path: the folder of this file must not be searched for modules."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
    spec = importlib.util.spec_from_file_location("guard", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def become_guard(guard: Any, numbers: list[int], descriptors: list[int]) -> None:
    """Run the guard in this process; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, descriptor in enumerate(descriptors[:STANDARD]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        guard.main(dict(zip(numbers, descriptors[STANDARD:], strict=True)))
        code = 0
    except BaseException:  # a copy of the spawner must not go on
        os.write(2, traceback.format_exc().encode())
    os._exit(code)


def main() -> None:
    """Serve the socket until its end."""
    guard = load_guard()
    # The kernel reaps guards.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, HEADER.size, MOST)
        if not data:
            return
        while len(data) < HEADER.size:
            data += requests.recv(HEADER.size - len(data))
        count, *numbers = HEADER.unpack(data)
        if os.fork() == 0:
            requests.close()
            become_guard(guard, numbers[:count], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
