# SPDX-License-Identifier: Apache-2.0
"""A closed transport has no open connection, however its last requests ended and whatever the server does."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.programs import Authority

HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class SilentServer:
    """Takes a connection and a request, says what it is told, and nothing more: no end of TLS either."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*authority.server("server"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(20)
        self.config = ClusterConfig(
            server=f"https://127.0.0.1:{self._listener.getsockname()[1]}", ca_data=authority.pem
        )

    def take(self, answer: bytes) -> socket.socket:
        """The bare connection, after a request and so much of its answer. Blocks."""
        connection, _ = self._listener.accept()
        connection.settimeout(20)
        tls = self._context.wrap_socket(connection, server_side=True)
        assert tls.recv(2**16).startswith(b"GET /")
        if answer:
            tls.sendall(answer)
        return socket.socket(fileno=tls.detach())

    def close(self) -> None:
        self._listener.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the client has closed it; no loop runs meanwhile that could still do it."""
    with contextlib.closing(connection):
        connection.settimeout(1)
        try:
            while connection.recv(2**16):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SilentServer]:
    """A server of the test's own."""
    with contextlib.closing(SilentServer(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("answer", [b"", HALF], ids=["unanswered", "half answered"])
async def test_of_a_cancelled_request_nothing_is_left(server: SilentServer, answer: bytes) -> None:
    transport = HTTPTransport(server.config)
    asked = asyncio.ensure_future(transport.send(Request("GET", "/")))
    connection = await asyncio.to_thread(server.take, answer)
    asked.cancel()
    await asyncio.wait({asked})
    await transport.close()
    assert is_closed(connection)


async def test_of_a_finished_request_nothing_is_left(server: SilentServer) -> None:
    transport = HTTPTransport(server.config)
    asked = asyncio.ensure_future(transport.send(Request("GET", "/")))
    connection = await asyncio.to_thread(server.take, WHOLE)
    assert (await asked).body == b"{}"
    await transport.close()
    assert is_closed(connection)
