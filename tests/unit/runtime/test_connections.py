# SPDX-License-Identifier: Apache-2.0
"""Direct connections: what answers may look like, when a connection is used again, and how requests fail."""

import asyncio
import gzip
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime.client import connections
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.client.watch import StreamSilent
from trainwright.controller.runtime.errors import (
    BadRequest,
    ConnectionLost,
    RequestTimeout,
    TransportError,
    Unreachable,
)
from trainwright.controller.runtime.testing.waiting import equals, eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = b""
"""Instead of an answer: the server closes the connection."""


class Server:
    """Gives the answers in order, the last one again and again; notes the requests of each connection."""

    def __init__(self, *answers: bytes) -> None:
        self.seen: list[list[bytes]] = []
        self.open = self.most = 0
        self.go_on = asyncio.Event()
        """Whether to answer."""
        self.go_on.set()
        self.config = ClusterConfig(server="")
        self._answers = list(answers)
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self, *, connections: int = 64) -> AsyncIterator[HTTPTransport]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.config = ClusterConfig(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix", token="t")
        async with server:
            transport = HTTPTransport(self.config, connections=connections)
            try:
                yield transport
            finally:
                await transport.close()
                self.go_on.set()
                await asyncio.gather(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.append(task)
        self.open += 1
        self.most = max(self.most, self.open)
        requests: list[bytes] = []
        self.seen.append(requests)
        try:
            while data := await reader.read(2**16):
                requests.append(data)
                await self.go_on.wait()
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if answer == CLOSE:
                    break
                writer.write(answer)
                if b"ength" not in answer and b"hunked" not in answer:
                    break
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


def get() -> Request:
    return Request("GET", "/x")


async def test_request_as_it_is_sent() -> None:
    server = Server(OK)
    request = Request("PATCH", "/a%2Fb", {"q": "a b&c", "n": ("1", "2")}, {"Accept": "x"}, b"{}")
    async with server.running() as transport:
        assert (await transport.send(request)).body == b"{}"
        port = server.config.server.partition("127.0.0.1:")[2].partition("/")[0]
    assert server.seen == [
        [
            b"PATCH /prefix/a%2Fb?q=a%20b%26c&n=1&n=2 HTTP/1.1\r\n"
            b"Host: 127.0.0.1:" + port.encode() + b"\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer t\r\n"
            b"Accept: x\r\nContent-Length: 2\r\n\r\n{}"
        ]
    ]


PACKED = gzip.compress(b'{"kind":"List"}')


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED,
            b'{"kind":"List"}',
        ),
    ],
    ids=["chunked", "empty", "until the connection ends", "after an interim answer", "gzip"],
)
async def test_bodies(answer: bytes, body: bytes) -> None:
    async with Server(answer).running() as transport:
        assert (await transport.send(get())).body == body
        async with transport.open(Request("GET", "/x", timeout=None)) as stream:
            assert await stream.read() == body


async def test_headers_and_warnings() -> None:
    head = (
        b'HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nWarning: 299 - "a"\r\nwarning: 299 - "\xc3\xbc, \xff"\r\n'
        b"Content-Length: 0\r\n\r\n"
    )
    async with Server(head).running() as transport:
        answer = await transport.send(get())
    assert (answer.status, answer.headers["retry-after"], answer.warnings) == (429, "3", ("a", "ü, \ufffd"))


async def test_connection_is_used_again_after_a_whole_answer_alone() -> None:
    server = Server(OK, OK, OK.replace(b"Content", b"Connection: close\r\nContent"), CHUNKED + b"1\r\na\r\n", OK)
    async with server.running() as transport:
        for _ in range(3):
            await transport.send(get())
        async with transport.open(get()) as stream:
            assert stream.status == 200  # and the rest does not come
        async with transport.open(get()) as stream:
            assert await stream.read() == b"{}"
        async with transport.open(get()) as stream:
            assert await stream.read() == b"{}"
    assert [len(requests) for requests in server.seen] == [3, 1, 2]


@pytest.mark.parametrize(("method", "error"), [("GET", None), ("PATCH", ConnectionLost)])
async def test_idle_connection_that_the_server_closes_meanwhile(method: str, error: type[Exception] | None) -> None:
    """A read is sent again at once; the outcome of a write is unknown."""
    server = Server(OK, CLOSE, OK)
    async with server.running() as transport:
        await transport.send(get())
        request = Request(method, "/x", body=None if method == "GET" else b"{}")
        if error is None:
            assert (await transport.send(request)).status == 200
        else:
            with pytest.raises(error):
                await transport.send(request)
    assert [len(requests) for requests in server.seen] == ([2, 1] if error is None else [2])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (CLOSE, "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nhalf", "no answer within 0.2 s"),
        (b"SSH-2.0-OpenSSH\r\n", "not an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd", "incorrect header"),
    ],
    ids=["none", "half", "of another protocol", "not gzip"],
)
async def test_broken_answers(answer: bytes, message: str) -> None:
    # Where the time is not what ends it, there is enough, also on a machine that stalls for a moment.
    timeout = 0.2 if "0.2 s" in message else 30
    async with Server(answer).running() as transport:
        with pytest.raises(TransportError, match=message):
            await transport.send(Request("PATCH", "/x", body=b"{}", timeout=timeout))


async def test_time_limit_covers_the_wait_for_a_connection() -> None:
    server = Server(OK)
    server.go_on.clear()
    async with server.running(connections=1) as transport:
        first = asyncio.ensure_future(transport.send(get()))
        with pytest.raises(RequestTimeout, match=r"GET /x: no answer within 0\.05 s"):
            await transport.send(Request("GET", "/x", timeout=0.05))
        server.go_on.set()
        assert (await first).status == 200
        assert (await transport.send(get())).status == 200
    assert server.most == 1


async def test_more_requests_than_connections_wait_in_order() -> None:
    server = Server(OK)
    server.go_on.clear()
    async with server.running(connections=2) as transport:
        order: list[int] = []

        async def ask(n: int) -> None:
            await transport.send(get())
            order.append(n)

        asked = [asyncio.ensure_future(ask(n)) for n in range(8)]
        await asyncio.sleep(0)
        asked[3].cancel()  # waits for a connection
        await eventually(lambda: sum(map(len, server.seen)), equals(2))
        asked[0].cancel()  # waits for its answer
        server.go_on.set()
        await asyncio.gather(*asked, return_exceptions=True)
    assert sorted(order) == [1, 2, 4, 5, 6, 7]
    assert server.most <= 3  # one is opened for the one that was cancelled
    assert [n for n in order if n > 3] == [4, 5, 6, 7]


async def test_place_of_a_connection_that_failed_is_given_on() -> None:
    server = Server(CLOSE, CLOSE, OK)
    async with server.running(connections=1) as transport:
        writes = [transport.send(Request("POST", "/x", body=b"{}")) for _ in range(3)]
        results = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(result, ConnectionLost) for result in results] == [True, True, False]


async def test_read_that_waited_is_sent_again_if_the_server_closes_the_connection_it_was_given() -> None:
    server = Server(OK, CLOSE, OK)
    async with server.running(connections=1) as transport:
        answers = await asyncio.gather(transport.send(get()), transport.send(get()))
    assert [answer.status for answer in answers] == [200, 200]
    assert [len(requests) for requests in server.seen] == [2, 1]


async def test_connection_that_was_closed_meanwhile_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would answer on it, and the outcome of a write would be unknown."""
    release = connections.Connections.release
    released = 0

    def release_and_lose(pool: connections.Connections, connection: Any) -> None:
        nonlocal released
        release(pool, connection)
        released += 1
        if released == 1:
            connection.abort()  # before the request that it was given to goes on

    monkeypatch.setattr(connections.Connections, "release", release_and_lose)
    server = Server(OK)
    async with server.running(connections=1) as transport:
        writes = [transport.send(Request("PATCH", "/x", body=b"{}", timeout=5)) for _ in range(3)]
        assert [answer.status for answer in await asyncio.gather(*writes)] == [200, 200, 200]
    assert [len(requests) for requests in server.seen] == [1, 2]


def test_pools_of_two_threads_keep_their_answers_apart() -> None:
    """As those of leader election, which has a loop and a thread of its own."""
    port: Future[int] = Future()
    done = threading.Event()

    async def serve() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.read(2**16):
                body = head.split()[1][-1:] * 20_000  # the last letter of the path
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            port.set_result(server.sockets[0].getsockname()[1])
            await asyncio.to_thread(done.wait)

    async def ask(letter: str) -> list[bytes]:
        transport = HTTPTransport(ClusterConfig(server=f"http://127.0.0.1:{port.result()}"))
        request = Request("GET", f"/{letter}")
        bodies = [(await transport.send(request)).body for _ in range(1000)]
        await transport.close()
        return [body for body in bodies if body != letter.encode() * 20_000]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns in the middle of a read
    try:
        with ThreadPoolExecutor(4) as threads:
            served = threads.submit(asyncio.run, serve())
            try:
                asked = [threads.submit(asyncio.run, ask(letter)) for letter in "abc"]
                assert [one.result() for one in asked] == [[], [], []]
            finally:
                done.set()
            served.result()
    finally:
        sys.setswitchinterval(before)


async def test_requests_that_wait_finish_when_the_pool_is_retired() -> None:
    """As after a change of the client certificate: they were not sent yet, and no write has an outcome yet."""
    server = Server(OK)
    server.go_on.clear()
    async with server.running(connections=1) as transport:
        writes = [asyncio.ensure_future(transport.send(Request("PATCH", "/x", body=b"{}"))) for _ in range(3)]
        await asyncio.sleep(0)  # the first one opens its connection, the others wait for it
        transport._pools.retire()
        server.go_on.set()
        assert [answer.status for answer in await asyncio.gather(*writes)] == [200, 200, 200]
        await eventually(lambda: server.open, equals(0))
    assert server.most == 1


@pytest.mark.parametrize(
    "more", [b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 6\r\n\r\nsecond", b"garbage\r\n"], ids=["408", "garbage"]
)
async def test_what_follows_an_answer_belongs_to_none(more: bytes) -> None:
    server = Server(OK + more, OK)
    async with server.running() as transport:
        for method in ("GET", "PATCH"):
            answer = await transport.send(Request(method, "/x", body=None if method == "GET" else b"{}"))
            assert (answer.status, answer.body) == (200, b"{}")
    assert [len(requests) for requests in server.seen] == [1, 1]


async def test_watch_whose_server_does_not_answer_is_silent() -> None:
    server = Server(OK)
    server.go_on.clear()
    async with server.running() as transport:
        with pytest.raises(StreamSilent, match=r"GET /api/v1/configmaps: no answer within 0\.05 s"):
            async with Client(transport).watch(ConfigMap, idle=0.05):
                pass


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.02)
    server = Server(OK)
    async with server.running() as transport:
        await asyncio.gather(*(transport.send(get()) for _ in range(3)))
        await eventually(lambda: server.open, equals(0))


async def test_slow_consumer_holds_up_the_server() -> None:
    chunk = b"10000\r\n" + 2**16 * b"x" + b"\r\n"
    server = Server(CHUNKED + 200 * chunk + b"0\r\n\r\n")
    async with server.running() as transport, transport.open(get()) as stream:
        chunks = stream.chunks()
        largest, total = 0, 0
        async for each in chunks:
            await asyncio.sleep(0.001)
            largest, total = max(largest, len(each)), total + len(each)
        assert total == 200 * 2**16
        assert largest < 2**20


async def test_unreachable_servers_are_named() -> None:
    transport = HTTPTransport(ClusterConfig(server="https://127.0.0.1:1"))
    with pytest.raises(Unreachable, match=r"GET /x: cannot connect to 127\.0\.0\.1:1: Connection refused$"):
        await transport.send(get())
    await transport.close()


@pytest.mark.parametrize(
    "request_", [Request("GET", "/x\r\nA: b"), Request("GET", "/x", headers={"A": "b\r\nC: d"})], ids=["path", "header"]
)
async def test_line_breaks_are_not_sent(request_: Request) -> None:
    server = Server(OK)
    async with server.running() as transport:
        with pytest.raises(BadRequest, match="line break"):
            await transport.send(request_)
    assert server.seen == []


async def test_closed_transport_answers_no_more() -> None:
    server = Server(OK)
    server.go_on.clear()
    async with server.running() as transport:
        asked = asyncio.ensure_future(transport.send(Request("PATCH", "/x", body=b"{}")))
        await eventually(lambda: server.seen)
        await transport.close()
        with pytest.raises(ConnectionLost):
            await asked
        with pytest.raises(ConnectionLost, match="closed"):
            await transport.send(get())
