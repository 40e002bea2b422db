# SPDX-License-Identifier: Apache-2.0
"""Request bodies in protobuf, which clients on controller-runtime send for built-in kinds.

`decode` turns one into the document that its JSON would be. Answers are always JSON, which such clients accept.

https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding and
https://protobuf.dev/programming-guides/encoding/
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from trainwright.api.times import format_micro_time, format_time
from trainwright.controller.local.types.model import (
    INT_OR_STRING,
    META,
    QUANTITY,
    RAW_EXTENSION,
    Type,
    WireField,
    builtin,
    models_by_kind,
)

Document = dict[str, Any]

MAGIC = b"k8s\0"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_DEEPEST = 100
"""Levels of messages."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = int | bytes
"""A number for varints; bytes for the rest."""


class ProtobufError(ValueError):
    """A body is not what it should be: 400, BadRequest."""

    code = 400
    reason = "BadRequest"


def entries(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """The entries of a message: field number, wire type, value. Raises ProtobufError."""
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
    """A varint of at most 64 bits, and where it ends. Raises ProtobufError."""
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
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def double(data: bytes) -> float:
    (value,) = struct.unpack("<d", data)
    return float(value)


def decode(body: bytes, default: tuple[str, str] | None = None) -> Document:
    """The object of a request body: a magic number, and the object in an envelope that names its kind, or the default.

    Raises ProtobufError if it is malformed, or of a kind that is not built in.
    """
    if not body.startswith(MAGIC):
        said = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise ProtobufError(said)
    raw, api_version, kind = _envelope(body[len(MAGIC) :])
    if default is not None:
        api_version, kind = api_version or default[0], kind or default[1]
    # Options are kinds of every group.
    models = models_by_kind()
    if api_version.startswith("apiextensions.k8s.io/"):
        raise ProtobufError("definitions of custom resources are taken in JSON alone")
    model = models.get((api_version, kind)) or models.get(("v1", kind) if kind == "DeleteOptions" else ("", ""))
    try:
        fields = builtin(model or "").wire
    except KeyError:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}" in protobuf') from None
    return {"apiVersion": api_version, "kind": kind, **_message(raw, fields, _DEEPEST)}


def _envelope(data: bytes) -> tuple[bytes, str, str]:
    """What `runtime.Unknown` holds: the object, its apiVersion and its kind."""
    raw, texts = b"", {1: "", 2: ""}
    for number, wire, value in entries(data):
        if number == 1:
            for inner, inner_wire, text in entries(_bytes(wire, value)):
                if inner in texts:
                    texts[inner] = _text(_bytes(inner_wire, text))
        elif number == 2:
            raw = _bytes(wire, value)
        elif number == 3 and value:
            raise ProtobufError("the object in the envelope is encoded in another way")
    return raw, texts[1], texts[2]


def _message(data: bytes, fields: Mapping[int, WireField], depth: int) -> Document:
    if not depth:
        raise ProtobufError(f"messages are nested more than {_DEEPEST} levels deep")
    made: Document = {}
    for number, wire, value in entries(data):
        field = fields.get(number)
        # Fields of newer versions are left out, as everywhere in protobuf.
        if field is None:
            continue
        if field.inline is not None:
            made.update(_message(_bytes(wire, value), field.inline, depth - 1))
        elif field.type.sort == "map" and field.type.others is not None:
            key, inner = _map_entry(_bytes(wire, value), field.type.others, depth)
            made.setdefault(field.name, {})[key] = inner
        elif field.type.sort == "list":
            # Numbers are never packed: Kubernetes is generated from proto2.
            made.setdefault(field.name, []).append(_value(field.type.item, wire, value, depth))
        else:
            _put(made, field, _value(field.type, wire, value, depth))
    return made


def _put(made: Document, field: WireField, value: Any) -> None:
    if value is None or (not value and not field.keeps_zero):
        # Fields that are no pointers are always sent; JSON leaves them out when they are zero.
        made.pop(field.name, None)
    else:
        made[field.name] = value


def _expected(kind: Type) -> int:
    if kind.sort == "number":
        return FIXED64 if kind.kind == "number" else VARINT
    return VARINT if kind.sort == "bool" else BYTES


def _map_entry(data: bytes, kind: Type, depth: int) -> tuple[str, Any]:
    key, found = "", None
    for number, wire, value in entries(data):
        if number == 1:
            key = _text(_bytes(wire, value))
        elif number == 2:
            # A list in a map is a message with one field, such as `ExtraValue`.
            is_list = kind.sort == "list"
            found = _texts(_bytes(wire, value), 1) if is_list else _value(kind, wire, value, depth)
    if found is None:
        found = (
            [] if kind.sort == "list" else "" if kind.sort in ("string", "bytes") else _value(kind, BYTES, b"", depth)
        )
    return key, found


def _value(kind: Type, wire: int, value: Value, depth: int) -> Any:
    sort = kind.sort
    if wire != _expected(kind):
        raise ProtobufError(f"proto: wrong wireType = {wire} for a field of type {kind.name.rpartition('.')[2]}")
    if isinstance(value, int):
        return value != 0 if sort == "bool" else signed(value, 32 if kind.schema.get("format") == "int32" else 64)
    match sort:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "number":
            return double(value)
    special = _SPECIAL.get(kind.name)
    return _message(value, kind.wire, depth - 1) if special is None else special(value)


def _bytes(wire: int, value: Value) -> bytes:
    if not isinstance(value, bytes) or wire != BYTES:
        raise ProtobufError(f"proto: wrong wireType = {wire}")
    return value


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _plain(data: bytes) -> dict[int, Value]:
    return {number: value for number, _, value in entries(data)}


def _number(fields: Mapping[int, Value], number: int, bits: int = 64) -> int:
    value = fields.get(number, 0)
    if not isinstance(value, int):
        raise ProtobufError(f"proto: wrong wireType = {BYTES} for an integer")
    return signed(value, bits)


def _string(fields: Mapping[int, Value], number: int) -> str:
    value = fields.get(number, b"")
    if not isinstance(value, bytes):
        raise ProtobufError(f"proto: wrong wireType = {VARINT} for a string")
    return _text(value)


def _quantity(data: bytes) -> str:
    return _string(_plain(data), 1)


def _int_or_string(data: bytes) -> int | str:
    fields = _plain(data)
    return _string(fields, 3) if _number(fields, 1) == 1 else _number(fields, 2, 32)


def _moment(data: bytes, shown: Callable[[datetime], str]) -> str | None:
    """A point in time; None for the empty message, which is Go's zero time."""
    if not data:
        return None
    fields = _plain(data)
    try:
        return shown(_EPOCH + timedelta(seconds=_number(fields, 1), microseconds=_number(fields, 2, 32) // 1000))
    except OverflowError as error:
        raise ProtobufError("a time is out of range") from error


def _json(data: bytes) -> Any:
    raw = _plain(data).get(1, b"")
    if not raw:
        return None
    try:
        return msgspec.json.decode(_bytes(BYTES, raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtobufError(f"a field that holds JSON is malformed: {error}") from error


def _texts(data: bytes, number: int) -> list[str]:
    return [_text(_bytes(wire, value)) for found, wire, value in entries(data) if found == number]


_SPECIAL: Mapping[str, Callable[[bytes], Any]] = {
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    RAW_EXTENSION: _json,
    f"{META}.Time": partial(_moment, shown=format_time),
    f"{META}.MicroTime": partial(_moment, shown=format_micro_time),
    f"{META}.FieldsV1": _json,
}
