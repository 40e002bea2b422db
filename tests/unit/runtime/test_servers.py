# SPDX-License-Identifier: Apache-2.0
"""A stopped server has no open connection, whatever its peers do."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trainwright.controller.runtime.servers import http as servers
from trainwright.controller.runtime.servers.http import HTTPServer, text_route
from trainwright.controller.runtime.testing.programs import Authority

LARGE = b"x" * 2**24
"""More than the buffers of both ends hold."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For peers that never do their part, and are waited for in full."""
    for limit in ("CLOSE_SECONDS", "SHUTDOWN_SECONDS"):
        monkeypatch.setattr(servers, limit, 0.2)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority(tmp_path).server("server"))
    return context


@contextlib.asynccontextmanager
async def serving(tls: ssl.SSLContext | None) -> AsyncIterator[HTTPServer]:
    """A server for the length of the block."""
    routes = {"/large": text_route(lambda: LARGE, "text/plain")}
    server = HTTPServer("test", "127.0.0.1:0", routes, tls=(lambda: tls) if tls is not None else None)
    task = asyncio.ensure_future(server.run())
    await server.listening.wait()
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.wait({task})


class Peer:
    """A client whose kernel answers for it, and which itself does only what the test says."""

    def __init__(self, server: HTTPServer) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setblocking(False)
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, 2**16)

    async def begin_handshake(self) -> None:
        """Up to the server's first answer, so that the server has accepted the connection."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        await self.send(self._to_send.read())
        self._received.write(await self.receive())

    async def end_handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._received.write(await self.receive())
            else:
                return await self.send(self._to_send.read())

    def is_cut_off(self) -> bool:
        """Whether the server has closed the connection; no loop runs meanwhile that could still do it."""
        with contextlib.closing(self._socket):
            self._socket.settimeout(1)
            try:
                while self._socket.recv(2**16):
                    pass
            except ConnectionResetError:
                return True
            except TimeoutError:
                return False
            return True


async def test_a_peer_that_is_done_with_its_handshake_and_does_no_more(tls: ssl.SSLContext, impatient: None) -> None:
    async with serving(tls) as server:
        peer = Peer(server)
        await peer.begin_handshake()
        await peer.end_handshake()
        await peer.receive()  # session tickets: the server is done as well
    assert peer.is_cut_off()


async def test_a_peer_that_does_not_end_its_handshake(tls: ssl.SSLContext, impatient: None) -> None:
    async with serving(tls) as server:
        peer = Peer(server)
        await peer.begin_handshake()
    assert peer.is_cut_off()


async def test_a_peer_that_ends_its_handshake_when_the_server_has_ended(tls: ssl.SSLContext) -> None:
    async with asyncio.TaskGroup() as group, serving(tls) as server:
        peer = Peer(server)
        await peer.begin_handshake()

        async def later() -> None:
            while server.listening.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0)
            await peer.end_handshake()

        group.create_task(later())
    assert peer.is_cut_off()


async def test_a_peer_that_does_not_read_its_answer(impatient: None) -> None:
    async with serving(None) as server:
        peer = Peer(server)
        await peer.send(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
        assert await peer.receive()
    assert peer.is_cut_off()
