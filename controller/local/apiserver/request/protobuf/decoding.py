# SPDX-License-Identifier: Apache-2.0
"""Objects in protobuf, read into what their JSON would be.

https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from trainwright.api.times import format_micro_time, format_time
from trainwright.controller.local.apiserver.request.protobuf.tables import ProtobufField, fields_of, message_of
from trainwright.controller.local.apiserver.request.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    Value,
    double,
    entries,
    signed,
    varint,
)

Document = dict[str, Any]

MAGIC = b"k8s\0"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_DEEPEST = 100
"""Levels of messages. Only schemas of CRDs nest without end; kube-apiserver allows more than anybody writes."""
_WIRE = {"string": BYTES, "bytes": BYTES, "bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode(body: bytes, default: tuple[str, str] | None = None) -> Document:
    """The object of a request body.

    Args:
        body: the magic number, and the object in an envelope that names its kind.
        default: apiVersion and kind, if the envelope does not name them.

    Raises:
        ProtobufError: it is malformed, or of a kind that is not built in.
    """
    if not body.startswith(MAGIC):
        said = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise ProtobufError(said)
    raw, api_version, kind = _envelope(body[len(MAGIC) :])
    if default is not None:
        api_version, kind = api_version or default[0], kind or default[1]
    message = message_of(api_version, kind)
    if message is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    return {"apiVersion": api_version, "kind": kind, **_message(raw, message, _DEEPEST)}


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


def _message(data: bytes, message: str, depth: int) -> Document:
    fields = fields_of(message)
    if not depth:
        raise ProtobufError(f"messages are nested more than {_DEEPEST} levels deep")
    made: Document = {}
    for number, wire, value in entries(data):
        field = fields.get(number)
        # Fields of newer versions are left out, as everywhere in protobuf.
        if field is None:
            continue
        if field.count == "map":
            key, inner = _map_entry(_bytes(wire, value), field, depth)
            made.setdefault(field.name, {})[key] = inner
        elif field.count == "repeated":
            made.setdefault(field.name, []).extend(_repeated(field, wire, value, depth))
        else:
            _put(made, field, _value(field.type, wire, value, depth))
    return made


def _put(made: Document, field: ProtobufField, value: Any) -> None:
    if not field.name:
        made.update(value)
    elif value is None or (not value and not field.keeps_zero):
        # Fields that are no pointers are always sent; JSON leaves them out when they are zero.
        made.pop(field.name, None)
    else:
        made[field.name] = value


def _repeated(field: ProtobufField, wire: int, value: Value, depth: int) -> list[Any]:
    expected = _WIRE.get(field.type, BYTES)
    if wire != BYTES or expected == BYTES:
        return [_value(field.type, wire, value, depth)]
    # Packed numbers, which Kubernetes does not send and every decoder has to read.
    packed, found = _bytes(wire, value), []
    if expected == FIXED64:
        if len(packed) % 8:
            raise ProtobufError("unexpected EOF")
        return [double(packed[start : start + 8]) for start in range(0, len(packed), 8)]
    position = 0
    while position < len(packed):
        number, position = varint(packed, position)
        found.append(_value(field.type, VARINT, number, depth))
    return found


def _map_entry(data: bytes, field: ProtobufField, depth: int) -> tuple[str, Any]:
    key, found = "", None
    for number, wire, value in entries(data):
        if number == 1:
            key = _text(_bytes(wire, value))
        elif number == 2:
            found = _value(field.type, wire, value, depth)
    if found is None:
        found = "" if _WIRE.get(field.type) == BYTES else _value(field.type, BYTES, b"", depth)
    return key, found


def _value(kind: str, wire: int, value: Value, depth: int) -> Any:
    expected = _WIRE.get(kind, BYTES)
    if wire != expected:
        raise ProtobufError(f"proto: wrong wireType = {wire} for a field of type {kind.rpartition('.')[2]}")
    if isinstance(value, int):
        return value != 0 if kind == "bool" else signed(value, 32 if kind == "int32" else 64)
    match kind:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "double":
            return double(value)
    special = _SPECIAL.get(kind)
    return _message(value, kind, depth - 1) if special is None else special(value, depth - 1)


def _bytes(wire: int, value: Value) -> bytes:
    if not isinstance(value, bytes) or wire != BYTES:
        raise ProtobufError(f"proto: wrong wireType = {wire}")
    return value


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _plain(data: bytes) -> dict[int, Value]:
    """The fields of a small message, the last of each number."""
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


def _quantity(data: bytes, _: int) -> str:
    return _string(_plain(data), 1)


def _int_or_string(data: bytes, _: int) -> int | str:
    fields = _plain(data)
    return _string(fields, 3) if _number(fields, 1) == 1 else _number(fields, 2, 32)


def _moment(data: bytes) -> datetime | None:
    """A point in time; None for the empty message, which is Go's zero time."""
    if not data:
        return None
    fields = _plain(data)
    try:
        return _EPOCH + timedelta(seconds=_number(fields, 1), microseconds=_number(fields, 2, 32) // 1000)
    except OverflowError as error:
        raise ProtobufError("a time is out of range") from error


def _time(data: bytes, _: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else format_time(moment)


def _micro_time(data: bytes, _: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else format_micro_time(moment)


def _json(data: bytes, _: int) -> Any:
    raw = _plain(data).get(1, b"")
    if not raw:
        return None
    try:
        return msgspec.json.decode(_bytes(BYTES, raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtobufError(f"a field that holds JSON is malformed: {error}") from error


def _schema(data: bytes, depth: int) -> Document:
    return _message(data, f"{_EXTENSIONS}.JSONSchemaProps", depth)


def _schemas(data: bytes, number: int, depth: int) -> list[Document]:
    return [_schema(_bytes(wire, value), depth) for found, wire, value in entries(data) if found == number]


def _schema_or_list(data: bytes, depth: int) -> Any:
    single = _schemas(data, 1, depth)
    return single[-1] if single else _schemas(data, 2, depth)


def _schema_or_bool(data: bytes, depth: int) -> Any:
    single = _schemas(data, 2, depth)
    return single[-1] if single else _number(_plain(data), 1) != 0


def _schema_or_texts(data: bytes, depth: int) -> Any:
    single = _schemas(data, 1, depth)
    return single[-1] if single else _texts(data, 2)


def _texts(data: bytes, number: int) -> list[str]:
    return [_text(_bytes(wire, value)) for found, wire, value in entries(data) if found == number]


_SPECIAL: Mapping[str, Callable[[bytes, int], Any]] = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _quantity,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _json,
    f"{_META}.Time": _time,
    f"{_META}.MicroTime": _micro_time,
    f"{_META}.FieldsV1": _json,
    f"{_EXTENSIONS}.JSON": _json,
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": _schema_or_list,
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": _schema_or_texts,
    "k8s.io.api.authentication.v1.ExtraValue": lambda data, _: _texts(data, 1),
    "k8s.io.api.authorization.v1.ExtraValue": lambda data, _: _texts(data, 1),
    "k8s.io.api.certificates.v1.ExtraValue": lambda data, _: _texts(data, 1),
}
