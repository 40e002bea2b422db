# SPDX-License-Identifier: Apache-2.0
"""Requests through a proxy: how often they are sent."""

import asyncio

import pytest

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ConnectionLost


class Proxy:
    """Answers the first request of each connection, and ends with the second one unanswered."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answered in (True, False):
            head = await reader.readuntil(b"\r\n\r\n")
            self.seen.append(head.decode().partition(" ")[0])
            if answered:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.transport.abort()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_write_whose_connection_broke_is_not_sent_again(method: str) -> None:
    """It may have been carried out."""
    proxy = Proxy()
    async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        transport = HTTPTransport(ClusterConfig(server="http://cluster.example", proxy_url=address))
        await transport.send(Request("GET", "/"))
        with pytest.raises(ConnectionLost):
            await transport.send(Request(method, "/x", body=b"{}"))
        await transport.close()
    assert proxy.seen == ["GET", method]
