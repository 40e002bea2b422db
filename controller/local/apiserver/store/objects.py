# SPDX-License-Identifier: Apache-2.0
"""One stored object: its encoded bytes, and what is read of them most often."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from trainwright.api.objects import Document

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Name(NamedTuple):
    """Where an object is within its collection."""

    namespace: str
    """Empty for kinds without namespace."""
    name: str

    @property
    def sort_key(self) -> str:
        """Orders objects as etcd orders their keys: `-` and `.` sort before the slash behind a namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Partial(msgspec.Struct):
    metadata: _Metadata


_decode_partial = msgspec.json.Decoder(_Partial).decode


class Stored:
    """An object as it was written: never changed, shared by all who read it."""

    __slots__ = ("_labels", "body", "name", "version")

    def __init__(self, name: Name, version: int, body: bytes, labels: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.version = version
        self.body = body
        self._labels = labels

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`, never None."""
        if self._labels is None:
            self._labels = _decode_partial(self.body).metadata.labels or {}
        return self._labels

    def document(self) -> Document:
        """The object, decoded anew: the caller's own."""
        return _decode(self.body)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.body)


def stored(name: Name, version: int, document: Document) -> Stored:
    """Encode an object with its version. The document gets the version, and apiVersion and kind as its first keys."""
    metadata = document["metadata"]
    metadata["resourceVersion"] = str(version)
    ordered = {"apiVersion": document["apiVersion"], "kind": document["kind"], **document}
    return Stored(name, version, _encode(ordered), metadata.get("labels") or {})
