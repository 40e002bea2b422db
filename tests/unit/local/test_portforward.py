# SPDX-License-Identifier: Apache-2.0
"""`pods/portforward`: SPDY in a websocket, pairs of channels, and requests that are refused.

kubectl speaks to it in tests/integration/local/kubectl.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.played import PATH, Server, played_server
from trainwright.controller.local.apiserver.verbs import channels
from trainwright.controller.local.apiserver.verbs.channels import (
    DICTIONARY,
    FIN,
    FORWARD,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    SPDYTunnel,
    control_frame,
    data_frame,
)
from trainwright.controller.local.apiserver.verbs.pods import PodPortForwards
from trainwright.controller.local.podaccess import Streams

PLACE = f"{PATH.rpartition('/')[0]}/portforward"
TUNNEL, CHANNELS = FORWARD
UPGRADE = {"upgrade": "websocket", "sec-websocket-protocol": ",".join(FORWARD)}


class Socket:
    """The client's side."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes | None:
        return await self.to_server.get()

    async def send(self, message: bytes) -> None:
        await self.answers.put(message)

    async def answer(self) -> bytes:
        return await asyncio.wait_for(self.answers.get(), 10)


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod: answers in capitals once the client has said everything."""
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with a pod `p`, in which a program listens on port 80 and none on others."""
    async with played_server(tmp_path / "state") as made, await asyncio.start_server(shout, "127.0.0.1", 0) as program:
        real = program.sockets[0].getsockname()[1]

        async def connect(namespace: str, pod: str, port: int) -> Streams:
            assert (namespace, pod) == ("default", "p")
            if port != 80:
                raise ConnectionRefusedError("connection refused")
            return await asyncio.open_connection("127.0.0.1", real)

        forwards = PodPortForwards(made.api.server.store, connect, made.api.server.admission)
        made.api.server.register_handler("", "pods", "portforward", forwards.connect)
        yield made


def syn_stream(pack: Any, stream: int, **headers: str) -> bytes:
    words = [word.encode() for pair in headers.items() for word in pair]
    block = len(headers).to_bytes(4, "big") + b"".join(len(word).to_bytes(4, "big") + word for word in words)
    packed = pack.compress(block) + pack.flush(zlib.Z_SYNC_FLUSH)
    return control_frame(SYN_STREAM, stream.to_bytes(4, "big") + bytes(6) + packed)


async def test_a_connection_in_a_tunnel(server: Server) -> None:
    socket, pack = Socket(TUNNEL), zlib.compressobj(zdict=DICTIONARY)
    answer = await server.request("x=y", headers=UPGRADE, path=PLACE)
    assert answer.upgrade is not None
    serving = asyncio.ensure_future(answer.upgrade.serve(socket))
    for first, port in ((1, "80"), (5, "81")):
        for stream, kind in ((first, "error"), (first + 2, "data")):
            frame = syn_stream(pack, stream, streamtype=kind, port=port, requestid=port)
            # Frames need not begin where messages do.
            await socket.to_server.put(frame[:5])
            await socket.to_server.put(frame[5:])
            reply = await socket.answer()
            assert reply[:4] == control_frame(SYN_REPLY, b"")[:4]
            assert int.from_bytes(reply[8:12], "big") == stream
    await socket.to_server.put(data_frame(3, b"hel") + data_frame(3, b"lo", FIN) + control_frame(PING, b"1234"))
    found = [await socket.answer() for _ in range(6)]
    assert sorted(found) == sorted(
        [
            control_frame(PING, b"1234"),
            data_frame(5, b"error forwarding port 81: connection refused", FIN),
            data_frame(7, b"", FIN),
            data_frame(3, b"HELLO"),
            data_frame(1, b"", FIN),
            data_frame(3, b"", FIN),
        ]
    )
    await socket.to_server.put(None)
    await asyncio.wait_for(serving, 10)


@pytest.mark.parametrize(
    "end",
    [control_frame(RST_STREAM, (3).to_bytes(4, "big") + (5).to_bytes(4, "big")), data_frame(3, b"", FIN)],
    ids=["reset", "end"],
)
async def test_a_client_that_goes_ends_its_connection(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    """kubectl resets the stream or says that it is at its end, and waits for the end of the stream of errors."""
    monkeypatch.setattr(channels, "LINGER_SECONDS", 0.05)
    ended = asyncio.Event()

    async def drone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:  # whatever the client has said
                writer.write(b"on and on")
                await asyncio.sleep(0.01)
                await writer.drain()
        writer.close()
        ended.set()

    async with await asyncio.start_server(drone, "127.0.0.1", 0) as program:
        port = program.sockets[0].getsockname()[1]
        socket, pack = Socket(TUNNEL), zlib.compressobj(zdict=DICTIONARY)
        tunnel = SPDYTunnel(socket, partial(asyncio.open_connection, "127.0.0.1"))
        serving = asyncio.ensure_future(tunnel.run())
        for stream, kind in ((1, "error"), (3, "data")):
            await socket.to_server.put(syn_stream(pack, stream, streamtype=kind, port=str(port), requestid="0"))
            await socket.answer()
        assert b"on and on" in await socket.answer()
        assert not ended.is_set()
        await socket.to_server.put(end)
        while await socket.answer() != data_frame(1, b"", FIN):
            pass
        assert await socket.answer() == data_frame(3, b"", FIN)
        await asyncio.wait_for(ended.wait(), 10)
        await socket.to_server.put(None)
        await asyncio.wait_for(serving, 10)


async def test_a_pair_of_channels_for_each_port(server: Server) -> None:
    socket = Socket(CHANNELS)
    answer = await server.request("ports=80&ports=81", headers=UPGRADE, path=PLACE)
    assert answer.upgrade is not None
    serving = asyncio.ensure_future(answer.upgrade.serve(socket))
    found = [await socket.answer() for _ in range(5)]
    eighty, other = (80).to_bytes(2, "little"), (81).to_bytes(2, "little")
    refused = b"\x03error forwarding port 81: connection refused"
    assert sorted(found) == sorted([b"\0" + eighty, b"\1" + eighty, b"\2" + other, b"\3" + other, refused])
    await socket.to_server.put(b"\0hello")
    await socket.to_server.put(b"\2unheard")
    await socket.to_server.put(None)
    await asyncio.wait_for(serving, 10)


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        ({}, PLACE, 400),
        ({"upgrade": "SPDY/3.1"}, PLACE, 400),
        ({**UPGRADE, "sec-websocket-protocol": "v5.channel.k8s.io"}, PLACE, 400),
        (UPGRADE, PLACE.replace("/p/", "/other/"), 404),
    ],
)
async def test_refused(server: Server, headers: dict[str, str], path: str, code: int) -> None:
    assert (await server.request("ports=80", headers=headers, path=path)).status == code
