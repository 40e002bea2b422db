# SPDX-License-Identifier: Apache-2.0
"""One exchange over HTTP/1.1: the bytes of a request, and the answer as it arrives."""

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Protocol
from urllib.parse import quote

from trainwright.controller.runtime.client.transport import READS, Request
from trainwright.controller.runtime.errors import BadRequest, ConnectionLost, RequestTimeout, TransportError

UNREAD_BYTES = 2**18
"""A stream that holds more than this is not read further until its consumer has caught up."""
_WARNING = re.compile(r'299 \S+ "((?:\\.|[^"\\])*)"')
"""A warning as Kubernetes writes it: code, agent and a quoted text."""
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_GZIP = 31
"""zlib's number for gzip with a header."""


class Carrier(Protocol):
    """The connection of an exchange."""

    transport: asyncio.Transport
    answer: "RawAnswer | None"

    def release(self) -> None:
        """The exchange is over, and another one can follow."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Headers(Mapping[str, str]):
    """Headers by lower-case name, decoded when they are asked for: few callers look at any."""

    __slots__ = ("_fields",)

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        """The last header of that name."""
        wanted = name.encode("latin-1")
        for each, value in reversed(self._fields):
            if each.lower() == wanted:
                return value.decode("latin-1")
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """The names, each once."""
        return iter(dict.fromkeys(name.decode("latin-1").lower() for name, _ in self._fields))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class RawAnswer:
    """The answer to one request: a `Stream`."""

    def __init__(self, connection: Carrier, request: Request, *, stream: bool) -> None:
        self.request = request
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self._connection = connection
        self._stream = stream
        self._waiter: asyncio.Future[None] | None = None
        self._parts: list[bytes] = []
        self._unread = 0
        self._paused = self._is_complete = self._keep = self._is_ended = self._warned = False
        self._inflate: zlib._Decompress | None = None
        self._error: TransportError | None = None

    # ------------------------------------------------------------------ for the requester

    async def begin(self, data: bytes, deadline: float | None) -> None:
        """Write the request and wait for the answer, or for its head if it is a stream."""
        connection, loop = self._connection, asyncio.get_running_loop()
        connection.answer = self
        connection.transport.write(data)
        timer = None if deadline is None else loop.call_at(deadline, self._expire)
        try:
            while not (self._is_complete or self._error or (self._stream and self.status)):
                await self._wait()
        finally:
            if timer is not None:
                timer.cancel()
        if self._error is not None:
            raise self._error

    @property
    def headers(self) -> Mapping[str, str]:
        return Headers(self.fields)

    def warnings(self) -> tuple[str, ...]:
        """The texts of `Warning` headers with code 299. API servers quote what users wrote, as UTF-8."""
        if not self._warned:
            return ()
        values = [value.decode(errors="replace") for name, value in self.fields if name.lower() == b"warning"]
        return warnings_in(values)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing of it has arrived."""
        return not self.fields and not self.status

    def body(self) -> bytes:
        """What has arrived since the last call."""
        parts, self._parts, self._unread = self._parts, [], 0
        if self._paused:
            self._paused = False
            self._connection.transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            if self._parts:
                yield self.body()
            elif self._is_complete:
                return
            elif self._error is not None:
                raise self._error
            else:
                await self._wait()

    def end(self) -> None:
        """Give the connection back, or abort it if the answer was not read to its end."""
        if self._is_ended:
            return
        self._is_ended = True
        self._connection.answer = None
        if self._is_complete and self._keep and not self._paused:
            self._connection.release()
        else:
            self._connection.abort()

    # ------------------------------------------------------------------ called by the connection

    def field(self, name: bytes, value: bytes) -> None:
        if self._is_complete:  # of an answer that nothing was asked for
            self._keep = False
        else:
            self.fields.append((name, value))

    def head(self, status: int) -> None:
        if self._is_complete:  # of an answer that nothing was asked for
            self._keep = False
            return
        if status < 200:  # an interim answer; the real one follows
            self.fields = []
            return
        self.status = status
        for name, value in self.fields:
            lower = name.lower()
            if lower == b"warning":
                self._warned = True
            elif lower == b"content-encoding" and value == b"gzip":
                self._inflate = zlib.decompressobj(_GZIP)
        if self.request.method == "HEAD":
            self.complete(keep=False)
        if self._stream:
            self._wake()

    @property
    def reads_to_end(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        lengths = (b"content-length", b"transfer-encoding")
        return bool(self.status) and not any(name.lower() in lengths for name, _ in self.fields)

    def add(self, body: bytes) -> None:
        if self._is_complete:
            return
        if self._inflate is not None:
            try:
                body = self._inflate.decompress(body)
            except zlib.error as error:
                self.fail(ConnectionLost(f"{self.request}: {error}"))
                return
        if not body:
            return
        self._parts.append(body)
        self._unread += len(body)
        if self._stream:
            if self._unread > UNREAD_BYTES and not self._paused:
                self._paused = True
                self._connection.transport.pause_reading()
            self._wake()

    def complete(self, *, keep: bool) -> None:
        """The answer is complete. `keep`: the connection can be used again."""
        if self.status and not self._is_complete:
            self._is_complete, self._keep = True, keep
            self._wake()

    def fail(self, error: TransportError) -> None:
        """The connection ended before the answer, or what came is not an answer."""
        self._keep = False
        if not self._is_complete and self._error is None:
            self._error = error
            self._wake()

    def _expire(self) -> None:
        self.fail(RequestTimeout(f"{self.request}: no answer within {self.request.timeout} s"))

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def warnings_in(values: list[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers with code 299."""
    found = (_WARNING.match(value) for value in values)
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)


def bytes_of(request: Request, target: str, fixed: str) -> bytes:
    """The request as it goes over the wire. Raises BadRequest for a line break where none may be."""
    if request.query:
        target += "?" + "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in _pairs(request))
    lines = [f"{request.method} {target} HTTP/1.1\r\n", fixed]
    lines += [f"{name}: {value}\r\n" for name, value in request.headers.items()]
    body = request.body
    if body is not None:
        lines.append(f"Content-Length: {len(body)}\r\n")
    elif request.method not in READS:
        lines.append("Content-Length: 0\r\n")
    head = "".join(lines)
    if head.count("\n") != fixed.count("\n") + len(lines) - 1 or head.count("\r") != head.count("\n"):
        raise BadRequest(f"{request}: a header or the path holds a line break")
    return head.encode() + b"\r\n" + (body or b"")


def _pairs(request: Request) -> list[tuple[str, str]]:
    """The parameters of the query; a name can have several values."""
    pairs: list[tuple[str, str]] = []
    for name, value in request.query.items():
        pairs += [(name, value)] if isinstance(value, str) else [(name, each) for each in value]
    return pairs


def _quoted(text: str) -> str:
    return text if _PLAIN(text) else quote(text, safe="")
