# SPDX-License-Identifier: Apache-2.0
"""What is stored: objects as encoded bytes, their changes, and who watches."""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

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


ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class StoreChange:
    type: ChangeType
    collection: str
    object: StoredObject
    """The object after the change. Of a deleted one its last state, with the version of the deletion."""
    before: StoredObject | None
    """The object before; None if the change created it."""
    moment: float
    """When it happened, in seconds since the epoch."""

    @property
    def name(self) -> ObjectName:
        return self.object.name

    @property
    def version(self) -> int:
        """The version of the cluster with this change."""
        return self.object.version

    @property
    def size(self) -> int:
        return len(self.object.body) + (len(self.before.body) if self.before else 0)


BACKLOG_BYTES = 32 * 2**20
"""What waits for one watcher at most."""


class Overflow(Exception):  # noqa: N818 - an outcome, not a defect
    """The watcher did not keep up; it has to list again."""


class StoreWatch:
    """The changes of one collection after a version, in their order, with those that were told already. Close it."""

    def __init__(self, since: int, changes: Iterable[StoreChange]) -> None:
        self._since = since
        self._waiting: deque[StoreChange] = deque(changes)
        self._bytes = sum(change.size for change in self._waiting)
        self._arrived = asyncio.Event()
        self._overflow = False
        self.closed = False
        self.ended = False
        """No more changes come; those that wait can still be taken."""
        if self._waiting:
            self._arrived.set()

    def offer(self, change: StoreChange) -> None:
        """Add a change; for the store."""
        # What was written before the watch began may be told after that: it waits for its commit.
        if self._overflow or self.closed or change.version <= self._since:
            return
        self._bytes += change.size
        if self._bytes > BACKLOG_BYTES and self._waiting:
            self._overflow = True
            self._waiting.clear()
        else:
            self._waiting.append(change)
        self._arrived.set()

    async def take(self, seconds: float | None = None) -> list[StoreChange]:
        """All changes that wait; empty if none comes in time, or the watch was closed. Raises Overflow."""
        if not (self._waiting or self._overflow or self.closed or self.ended):
            try:
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        self._arrived.clear()
        if self._overflow:
            raise Overflow
        taken = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        return taken

    def end(self) -> None:
        """Add no more changes: what it follows is gone."""
        self.ended = True
        self._arrived.set()

    def close(self) -> None:
        """End it; who waits in `take` gets nothing."""
        self.closed = True
        self._waiting.clear()
        self._arrived.set()


class Collection:
    """The objects of one resource, in all namespaces and all its versions."""

    __slots__ = ("_order", "by_name", "changed", "forgotten", "history", "name", "watches")

    def __init__(self, name: str, oldest: int) -> None:
        self.name = name
        self.by_name: dict[ObjectName, StoredObject] = {}
        self._order: list[tuple[str, ObjectName]] = []
        self.changed = 0
        """Rises with each change."""
        self.history: deque[StoreChange] = deque()
        self.forgotten = oldest
        """The version of the newest change that history no longer has."""
        self.watches: dict[StoreWatch, None] = {}
        """In the order in which they began, which is that in which they are told."""

    def put(self, one: StoredObject) -> None:
        if one.name not in self.by_name:
            insort(self._order, (one.name.sort_key, one.name))
        self.by_name[one.name] = one
        self.changed += 1

    def drop(self, name: ObjectName) -> None:
        del self.by_name[name]
        self.changed += 1
        del self._order[bisect_left(self._order, (name.sort_key, name))]

    def listed(self, namespace: str = "", after: str = "") -> Iterator[StoredObject]:
        """Objects in their order: of one namespace or of all, after a sort key. Do not write meanwhile."""
        start = bisect_left(self._order, (max(f"{namespace}/" if namespace else "", f"{after}\0" if after else ""),))
        # "0" is the character after the slash.
        end = bisect_left(self._order, (f"{namespace}0",), start) if namespace else None
        return (self.by_name[name] for _, name in self._order[start:end])
