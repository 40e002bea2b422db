# SPDX-License-Identifier: Apache-2.0
"""Exec: the messages of the websocket, and each way in which a command can fail."""

import asyncio
import base64
import hashlib
from typing import Any

import msgspec
import pytest

from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport
from trainwright.controller.runtime.client.exec import LIMIT, CommandTimeout, ExecResult
from trainwright.controller.runtime.client.limit import LimitedTransport
from trainwright.controller.runtime.client.transport import permission
from trainwright.controller.runtime.errors import (
    BadRequest,
    ConnectionLost,
    DecodeError,
    Forbidden,
    Invalid,
    KubernetesError,
    NotFound,
    NotLeading,
    OutputTooLarge,
    RequestTimeout,
    ServerError,
    Unreachable,
)
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import LiveStream, ScriptedTransport, status_body

SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def exit_status(code: str) -> bytes:
    causes = {"causes": [{"reason": "ExitCode", "message": code}]}
    return b"\x03" + msgspec.json.encode({"status": "Failure", "reason": "NonZeroExitCode", "details": causes})


def script(*messages: bytes, end: bool = False) -> tuple[Client, ScriptedTransport, LiveStream]:
    transport = ScriptedTransport()
    live = transport.stream(lambda _: True, *messages, end=end)
    return Client(transport, user_agent="test"), transport, live


@jumping
async def test_a_command_that_succeeds() -> None:
    client, transport, live = script(b"\x01", b"\x01one ", b"\x02bad", b"\x01two", SUCCESS)
    found = await client.exec("p", "default", ["tail", "-c", "10", "a b"], container="node")
    assert found == ExecResult(b"one two", b"bad", 0)
    (request,) = transport.requests
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/default/pods/p/exec")
    assert request.query == {
        "command": ("tail", "-c", "10", "a b"),
        "container": "node",
        "stdout": "true",
        "stderr": "true",
    }
    assert "test" in request.headers["User-Agent"]
    assert live.closed.is_set()
    assert live.sent == []


@jumping
async def test_an_exit_code() -> None:
    client, _, _ = script(b"\x01", exit_status("126"))
    assert await client.exec("p", "default", ["x"]) == ExecResult(b"", b"", 126)


@jumping
async def test_the_connection_may_break_after_the_status() -> None:
    client, _, live = script(b"\x01done", SUCCESS)
    live.cut()
    assert (await client.exec("p", "default", ["x"])).stdout == b"done"


NO_PROGRAM = b'\x03{"metadata":{},"status":"Failure","message":"no such program","reason":"InternalError","code":500}'
"""As nodes write it, without a kind."""
BROKEN: list[tuple[str, list[bytes], bool, type[KubernetesError], str]] = [
    ("closed early", [b"\x01half"], True, ConnectionLost, "closed the connection before the end"),
    (
        "an error of the node",
        [b"\x03" + msgspec.json.encode(status_body(500, "InternalError", "no such program"))],
        False,
        ServerError,
        "no such program",
    ),
    ("a Status of no use", [b"\x03{}"], False, ServerError, "HTTP 500"),
    ("no JSON", [b"\x03oh"], False, DecodeError, "unreadable"),
    ("no exit code", [exit_status("many")], False, DecodeError, "unreadable"),
    ("no cause", [b'\x03{"status":"Failure","reason":"NonZeroExitCode"}'], False, DecodeError, "unreadable"),
    ("another channel", [b"\x07what"], False, DecodeError, "channel 7"),
    ("too much", [b"\x01" + bytes(LIMIT // 2)] * 3, False, OutputTooLarge, "more than 1048576 bytes"),
]


@pytest.mark.parametrize(
    ("messages", "end", "kind", "message"), [case[1:] for case in BROKEN], ids=[c[0] for c in BROKEN]
)
def test_an_end_that_is_an_error(messages: list[bytes], end: bool, kind: type[KubernetesError], message: str) -> None:
    @jumping
    async def run() -> None:
        client, _, live = script(*messages, end=end)
        with pytest.raises(kind, match=message):
            await client.exec("p", "default", ["x"])
        assert live.closed.is_set()

    run()


@jumping
async def test_the_limit_counts_output_and_not_messages() -> None:
    client, _, _ = script(b"\x01abc", b"\x02de", SUCCESS)
    assert (await client.exec("p", "default", ["x"], limit=5)).stderr == b"de"
    client, _, _ = script(b"\x01abc", b"\x02de", SUCCESS)
    with pytest.raises(OutputTooLarge):
        await client.exec("p", "default", ["x"], limit=4)


REFUSALS: list[tuple[int, str, type[KubernetesError]]] = [
    (404, "NotFound", NotFound),
    (400, "BadRequest", BadRequest),
    (403, "Forbidden", Forbidden),
    (422, "Invalid", Invalid),
    (500, "InternalError", ServerError),
]


@pytest.mark.parametrize(("status", "reason", "kind"), REFUSALS)
def test_a_refusal_is_not_retried(status: int, reason: str, kind: type[KubernetesError]) -> None:
    @jumping
    async def run() -> None:
        transport = ScriptedTransport()
        body = status_body(status, reason, "because", retryAfterSeconds=1)
        transport.answer(lambda _: True, body, status=status, headers={"retry-after": "1"})
        with pytest.raises(kind, match="because"):
            await Client(transport).exec("p", "default", ["x"])
        assert len(transport.requests) == 1

    run()


@jumping
async def test_ten_seconds_for_everything() -> None:
    client, _, live = script(b"\x01slow")
    with pytest.raises(CommandTimeout, match="did not end within 10 s"):
        await client.exec("p", "default", ["x"])
    assert asyncio.get_running_loop().time() == 10
    assert live.closed.is_set()
    transport = ScriptedTransport()
    transport.answer(lambda _: True, status=500, delay=60)
    with pytest.raises(RequestTimeout, match="did not start within 3 s") as raised:
        await Client(transport).exec("p", "default", ["x"], seconds=3)
    assert not isinstance(raised.value, CommandTimeout)
    assert asyncio.get_running_loop().time() == 13


@jumping
async def test_nothing_is_sent_that_cannot_work() -> None:
    client, transport, _ = script()
    with pytest.raises(BadRequest, match="needs a command"):
        await client.exec("p", "default", [])
    with pytest.raises(BadRequest, match="not a valid name"):
        await client.exec("p/x", "default", ["x"])
    assert transport.requests == []


@jumping
async def test_no_connection() -> None:
    transport = ScriptedTransport()
    transport.fail(lambda _: True, Unreachable("refused"))
    with pytest.raises(Unreachable):
        await Client(transport).exec("p", "default", ["x"])


ANSWERS: list[tuple[str, bytes, type[KubernetesError], str]] = [
    ("closes at once", b"", ConnectionLost, "pods/p/exec: "),
    ("refuses", b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n%s", ServerError, "node away"),
    (
        "breaks off",
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
        ConnectionLost,
        "closing frame",
    ),
]


@pytest.mark.parametrize(("answer", "kind", "message"), [case[1:] for case in ANSWERS], ids=[c[0] for c in ANSWERS])
async def test_a_websocket_that_fails_is_asked_for_once(
    answer: bytes, kind: type[KubernetesError], message: str
) -> None:
    """A command may have begun to run."""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer.endswith(b"%s"):
            body = msgspec.json.encode(status_body(500, "InternalError", "node away"))
            writer.write(answer % (len(body), body))
        elif answer:
            key = next(line for line in asked[-1].split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
            digest = hashlib.sha1(key.partition(b": ")[2] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            writer.write(answer + b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = Client(HTTPTransport(ClusterConfig(server=f"http://127.0.0.1:{port}")))
        with pytest.raises(kind, match=message):
            await client.exec("p", "default", ["x"])
        await client.close()
    assert len(asked) == 1


@jumping
async def test_a_replica_that_does_not_lead_runs_nothing() -> None:
    class Lost:
        def check(self) -> None:
            raise NotLeading("lost")

        def remaining(self) -> float:
            return 0.0

    client, transport, _ = script()
    token = permission.set(Lost())
    try:
        with pytest.raises(NotLeading):
            await client.exec("p", "default", ["x"])
    finally:
        permission.reset(token)
    assert transport.requests == []


@jumping
async def test_attempts_are_counted_and_the_limit_on_requests_does_not_apply() -> None:
    attempts: list[Any] = []

    class Observer:
        def attempt(self, request: object, status: int | None) -> None:
            attempts.append((str(request), status))

    transport = ScriptedTransport()
    for _ in range(3):
        transport.stream(lambda _: True, SUCCESS)
    client = Client(LimitedTransport(transport, rate=0.001, burst=1), requests=Observer())
    for _ in range(3):
        await client.exec("p", "default", ["x"])
    assert attempts == [("GET /api/v1/namespaces/default/pods/p/exec", 101)] * 3
    assert asyncio.get_running_loop().time() == 0
