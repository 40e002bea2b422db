# SPDX-License-Identifier: Apache-2.0
"""One stored object: its encoded bytes, and what is read of them most often."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from trainwright.api.objects import Document

LIMIT = 3 * 2**19
"""Bytes of an object at most: the limit of etcd."""
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ObjectName(NamedTuple):
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


class ObjectTooLarge(Exception):  # noqa: N818 - an outcome, not a defect
    """The object has more bytes than etcd takes in one request."""


class StoredObject:
    """An object as it was written: never changed, shared by all who read it."""

    __slots__ = ("_labels", "body", "name", "version")

    def __init__(self, name: ObjectName, version: int, body: bytes, labels: Mapping[str, str] | None = None) -> None:
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


def stored(name: ObjectName, version: int, document: Document) -> StoredObject:
    """Encode an object with its version, which the document gets too.

    apiVersion and kind are the first keys. All others are sorted, as Go writes maps: clients see the order of the keys
    of a ConfigMap, and some depend on it.

    Raises:
        ObjectTooLarge: it has more than `LIMIT` bytes.
    """
    metadata = document["metadata"]
    metadata["resourceVersion"] = str(version)
    head = _encode({"apiVersion": document["apiVersion"], "kind": document["kind"]})
    rest = _encode({key: value for key, value in document.items() if key not in ("apiVersion", "kind")})
    if len(rest) > LIMIT:
        raise ObjectTooLarge("etcdserver: request is too large")
    return StoredObject(name, version, head[:-1] + b"," + rest[1:], metadata.get("labels") or {})
