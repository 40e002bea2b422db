# SPDX-License-Identifier: Apache-2.0
"""The objects of one informer by key and by index, with own writes on top until the watch has caught up.

Two sides write: the watch, in the order of the server, and own writes, whose answers arrive before or after their watch
event. An answer that the watch has not reached is *ahead*: reads see it. Older watch events of its key no longer change
what reads see, but are still reported, so that no change by someone else is missed.

Guarantees: content and version change in one step. An answer older than the watch is ignored.
Caveat: if the server's versions cannot be compared, answers are not put ahead, and reads follow the watch alone.

A resource version is opaque. Two versions of one resource can be ordered if both are positive decimal numbers without
leading zeros. Others cannot be compared; callers then choose the safe way.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from trainwright.api.objects import AnyObject, Document, Key, key_of, resource_version_of, uid_of
from trainwright.controller.runtime.errors import ConfigurationError

log = logging.getLogger(__name__)

T = TypeVar("T", bound=AnyObject)


class EventType(StrEnum):
    """The type of a change. GENERIC is for sources other than the API server."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    GENERIC = "GENERIC"


@dataclass(slots=True)
class Event(Generic[T]):
    """One change. Handlers share the objects and must not modify them."""

    type: EventType
    key: Key
    old: T | None
    """The previous state; None for an addition, or if unknown."""
    new: T | None
    """The current state; None for a deletion."""
    initial: bool = False
    """Part of the first list, or replayed to a handler that was added later."""
    last_known: bool = False
    """A deletion that a list revealed: `old` may be stale."""
    undecodable: bool = False
    """The object does not fit its model and is a dictionary."""

    @property
    def obj(self) -> T:
        """The current state, or the previous one after a deletion."""
        obj = self.new if self.new is not None else self.old
        if obj is None:
            raise ValueError(f"event {self.type} {self.key} has no object")
        return obj


Handler: TypeAlias = Callable[[Event[AnyObject]], None]
"""Called in the task of the reflector after the cache is updated. Must be quick and must not block."""


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 if `a` is older than, equal to or newer than `b`; None if they cannot be compared."""
    canonical = (a.isascii() and a.isdigit() and a[0] != "0") and (b.isascii() and b.isdigit() and b[0] != "0")
    if not canonical:
        return 0 if a and a == b else None
    if len(a) != len(b):
        return 1 if len(a) > len(b) else -1
    return (a > b) - (a < b)


def at_least(a: str, b: str) -> bool:
    """Whether `a` is known to be `b` or newer."""
    order = compare(a, b)
    return order is not None and order >= 0


IndexFunction = Callable[[Any], Iterable[str]]


@dataclass(slots=True)
class _Ahead:
    version: str
    uid: str
    deleted: bool
    observed: AnyObject | None
    """The last state that the watch showed."""


class InformerStore:
    """Indexed objects of one kind and scope. All methods are synchronous; use from the event loop only."""

    def __init__(self) -> None:
        self._objects: dict[Key, AnyObject] = {}
        self._ahead: dict[Key, _Ahead] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}
        self._namespaces: dict[str, dict[Key, None]] = {}
        self.undecodable: dict[Key, Document] = {}
        """Objects that do not fit their model, as dictionaries; in no index."""
        self.resource_version = ""
        """The version that the watch has reached; empty before the first list."""

    def __len__(self) -> int:
        return len(self._objects)

    # ------------------------------------------------------------------ reads

    def get(self, key: Key) -> AnyObject | None:
        return self._objects.get(key)

    def holds(self, key: Key) -> bool:
        """Whether there is such an object, also one that does not fit its model."""
        return self.get(key) is not None or key in self.undecodable

    def list(self, namespace: str = "") -> Iterator[AnyObject]:
        """All objects, or those of one namespace, in any order."""
        if not namespace:
            return iter(list(self._objects.values()))
        objects = self._objects
        return iter([objects[key] for key in self._namespaces.get(namespace, ())])

    def indexed(self, index: str, value: str) -> Iterator[AnyObject]:
        """Objects with a value in an index. Raises ConfigurationError for an unknown index."""
        try:
            keys = self._indexes[index].get(value, ())
        except KeyError:
            raise ConfigurationError(f"there is no index {index!r}; the indexes are {sorted(self._indexes)}") from None
        objects = self._objects
        return iter([objects[key] for key in keys])

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index all present and future objects by the values of `function`. Raises ConfigurationError if it exists."""
        if name in self._functions:
            raise ConfigurationError(f"index {name!r} exists already")
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._file(name, function, key, obj)

    # ------------------------------------------------------------------ the watch's side

    def put(self, obj: AnyObject, key: Key | None = None) -> Event[AnyObject]:
        """The watch shows this object. Returns the change as the watch sees it. `key`: of the object, if known."""
        key = key_of(obj) if key is None else key
        if self.undecodable:
            self.undecodable.pop(key, None)
        ahead = self._ahead.get(key)
        if ahead is None:
            old = self._objects.get(key)
            self._set(key, old, obj)
        else:
            old, ahead.observed = ahead.observed, obj
            if ahead.deleted:
                superseded = uid_of(obj) != ahead.uid
            else:
                order = compare(resource_version_of(obj), ahead.version)
                superseded = order is None or order >= 0
            if superseded:
                del self._ahead[key]
                self._set(key, self._objects.get(key), obj)
        return Event(EventType.ADDED if old is None else EventType.MODIFIED, key, old, obj)

    def put_undecodable(self, key: Key, document: Document) -> Event[AnyObject]:
        """The watch shows an object that does not fit its model."""
        self._ahead.pop(key, None)
        old = self._objects.get(key)
        if old is not None:
            self._unset(key, old)
        known = key in self.undecodable
        self.undecodable[key] = document
        kind = EventType.MODIFIED if known or old is not None else EventType.ADDED
        return Event(kind, key, old, document, undecodable=True)

    def remove(self, key: Key, last: AnyObject | None, version: str) -> Event[AnyObject] | None:
        """The watch shows a deletion; `last` is the final object, if known. Returns None for an unknown object."""
        unfit = self.undecodable.pop(key, None)
        ahead = self._ahead.get(key)
        held = self._objects.get(key)
        observed = held if ahead is None else ahead.observed
        if ahead is not None and not ahead.deleted and compare(version, ahead.version) == -1:
            ahead.observed = None  # an earlier object of that name was deleted; the newer write is still ahead
        else:
            self._ahead.pop(key, None)
            if held is not None:
                self._unset(key, held)
        old = last if last is not None else observed
        if old is None:
            old = unfit
        if old is None:
            return None
        return Event(EventType.DELETED, key, old, None, undecodable=unfit is not None)

    def replace(
        self, objects: Iterable[AnyObject], undecodable: dict[Key, Document], version: str
    ) -> Iterator[Event[AnyObject]]:
        """A list replaces everything that the watch showed. Yields deletions first, then the rest in list order.

        An object at an already known version causes no event. The content changes in this call; the events are made
        while the caller iterates.
        """
        fresh = {key_of(obj): obj for obj in objects}
        before = {key: obj for key, obj in self._objects.items() if key not in self._ahead}
        for key, ahead in self._ahead.items():
            if ahead.observed is not None:
                before[key] = ahead.observed
        # Made by us and not shown by the watch yet. The watch may never show those that are gone by now.
        unseen = {
            key: self._objects[key]
            for key, ahead in self._ahead.items()
            if ahead.observed is None and not ahead.deleted
        }
        before_unfit = self.undecodable
        self._keep_ahead(fresh, version)
        # A list that has ours is the first to show it. One that has another of that name tells that ours is gone.
        before |= {
            key: obj
            for key, obj in unseen.items()
            if key not in self._ahead and (key not in fresh or uid_of(fresh[key]) != uid_of(obj))
        }
        visible = {key: obj for key, obj in fresh.items() if key not in self._ahead}
        for key, ahead in self._ahead.items():
            if not ahead.deleted:
                visible[key] = self._objects[key]
        self._rebuild(visible)
        self.undecodable = undecodable
        self.resource_version = version
        return self._changes(before, before_unfit, fresh, undecodable)

    def _keep_ahead(self, fresh: dict[Key, AnyObject], version: str) -> None:
        if compare(version, self.resource_version) == -1:
            # The storage of the server was replaced or went back. It may never reach the versions of before.
            self._ahead.clear()
        for key, ahead in list(self._ahead.items()):
            listed = fresh.get(key)
            if ahead.deleted:
                reached = listed is None or uid_of(listed) != ahead.uid
            else:
                reached = compare(version, ahead.version) is None or at_least(version, ahead.version)
            if reached:
                del self._ahead[key]
            else:
                ahead.observed = listed

    def _changes(
        self,
        before: dict[Key, AnyObject],
        before_unfit: dict[Key, Document],
        fresh: dict[Key, AnyObject],
        unfit: dict[Key, Document],
    ) -> Iterator[Event[AnyObject]]:
        for key, old in before.items():
            if key not in fresh and key not in unfit:
                yield Event(EventType.DELETED, key, old, None, last_known=True)
        for key, document in before_unfit.items():
            if key not in fresh and key not in unfit:
                yield Event(EventType.DELETED, key, document, None, last_known=True, undecodable=True)
        for key, obj in fresh.items():
            earlier = before.get(key)
            if not _same_version(earlier, obj):
                yield Event(EventType.ADDED if earlier is None else EventType.MODIFIED, key, earlier, obj)
        for key, document in unfit.items():
            if not _same_version(before_unfit.get(key), document):
                yield Event(EventType.ADDED, key, None, document, undecodable=True)

    # ------------------------------------------------------------------ our own writes

    def believe(self, obj: AnyObject) -> bool:
        """Show the answer of a write until the watch reaches it. False if the watch has already reached it."""
        key, version = key_of(obj), resource_version_of(obj)
        # Before the first list nothing is reached, and the list may be older than the answer.
        if self.resource_version and compare(self.resource_version, version) != -1:
            return False
        ahead = self._ahead.get(key)
        current = self._objects.get(key)
        if ahead is not None and not ahead.deleted and compare(ahead.version, version) != -1:
            return False
        # What is ahead was compared above: it is what the store shows.
        if ahead is None and current is not None and compare(resource_version_of(current), version) != -1:
            return False
        observed = ahead.observed if ahead is not None else current
        self._ahead[key] = _Ahead(version, uid_of(obj), deleted=False, observed=observed)
        self._set(key, current, obj)
        return True

    def believed(self, key: Key, version: str) -> AnyObject | None:
        """The answer of an own write that is ahead at this very version: what the watch is about to show."""
        ahead = self._ahead.get(key)
        return self._objects[key] if ahead is not None and not ahead.deleted and ahead.version == version else None

    def believe_deleted(self, key: Key, uid: str) -> bool:
        """Hide an object that was deleted, until the watch shows the deletion or a new object."""
        current = self._objects.get(key)
        if current is None or uid_of(current) != uid:
            return False
        ahead = self._ahead.get(key)
        observed = ahead.observed if ahead is not None else current
        self._unset(key, current)
        if observed is None:  # created and deleted before the watch saw either: both events are still to come
            observed = current
        self._ahead[key] = _Ahead("", uid_of(current), deleted=True, observed=observed)
        return True

    @property
    def ahead(self) -> int:
        """Number of keys that show an answer ahead of the watch."""
        return len(self._ahead)

    # ------------------------------------------------------------------ indexes

    def _set(self, key: Key, old: AnyObject | None, new: AnyObject) -> None:
        if old is new:
            return
        self._objects[key] = new
        if old is None:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        for name, function in self._functions.items():
            if old is not None:
                if self._values(name, function, key, old) == self._values(name, function, key, new):
                    continue
                self._unfile(name, function, key, old)
            self._file(name, function, key, new)

    def _unset(self, key: Key, old: AnyObject) -> None:
        del self._objects[key]
        keys = self._namespaces[key.namespace]
        del keys[key]
        if not keys:
            del self._namespaces[key.namespace]
        for name, function in self._functions.items():
            self._unfile(name, function, key, old)

    def _rebuild(self, objects: dict[Key, AnyObject]) -> None:
        self._objects = objects
        self._namespaces = {}
        for key in objects:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        for name, function in self._functions.items():
            self._indexes[name] = {}
            for key, obj in objects.items():
                self._file(name, function, key, obj)

    def _values(self, name: str, function: IndexFunction, key: Key, obj: AnyObject) -> Iterable[str]:
        try:
            return tuple(function(obj))
        except Exception:
            log.exception("index %s: its function raised an exception for %s; the object is not indexed", name, key)
            return ()

    def _file(self, name: str, function: IndexFunction, key: Key, obj: AnyObject) -> None:
        index = self._indexes[name]
        for value in self._values(name, function, key, obj):
            index.setdefault(value, {})[key] = None

    def _unfile(self, name: str, function: IndexFunction, key: Key, obj: AnyObject) -> None:
        index = self._indexes[name]
        for value in self._values(name, function, key, obj):
            keys = index.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]


def _same_version(a: AnyObject | None, b: AnyObject) -> bool:
    version = resource_version_of(b)
    return a is not None and bool(version) and resource_version_of(a) == version and uid_of(a) == uid_of(b)
