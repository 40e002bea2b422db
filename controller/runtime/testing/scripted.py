# SPDX-License-Identifier: Apache-2.0
"""A transport that answers from a script: status, body, stream, websocket, delay. It does not emulate an API server.

Rules are tried in the order in which they were added. Each answers a limited number of requests. A request without a
matching rule fails the test. All requests are kept in `requests`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConnectionLost, TransportError

When: TypeAlias = Callable[[Request], bool]
Body: TypeAlias = bytes | Mapping[str, Any]


def is_list(request: Request) -> bool:
    return request.method == "GET" and "watch" not in request.query


def is_watch(request: Request) -> bool:
    """A watch without initial events."""
    return "watch" in request.query and "sendInitialEvents" not in request.query


def is_streaming_list(request: Request) -> bool:
    """A watch that starts with the existing objects."""
    return "sendInitialEvents" in request.query


def is_write(request: Request) -> bool:
    """Anything but a read."""
    return request.method != "GET"


def status_body(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """A Status as the API server encodes it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
        "details": details,
    }


def frame(kind: str, obj: Mapping[str, Any]) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: str, *, end_of_list: bool = False) -> bytes:
    """A bookmark, plain or as the end of the initial events."""
    metadata: dict[str, Any] = {"resourceVersion": version}
    if end_of_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return frame("BOOKMARK", {"metadata": metadata})


def listing(version: str, *items: Mapping[str, Any], continue_token: str = "") -> dict[str, Any]:
    """The body of a list."""
    return {"metadata": {"resourceVersion": version, "continue": continue_token}, "items": list(items)}


@dataclass(eq=False)
class LiveStream:
    """A stream whose chunks the test sends, or a websocket whose messages it sends."""

    request: Request | None = None
    """The request that opened the stream."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed the stream."""
    sent: list[bytes] = field(default_factory=list)
    """The messages that the client has sent over a websocket."""
    _chunks: "asyncio.Queue[bytes | TransportError | None]" = field(default_factory=asyncio.Queue)

    def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self._chunks.put_nowait(chunk)

    def end(self) -> None:
        """The server ends the stream."""
        self._chunks.put_nowait(None)

    def cut(self) -> None:
        """The connection breaks."""
        self._chunks.put_nowait(ConnectionLost("cut by the script"))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while (chunk := await self.next()) is not None:
            yield chunk

    async def next(self) -> bytes | None:
        """The next chunk for the client; None at the end."""
        chunk = await self._chunks.get()
        if isinstance(chunk, TransportError):
            raise chunk
        return chunk


@dataclass(eq=False)
class _Rule:
    when: When
    times: float
    status: int
    headers: dict[str, str]
    body: bytes
    delay: float
    error: TransportError | None
    stream: LiveStream | None


class _Socket:
    """The client's side of a websocket."""

    def __init__(self, rule: _Rule, protocol: str) -> None:
        self.refusal = None if rule.stream is not None else Response(rule.status, rule.headers, rule.body)
        self.protocol = protocol
        self._live = rule.stream

    async def receive(self) -> bytes | None:
        assert self._live is not None
        return await self._live.next()

    async def send(self, message: bytes) -> None:
        assert self._live is not None
        self._live.sent.append(message)


class _Answer:
    def __init__(self, rule: _Rule) -> None:
        self.status, self.headers = rule.status, rule.headers
        self._rule = rule

    async def read(self) -> bytes:
        return self._rule.body

    def chunks(self) -> AsyncGenerator[bytes, None]:
        assert self._rule.stream is not None
        return self._rule.stream.chunks()


class ScriptedTransport:
    """Answers from a script; see the module."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.times: list[float] = []
        """Time of each request, by the clock of the loop."""
        self._rules: list[_Rule] = []

    def answer(
        self,
        when: When,
        body: Body = b"",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        delay: float = 0.0,
        times: float = 1,
    ) -> None:
        """Answer `times` requests (float("inf"): all) after `delay` seconds."""
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self._rules.append(_Rule(when, times, status, dict(headers or {}), encoded, delay, None, None))

    def fail(self, when: When, error: TransportError, *, delay: float = 0.0, times: float = 1) -> None:
        """Let `times` requests fail without an answer."""
        self._rules.append(_Rule(when, times, 0, {}, b"", delay, error, None))

    def stream(self, when: When, *chunks: bytes, end: bool = False, status: int = 200) -> LiveStream:
        """Answer one request with a stream that starts with `chunks`; with `end` it ends after them."""
        live = LiveStream()
        live.send(*chunks)
        if end:
            live.end()
        self._rules.append(_Rule(when, 1, status, {}, b"", 0.0, None, live))
        return live

    async def send(self, request: Request) -> Response:
        rule = await self._take(request)
        warning = rule.headers.get("warning")
        return Response(rule.status, rule.headers, rule.body, (warning,) if warning else ())

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[_Answer]:
        async with self._live(request) as rule:
            yield _Answer(rule)

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator[_Socket]:  # noqa: ARG002 - the script knows how much it sends
        """See Transport. A rule with a stream opens the websocket, with the first protocol; another one refuses it."""
        async with self._live(request) as rule:
            yield _Socket(rule, protocols[0] if protocols else "")

    @asynccontextmanager
    async def _live(self, request: Request) -> AsyncIterator[_Rule]:
        rule = await self._take(request)
        if rule.stream is not None:
            rule.stream.request = request
            rule.stream.opened.set()
        try:
            yield rule
        finally:
            if rule.stream is not None:
                rule.stream.closed.set()

    async def close(self) -> None:
        """Do nothing."""

    async def _take(self, request: Request) -> _Rule:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        rule = next((rule for rule in self._rules if rule.times > 0 and rule.when(request)), None)
        if rule is None:
            left = sum(rule.times > 0 for rule in self._rules)
            raise AssertionError(f"no rule matches {request} {request.query}; {left} rules are unused")
        rule.times -= 1
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.error is not None:
            raise rule.error
        return rule
