# SPDX-License-Identifier: Apache-2.0
"""One watch: the frames of one stream, in order, until the server ends it.

The reflector reconnects and tracks versions. A stream that is silent for longer than the idle limit counts as dead:
HTTP/1.1 has no ping, so a half-open connection would stay silent for ever. The server sends a bookmark about once a
minute.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

import msgspec

from trainwright.controller.runtime.client.transport import Stream
from trainwright.controller.runtime.errors import ConnectionLost
from trainwright.controller.runtime.kinds import decoded

T = TypeVar("T")


class Frame(NamedTuple):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, with the object still encoded."""

    type: str
    object: msgspec.Raw


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(_Line)


class StreamSilent(ConnectionLost):
    """Nothing arrived within the idle limit, and the client closed the stream."""


Batch = list[Frame]
"""Frames that arrived in one chunk."""


async def frames(stream: Stream, *, idle: Callable[[], float | None]) -> AsyncGenerator[Batch, None]:
    """Frames as they arrive, one batch per chunk.

    `idle` returns the idle limit in seconds; it is called before each wait. Raises StreamSilent, TransportError, or
    DecodeError for a line that is not a frame. An unfinished last line is dropped: the stream was cut inside it.
    """
    rest = b""
    silence = _Silence(idle)
    try:
        async with aclosing(stream.chunks()) as source:
            while True:
                chunk = await silence.limit(anext(source, None))
                if chunk is None:
                    return
                lines, rest = _lines(rest + chunk)
                if lines:
                    yield [_frame(line) for line in lines if line.strip()]
    finally:
        silence.close()


def _lines(text: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines, and the rest. Nearly always it is one long line: `split` would look at each byte of it."""
    lines, begin = [], 0
    while (end := text.find(b"\n", begin)) >= 0:
        lines.append(text[begin:end])
        begin = end + 1
    return lines, text[begin:]


class _Silence:
    """A limit on each wait for the same stream. One timer serves many waits, since nearly none of them is silent."""

    def __init__(self, idle: Callable[[], float | None]) -> None:
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._since = 0.0
        self._waiting: asyncio.Task[Any] | None = None
        self._expired: float | None = None

    async def limit(self, awaitable: Awaitable[T]) -> T:
        """Wait. Raises StreamSilent after the limit."""
        task = asyncio.current_task()
        assert task is not None
        limit = self._idle()
        self._since = self._loop.time()
        if limit is not None and (self._timer is None or self._due > self._since + limit):
            self._arm(self._since + limit)
        self._waiting, asked = task, task.cancelling()
        try:
            return await awaitable
        except asyncio.CancelledError:
            # As in asyncio.timeout: another cancellation at the same time takes precedence.
            if self._expired is not None and task.uncancel() <= asked:
                raise StreamSilent(f"watch: nothing arrived for {self._expired} s") from None
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        limit = self._idle()
        if self._waiting is None or limit is None:
            return  # the next wait sets the timer
        if self._loop.time() < self._since + limit:
            self._arm(self._since + limit)
        else:
            self._expired = limit
            self._waiting.cancel()


_BEGIN, _MIDDLE = b'{"type":"', b'","object":'


def _frame(line: bytes) -> Frame:
    # As kube-apiserver writes every line; the object is decoded later, so it need not be read through here.
    if line.startswith(_BEGIN) and line.endswith(b"}}"):
        kind, middle, rest = line[len(_BEGIN) :].partition(_MIDDLE)
        if middle and kind.isalpha():
            return Frame(kind.decode(), msgspec.Raw(rest[:-1]))
    whole = decoded(_DECODER, line, "watch: not a frame")
    return Frame(whole.type, whole.object)
