# SPDX-License-Identifier: Apache-2.0
"""What is spoken over the websockets of pods: the channels of `exec`, and TCP connections of `portforward`.

Each binary message of a websocket begins with the number of its channel. kubectl asks for websockets first since 1.31;
older versions speak SPDY over HTTP, which is not served. For `portforward`, kubectl speaks SPDY/3.1 inside the
websocket: two streams for each connection, one for data and one for the error.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.info import ServerWebSocket, encode
from trainwright.controller.local.podaccess import ExecRequest, ExecSession, ExecSource, Streams, UnavailableError
from trainwright.controller.runtime.tasks import TaskScope

_V5 = "v5.channel.k8s.io"
EXEC = (_V5, "v4.channel.k8s.io")
"""Protocols of `exec`, the best first."""
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels. A message on the last one names a channel that the client closes; version 4 does not have it."""


class _Size(msgspec.Struct):
    Width: int = 0
    Height: int = 0


async def serve_exec(
    socket: ServerWebSocket, source: ExecSource, namespace: str, pod: str, request: ExecRequest
) -> None:
    """Start a process and speak of it over an open websocket, until one of the two ends. Raises ConnectionError."""
    try:
        session = await source(namespace, pod, request)
    except UnavailableError as error:
        await _tell(socket, errors.internal(str(error)).document())
        return
    await _Connection(socket, session, request).run()


@dataclass(eq=False, slots=True)
class _Connection:
    _socket: ServerWebSocket
    _session: ExecSession
    _request: ExecRequest

    async def run(self) -> None:
        """Until the process has ended, or the client is gone: then it is killed. Raises ConnectionError."""
        try:
            if self._request.stdout or self._request.stderr:
                # As kubelet, so that the client knows that the process runs.
                await self._socket.send(bytes([STDOUT if self._request.stdout else STDERR]))
            async with TaskScope("exec") as tasks:
                reading = tasks.start("exec/input", self._read())
                running = tasks.start("exec/process", self._process())
                await asyncio.wait({reading, running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._session.close()

    async def _process(self) -> None:
        """Send all output, then the exit code."""
        async with TaskScope("exec output") as tasks:
            copies = {
                tasks.start("exec/stdout", self._copy(self._session.stdout, STDOUT, wanted=self._request.stdout)),
                tasks.start("exec/stderr", self._copy(self._session.stderr, STDERR, wanted=self._request.stderr)),
            }
            code = await self._session.wait()
            await asyncio.wait(copies)
        await _tell(self._socket, _exit_status(code))

    async def _copy(self, output: AsyncIterator[bytes], channel: int, *, wanted: bool) -> None:
        prefix = bytes([channel])
        async for chunk in output:
            if wanted:
                await self._socket.send(prefix + chunk)

    async def _read(self) -> None:
        """Take input until the client is gone."""
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == STDIN and self._request.stdin:
                await self._session.write(data)
            elif channel == CLOSE and data == bytes([STDIN]) and self._socket.protocol == _V5:
                await self._session.close_stdin()
            elif channel == RESIZE and self._request.tty:
                self._resize(data)

    def _resize(self, data: bytes) -> None:
        try:
            size = msgspec.json.decode(data, type=_Size)
        except msgspec.DecodeError:
            return  # As kubelet: a terminal of the wrong size is no reason to end it.
        if 0 < size.Width < 2**16 and 0 < size.Height < 2**16:
            self._session.resize(size.Width, size.Height)


async def _tell(socket: ServerWebSocket, status: Document) -> None:
    await socket.send(bytes([ERROR]) + encode(status))


def _exit_status(code: int) -> Document:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


FORWARD = ("SPDY/3.1+portforward.k8s.io",)
"""Protocols of `portforward`."""
_CHUNK = 2**15
_WAITING = 64
"""Chunks of one connection that wait for a pod that does not read; then the whole websocket waits."""
LINGER_SECONDS = 10.0
"""How long a program may go on answering a client that has said everything. kubectl does not tell whether that client
still listens, and there are programs that never stop; containerd gives them one second."""

Connect = Callable[[int], Awaitable[Streams]]
Send = Callable[[bytes], Awaitable[None]]
Incoming = asyncio.Queue[bytes | None]
"""What a client sends on one connection; None for its end."""


async def forward(connect: Connect, port: int, incoming: Incoming, send: Send) -> str:
    """One connection, until the pod closes it. Returns what went wrong; empty if nothing did."""
    try:
        reader, writer = await connect(port)
    except (UnavailableError, OSError) as error:
        return f"error forwarding port {port}: {error}"
    try:
        async with TaskScope("port forward") as tasks:
            tasks.start("port forward/input", _write(writer, incoming))
            while data := await reader.read(_CHUNK):
                await send(data)
    except OSError as error:
        return f"error forwarding port {port}: {error}"
    finally:
        writer.close()
    return ""


async def _write(writer: asyncio.StreamWriter, incoming: Incoming) -> None:
    with suppress(OSError):  # the reader finds out what became of the connection
        while (data := await incoming.get()) is not None:
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        await asyncio.sleep(LINGER_SECONDS)
        writer.close()


def _discard(incoming: Incoming) -> None:
    """Let go on who waits to put something there: nobody will take it."""
    while not incoming.empty():
        incoming.get_nowait()


_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server "
    "te "  # codespell:ignore te
    "trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(len(word).to_bytes(4, "big") + word.replace("_", " ").encode() for word in _WORDS.split())
DICTIONARY += _REST.encode()
"""What the compression of headers begins with (section 2.6.10.1 of the draft)."""
SYN_STREAM, SYN_REPLY, RST_STREAM, PING = 1, 2, 3, 6
FIN = 1
_CONTROL = 0x80030000
"""The first bits of a control frame of version 3."""


def control_frame(kind: int, payload: bytes, flags: int = 0) -> bytes:
    return (_CONTROL | kind).to_bytes(4, "big") + bytes([flags]) + len(payload).to_bytes(3, "big") + payload


def data_frame(stream: int, data: bytes, flags: int = 0) -> bytes:
    return stream.to_bytes(4, "big") + bytes([flags]) + len(data).to_bytes(3, "big") + data


class SPDYTunnel:
    """SPDY frames in the messages of a websocket, as far as `kubectl port-forward` needs them."""

    def __init__(self, socket: ServerWebSocket, connect: Connect) -> None:
        self._socket = socket
        self._connect = connect
        self._received = bytearray()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._incoming: dict[int, Incoming] = {}
        """Of data streams."""
        self._connections: dict[int, asyncio.Task[str]] = {}
        """By data stream."""
        self._halves: dict[str, dict[str, int]] = {}
        """The stream of each type by request, until there are both."""

    async def run(self) -> None:
        """Until the client is gone. Raises ConnectionError."""
        async with TaskScope("port forwards") as tasks:
            while (message := await self._socket.receive()) is not None:
                self._received += message
                for head, flags, payload in self._frames():
                    await self._take(head, flags, payload, tasks)

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        """First word, flags and payload of the frames that are complete."""
        while len(self._received) >= 8:
            end = 8 + int.from_bytes(self._received[5:8], "big")
            if len(self._received) < end:
                return
            frame = bytes(self._received[:end])
            del self._received[:end]
            yield int.from_bytes(frame[:4], "big"), frame[4], frame[8:]

    async def _take(self, head: int, flags: int, payload: bytes, tasks: TaskScope) -> None:
        if head < 2**31:
            if (incoming := self._incoming.get(head)) is not None:
                if payload:
                    await incoming.put(payload)
                if flags & FIN:
                    await incoming.put(None)
        elif head == _CONTROL | SYN_STREAM:
            stream = int.from_bytes(payload[:4], "big")
            headers = self._headers(payload[10:])
            # No headers: a count of zero.
            block = self._pack.compress(bytes(4)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
            await self._socket.send(control_frame(SYN_REPLY, payload[:4] + block))
            self._begin(stream, headers, tasks)
        elif head == _CONTROL | RST_STREAM:
            # The client reads no more: a program that never stops writing has to be told.
            if (connection := self._connections.get(int.from_bytes(payload[:4], "big"))) is not None:
                connection.cancel()
        elif head == _CONTROL | PING:
            await self._socket.send(control_frame(PING, payload))

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._unpack.decompress(block)
        words, place = [], 4
        while place + 4 <= len(text):
            end = place + 4 + int.from_bytes(text[place : place + 4], "big")
            words.append(text[place + 4 : end].decode(errors="replace"))
            place = end
        return dict(zip(words[::2], words[1::2], strict=False))

    def _begin(self, stream: int, headers: dict[str, str], tasks: TaskScope) -> None:
        """Note a stream; with the second one of a request, connect."""
        request, kind, port = (headers.get(name, "") for name in ("requestid", "streamtype", "port"))
        halves = self._halves.setdefault(request, {})
        halves[kind] = stream
        if kind == "data":
            self._incoming[stream] = asyncio.Queue(_WAITING)
        if {"data", "error"} <= halves.keys() and port.isdecimal():
            del self._halves[request]
            connection = tasks.start(f"port {port}", self._forward(int(port), halves["data"]))
            self._connections[halves["data"]] = connection
            tasks.start(f"port {port}/end", self._end(connection, halves["data"], halves["error"]))

    async def _forward(self, port: int, data: int) -> str:
        async def send(chunk: bytes) -> None:
            await self._socket.send(data_frame(data, chunk))

        return await forward(self._connect, port, self._incoming[data], send)

    async def _end(self, connection: asyncio.Task[str], data: int, error: int) -> None:
        """Wait for the end of a connection, and say it on both streams."""
        await asyncio.wait({connection})
        problem = "" if connection.cancelled() else connection.result()
        del self._connections[data]
        _discard(self._incoming.pop(data))
        await self._socket.send(data_frame(error, problem.encode(), FIN))
        await self._socket.send(data_frame(data, b"", FIN))
