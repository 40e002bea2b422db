# SPDX-License-Identifier: Apache-2.0
"""The tables of field numbers: which message a kind is, and what its fields are."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

TABLES = Path(__file__).parent / "fields.json"

Count = Literal["optional", "repeated", "map"]
_Row = tuple[int, str, Count, str, bool]


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field of a message.

    Attributes:
        name: in JSON; empty if its own fields stand in the object itself.
        count: one, several, or a map from strings.
        type: a scalar of protobuf, or the name of a message.
        keeps_zero: it is there even if it is zero, as in Go's JSON.
    """

    name: str
    count: Count
    type: str
    keeps_zero: bool


class _File(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, list[_Row]]


@functools.cache
def _file() -> _File:
    return msgspec.json.decode(TABLES.read_bytes(), type=_File)


def message_of(api_version: str, kind: str) -> str | None:
    """The message of a kind; None if there is none. Options are kinds of every group."""
    kinds = _file().kinds
    found = kinds.get(f"{api_version} {kind}")
    return kinds.get(f"v1 {kind}") if found is None and kind == "DeleteOptions" else found


@functools.cache
def fields_of(message: str) -> Mapping[int, ProtobufField]:
    """The fields of a message by number. Raises KeyError if there is no such message."""
    return {
        number: ProtobufField(name, count, kind, keeps)
        for number, name, count, kind, keeps in _file().messages[message]
    }
