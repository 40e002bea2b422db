# SPDX-License-Identifier: Apache-2.0
"""Asks a gRPC server how it is, as probes do: one unary call over HTTP/2 without TLS, so no library is needed.

    state = await check("127.0.0.1", 50051, "my.Service")

Headers of answers are not decoded. A server without the service answers with headers alone, which is a failure anyway.

https://www.rfc-editor.org/rfc/rfc9113
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

import asyncio
import struct

from trainwright.controller.local.node.network.networks import Dial

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _PADDED, _ACK = 1, 4, 8, 1
_STREAM = 1
_NO_PUSH = struct.pack(">HI", 2, 0)
_LARGEST_FRAME = 16_384
"""The limit of HTTP/2 unless a larger one is granted, which is never done here."""
_STATES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
SERVING = "SERVING"


class HealthError(Exception):
    """The server did not say how it is."""


async def check(host: str, port: int, service: str, dial: Dial = asyncio.open_connection) -> str:
    """The state of a service, or of the whole server if it is empty. `dial` connects to it.

    Raises:
        OSError: there is no connection.
        HealthError: the server does not speak gRPC, or has no health service, or does not know the service.
    """
    reader, writer = await dial(host, port)
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, _NO_PUSH))
        writer.write(_frame(_HEADERS, _END_HEADERS, _STREAM, _headers(f"{host}:{port}")))
        writer.write(_frame(_DATA, _END_STREAM, _STREAM, _message(service)))
        return _state(await _answer(reader, writer))
    except asyncio.IncompleteReadError:
        raise HealthError("the connection was closed") from None
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What the server sends on our stream."""
    found = b""
    while True:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        if length > _LARGEST_FRAME:
            raise HealthError("the server does not speak HTTP/2")
        payload = await reader.readexactly(length)
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind == _GO_AWAY or (kind == _RESET and stream == _STREAM):
            raise HealthError("the server refused the call")
        elif stream == _STREAM:
            if kind == _DATA:
                found += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if flags & _END_STREAM:
                return found


def _state(answer: bytes) -> str:
    """The state that a message says: five bytes of gRPC, then the protobuf field 1, which is left out if it is 0."""
    if len(answer) < 5:
        raise HealthError("the server has no answer of grpc.health.v1.Health for this service")
    body = answer[5:]
    number = body[1] if len(body) > 1 and body[0] == 0x08 else 0
    return _STATES[number] if number < len(_STATES) else str(number)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _headers(authority: str) -> bytes:
    """The block of HPACK: two entries of the static table, then literals that are not indexed."""
    literals = [
        (b"\x04", "/grpc.health.v1.Health/Check"),  # :path
        (b"\x01", authority),  # :authority
        (b"\x0f\x10", "application/grpc"),  # content-type
        (b"\x0f\x2b", "kube-probe/1.36"),  # user-agent
        (b"\x00\x02te", "trailers"),
    ]
    method_and_scheme = b"\x83\x86"  # POST, http
    return method_and_scheme + b"".join(name + _string(value.encode()) for name, value in literals)


def _string(value: bytes) -> bytes:
    """A string of HPACK, without Huffman's code."""
    return _number(len(value), 7) + value


def _number(value: int, bits: int) -> bytes:
    """A number of HPACK with a prefix of so many bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    made, value = [most], value - most
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _message(service: str) -> bytes:
    """A HealthCheckRequest of gRPC: not compressed, its length, and field 1 of protobuf."""
    name = service.encode()
    length = []
    rest = len(name)
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    body = b"\x0a" + bytes([*length, rest]) + name if name else b""
    return struct.pack(">BI", 0, len(body)) + body
