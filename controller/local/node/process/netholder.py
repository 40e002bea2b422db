# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH123 - pathlib would double the time to start
"""Holds a network namespace that has a loopback and nothing else, and opens sockets in it.

It runs as a file in a bare interpreter (`python -I -S network.py FD`) and imports nothing of the project. FD is a
socket. First it sends `READY`, or why the namespace cannot be made. Then it answers each `OPEN` with a TCP socket of
the namespace. At the end of the socket it ends; the namespace goes with the last process in it.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
READY, OPEN = b"ready", b"o"


def make() -> None:
    """Make the namespace, in a user namespace with the own user and group only. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(asked, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(asked, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def main() -> None:
    """Make the namespace and serve the socket until its end."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    try:
        make()
    except OSError as error:
        requests.sendall((error.strerror or str(error)).encode("utf-8", "replace"))
        return
    requests.sendall(READY)
    while requests.recv(len(OPEN)):
        with socket.socket() as opened:
            socket.send_fds(requests, [OPEN], [opened.fileno()])


if __name__ == "__main__":
    main()
