# SPDX-License-Identifier: Apache-2.0
"""One watch: the frames of one stream, in order, until the server ends it.

The reflector reconnects and tracks versions. A stream that is silent for longer than the idle limit counts as dead:
HTTP/1.1 has no ping, so a half-open connection would stay silent for ever. The server sends a bookmark about once a
minute.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.client.transport import Stream
from trainwright.controller.runtime.errors import ConnectionLost, DecodeError


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
    async with aclosing(stream.chunks()) as source:
        while True:
            limit = idle()
            try:
                async with asyncio.timeout(limit):
                    chunk = await anext(source, None)
            except TimeoutError:
                raise StreamSilent(f"watch: nothing arrived for {limit} s") from None
            if chunk is None:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield [_frame(line) for line in lines if line.strip()]


def _frame(line: bytes) -> Frame:
    try:
        decoded = nesting.decode(_DECODER, line)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"watch: not a frame: {error}") from error
    return Frame(decoded.type, decoded.object)
