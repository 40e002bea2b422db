# SPDX-License-Identifier: Apache-2.0
"""Passes connections from this machine's loopback to the same port of a node: `python -I -S forward.py PORT PID`.

The listening socket belongs to the machine's network, and those made later to the node's.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000


def enter_network(pid: int) -> None:
    """Move this thread to the network of a process."""
    with open(f"/proc/{pid}/ns/net") as network:  # noqa: PTH123 - a descriptor is needed
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def main() -> None:
    """Forward until a signal ends this process."""
    port, pid = map(int, sys.argv[1:])
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    enter_network(pid)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = await asyncio.start_server(forward, sock=listening)
    await server.serve_forever()


if __name__ == "__main__":
    os.chdir("/")
    asyncio.run(main())
