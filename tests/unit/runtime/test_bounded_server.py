# SPDX-License-Identifier: Apache-2.0
"""The server for clients that are not trusted: its limits, over a socket."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import uvloop

from trainwright.controller.runtime.servers.bounded import (
    BodyTooLarge,
    BoundedAnswer,
    BoundedCall,
    BoundedLimits,
    BoundedServer,
    _Connection,
)
from trainwright.controller.runtime.testing.waiting import equals, eventually


class Echo:
    """Answers with method, path and body."""

    def __init__(self) -> None:
        self.waits: asyncio.Event | None = None
        self.asked = 0

    async def answer(self, call: BoundedCall) -> BoundedAnswer:
        self.asked += 1
        if call.path == "/unread":
            return BoundedAnswer(403, b"unread")
        if call.path == "/broken":
            raise RuntimeError("a defect")
        if self.waits is not None:
            await self.waits.wait()
        try:
            body = await call.body()
        except BodyTooLarge:
            return BoundedAnswer(413, b"large")
        return BoundedAnswer(200, b" ".join([call.method.encode(), call.path.encode(), body]), {"X-Kind": "echo"})

    def failure(self, status: int) -> BoundedAnswer:
        return BoundedAnswer(status, b"failure")


class Serving:
    """A server that runs, and clients of it."""

    def __init__(self, server: BoundedServer, echo: Echo) -> None:
        self.server = server
        self.echo = echo

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def raw(self, request: bytes) -> bytes:
        """Send bytes and read until the server closes the connection."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            return await reader.read()


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[Serving]:
    echo = Echo()
    chosen = BoundedLimits(**{"body": 100, **limits})  # type: ignore[arg-type]  # numbers of both kinds
    server = BoundedServer("test", "127.0.0.1:0", echo, chosen, tls=None)
    task = asyncio.ensure_future(server.run())
    await server.listening.wait()
    try:
        yield Serving(server, echo)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def served() -> AsyncIterator[Serving]:
    async with serving() as found:
        yield found


def request(path: str, body: bytes = b"", *headers: str, method: str = "POST", close: bool = True) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(*chunks: bytes) -> bytes:
    head = b"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


ANSWERS: list[tuple[str, bytes, int, bytes]] = [
    ("any path", request("/a/b?c=d", b"body"), 200, b"POST /a/b body"),
    ("any method", request("/p", method="PROPFIND"), 200, b"PROPFIND /p "),
    ("an encoded path stays as it is", request("/a%2Fb"), 200, b"POST /a%2Fb "),
    ("a body of the limit", request("/p", b"x" * 100), 200, b"POST /p " + b"x" * 100),
    ("a declared body over it", request("/p", b"x" * 101), 413, b"large"),
    ("chunks", chunked(b"a", b"b") + request("/q"), 200, b"POST /p ab"),
    ("chunks over the limit", chunked(b"x" * 60, b"y" * 60), 413, b"large"),
    ("a broken chunk", b"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, b"failure"),
    ("no HTTP", b"\x16\x03\x01\r\n\r\n", 400, b"failure"),
    ("a header without a colon", b"POST /p HTTP/1.1\r\nnonsense\r\n\r\n", 400, b"failure"),
    ("a header over 8 KiB", request("/p", b"", "X: " + "y" * 9000), 400, b"failure"),
    ("two lengths", b"POST /p HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, b"failure"),
    ("a handler that fails", request("/broken"), 500, b"failure"),
    ("a body that is not read", request("/unread", b"x" * 50), 403, b"unread"),
]


@pytest.mark.parametrize(("what", "sent", "status", "body"), ANSWERS, ids=[row[0] for row in ANSWERS])
async def test_an_answer(served: Serving, what: str, sent: bytes, status: int, body: bytes) -> None:
    answer = await served.raw(sent)
    assert answer.split()[1] == str(status).encode(), answer
    assert answer.partition(b"\r\n\r\n")[2].startswith(body), answer


async def test_a_connection_is_kept(served: Serving) -> None:
    async with served.connection() as (reader, writer):
        for number in range(3):
            writer.write(request(f"/{number}", b"b", close=False))
            answer = await reader.readuntil(f"POST /{number} b".encode())
            assert b"X-Kind: echo" in answer


async def test_a_client_that_waits_for_permission_to_send_its_body_gets_it(served: Serving) -> None:
    async with served.connection() as (reader, writer):
        head, body = request("/p", b"late", "Expect: 100-continue").split(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.read()).endswith(b"POST /p late")


SLOW: list[tuple[str, bytes, Callable[[bytes], bool]]] = [
    ("no byte", b"", lambda answer: answer == b""),
    ("half a header", b"POST /p HTTP/1.1\r\nHo", lambda answer: answer == b""),
    ("half a second header", request("/1", close=False) + b"POST", lambda answer: answer.endswith(b"POST /1 ")),
    ("half a body", request("/p", b"1234")[:-2], lambda answer: b" 400 " in answer and answer.endswith(b"failure")),
]


@pytest.mark.parametrize(("what", "sent", "expected"), SLOW, ids=[row[0] for row in SLOW])
async def test_a_slow_client_is_cut_off(what: str, sent: bytes, expected: Callable[[bytes], bool]) -> None:
    # Enough for what is sent to come, and to be answered.
    async with serving(read_seconds=0.5, idle_seconds=0.6) as served:
        assert expected(await served.raw(sent)), what


async def test_chunks_without_end_are_refused_and_cut_off(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright.controller.runtime.servers.bounded.LINGER_SECONDS", 0.2)
    async with served.connection() as (reader, writer):
        writer.write(b"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = asyncio.ensure_future(reader.read())

        async def send_more() -> bool:
            if not answer.done():
                writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            return answer.done()

        await eventually(send_more, what="the connection is closed")
        with suppress(ConnectionError):  # a reset, if a chunk came after the end
            assert b" 413 " in await answer


async def test_a_trickle_does_not_keep_a_connection_open() -> None:
    async with serving(read_seconds=0.2) as served, served.connection() as (reader, writer):
        closed = asyncio.ensure_future(reader.read())
        writer.write(b"POST /")

        async def trickle() -> bool:
            if not closed.done():
                writer.write(b"x")
            return closed.done()

        await eventually(trickle, what="the connection is closed")
        with suppress(ConnectionError):  # a reset, if a byte came after the end
            assert await closed == b""


async def test_clients_that_send_a_byte_now_and_then_hold_up_nobody(served: Serving) -> None:
    async with AsyncExitStack() as stack:
        slow = [(await stack.enter_async_context(served.connection()))[1] for _ in range(100)]
        sent = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"
        for number, byte in enumerate(sent):
            for writer in slow:
                writer.write(bytes([byte]))
            assert b" 200 " in await served.raw(request(f"/{number}", b"quick"))
        await eventually(lambda: served.echo.asked, equals(len(sent) + len(slow)))


async def test_an_answer_that_takes_too_long_fails() -> None:
    async with serving(answer_seconds=0.1) as served:
        served.echo.waits = asyncio.Event()
        assert b" 500 " in await served.raw(request("/p"))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_over_the_limit_are_closed_and_others_go_on(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_over_the_limit())
        runner.run(_half_a_header())


async def _half_a_header() -> None:
    async with serving(read_seconds=0.2) as served:
        assert await served.raw(b"POST /p HTTP/1.1\r\nHo") == b""


async def _over_the_limit() -> None:
    async with serving(connections=2) as served:
        async with served.connection() as first, served.connection() as second:
            for reader, writer in (first, second):
                writer.write(request("/p", close=False))
                await reader.readuntil(b"POST /p ")
            async with served.connection() as (reader, _):
                assert await reader.read() == b""
            assert served.server.refused == 1
            first[1].write(request("/again"))
            assert (await first[0].read()).endswith(b"POST /again ")
        await eventually(
            lambda: served.raw(request("/p")), lambda answer: b" 200 " in answer, ignore=(ConnectionError,)
        )


async def test_open_requests_are_answered_when_the_server_stops() -> None:
    async with serving() as served:
        served.echo.waits = asyncio.Event()
        answer = asyncio.ensure_future(served.raw(request("/p")))
        await eventually(lambda: served.echo.asked)
        asyncio.get_running_loop().call_later(0.05, served.echo.waits.set)
    assert (await answer).endswith(b"POST /p ")


async def test_a_server_that_drains_answers_and_sends_its_clients_elsewhere(served: Serving) -> None:
    async with served.connection() as (reader, writer):
        writer.write(request("/1", close=False))
        assert b"close" not in await reader.readuntil(b"POST /1 ")
        served.server.begin_drain()
        writer.write(request("/2", close=False))
        answer = await reader.read()
        assert b"Connection: close" in answer
        assert answer.endswith(b"POST /2 ")
    assert (await served.raw(request("/3"))).endswith(b"POST /3 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(request("/p", b"body"), id="an answer"),
        pytest.param(request("/unread", b"body"), id="a body that is not read"),
        pytest.param(request("/p", b"", "Authorization: Bearer \0"), id="a malformed header"),
        pytest.param(b"what\r\n\r\n", id="a malformed request"),
        pytest.param(request("/p", b"x" * 101), id="a body that is too large"),
        pytest.param(chunked(b"x" * 60, b"x" * 60), id="one whose length is not declared"),
        pytest.param(b"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", id="a malformed body"),
    ],
)
async def test_a_connection_leaves_nothing_to_the_collector(served: Serving, sent: bytes) -> None:
    """The collector runs rarely in a manager, so cycles of each connection would fill the memory."""

    def connections() -> int:
        return sum(isinstance(one, _Connection) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            await served.raw(sent)
        await eventually(connections, lambda count: count <= 2)
    finally:
        gc.enable()
