# SPDX-License-Identifier: Apache-2.0
"""Requests through a proxy: a tunnel, with the credentials of its URL."""

import asyncio
from dataclasses import dataclass, field

import pytest

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ConfigurationError, Unreachable

SERVER = "http://cluster.example"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Proxy:
    """Answers the question for a tunnel, and then as the server would."""

    answer: bytes
    seen: list[str] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = self.answer
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.seen.append(head.decode())
                writer.write(answer)
                answer = OK
        except asyncio.IncompleteReadError:
            writer.transport.abort()
        await asyncio.sleep(0)  # its socket is closed in the next iteration of the loop
        self.ended.set()


async def test_requests_go_through_one_tunnel() -> None:
    proxy = Proxy(b"HTTP/1.1 200 Connection established\r\n\r\n")
    async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as server:
        address = f"http://ada:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        transport = HTTPTransport(ClusterConfig(server=SERVER, proxy_url=address))
        bodies = [(await transport.send(Request("GET", path))).body for path in ("/a", "/b")]
        await transport.close()
        await proxy.ended.wait()
    assert bodies == [b"{}", b"{}"]
    tunnel, *requests = proxy.seen
    assert tunnel == (
        "CONNECT cluster.example:80 HTTP/1.1\r\nHost: cluster.example:80\r\n"
        "Proxy-Authorization: Basic YWRhOnBAc3M=\r\n\r\n"
    )
    assert [one.splitlines()[:2] for one in requests] == [
        ["GET /a HTTP/1.1", "Host: cluster.example"],
        ["GET /b HTTP/1.1", "Host: cluster.example"],
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 407 Proxy Auth"),
        (b"\r\n\r\n", "nothing"),
    ],
)
async def test_a_refusal_of_the_proxy_is_told(answer: bytes, said: str) -> None:
    proxy = Proxy(answer)
    async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        transport = HTTPTransport(ClusterConfig(server=SERVER, proxy_url=address))
        with pytest.raises(
            Unreachable, match=rf"cluster.example:80 through the proxy 127\.0\.0\.1:\d+: it answers {said}"
        ):
            await transport.send(Request("GET", "/"))
        await transport.close()
        await proxy.ended.wait()


@pytest.mark.parametrize("proxy", ["socks5://me:secret@proxy", "http://me:secret@proxy:x", "http://"])
async def test_another_proxy_than_one_of_http_is_refused_without_its_password(proxy: str) -> None:
    with pytest.raises(ConfigurationError, match="is not supported: use one of the form http://HOST:PORT") as refused:
        HTTPTransport(ClusterConfig(server=SERVER, proxy_url=proxy))
    assert "secret" not in str(refused.value)
