# SPDX-License-Identifier: Apache-2.0
"""The wire format of protobuf: https://protobuf.dev/programming-guides/encoding/."""

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = int | bytes
"""A number for varints; bytes for the rest."""


class ProtobufError(ValueError):
    """A body is not what it should be: 400, BadRequest."""

    code = 400
    reason = "BadRequest"


def entries(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """The entries of a message: field number, wire type, value.

    Raises:
        ProtobufError: the message is malformed.
    """
    position, end = 0, len(data)
    while position < end:
        key, position = varint(data, position)
        number, wire = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise ProtobufError(f"proto: illegal tag {number} (wire type {wire})")
        value: Value
        if wire == VARINT:
            value, position = varint(data, position)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if wire == BYTES:
                size, position = varint(data, position)
            if size is None:
                raise ProtobufError(f"proto: illegal wireType {wire}")
            if size > end - position:
                raise ProtobufError("unexpected EOF")
            value = data[position : position + size]
            position += size
        yield number, wire, value


def varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint of at most 64 bits, and where it ends.

    Raises:
        ProtobufError: it does not end, or is longer.
    """
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise ProtobufError("proto: integer overflow")


def signed(value: int, bits: int) -> int:
    """A varint as an integer of so many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def double(data: bytes) -> float:
    """A double."""
    (value,) = struct.unpack("<d", data)
    return float(value)
