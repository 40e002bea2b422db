# SPDX-License-Identifier: Apache-2.0
"""Sources of keys: a cached kind, or anything else that can add keys to a queue. Predicates say which events count.

A predicate is a function from an event to whether it needs a reconcile. Those that compare versions of an object check
updates only; additions, deletions and generic events pass.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from trainwright.api.base import Resource
from trainwright.api.objects import (
    AnyObject,
    Key,
    annotations_of,
    controller_of,
    deletion_timestamp_of,
    generation_of,
    key_of,
    labels_of,
    namespace_of,
    owners_of,
    resource_version_of,
)
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.cache.store import Event, EventType
from trainwright.controller.runtime.selectors import parse_label_selector
from trainwright.controller.runtime.workqueue.queue import LOW_PRIORITY, WorkQueue

Predicate: TypeAlias = Callable[[Event[Any]], bool]


def _differs(read: Callable[[AnyObject], object]) -> Predicate:
    def predicate(event: Event[Any]) -> bool:
        if event.old is None or event.new is None:
            return True
        return read(event.old) != read(event.new)

    return predicate


def _spec_version(obj: AnyObject) -> tuple[int, bool]:
    return generation_of(obj), deletion_timestamp_of(obj) is not None


def _mapping(read: Callable[[AnyObject], Mapping[str, str]]) -> Callable[[AnyObject], object]:
    return lambda obj: dict(read(obj))


generation_changed: Predicate = _differs(_spec_version)
"""The spec has changed or deletion has begun. Drops updates of status or metadata. Only for kinds with a generation."""
labels_changed: Predicate = _differs(_mapping(labels_of))
annotations_changed: Predicate = _differs(_mapping(annotations_of))


def any_of(*predicates: Predicate) -> Predicate:
    return lambda event: any(predicate(event) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """True if all predicates are true; stops at the first that is false."""
    return lambda event: all(predicate(event) for predicate in predicates)


def labels_match(text: str) -> Predicate:
    """Whether the object (the new one of an update) matches. Raises ConfigurationError for an invalid selector."""
    selector = parse_label_selector(text)
    return lambda event: selector.matches(labels_of(event.obj))


Mapper: TypeAlias = Callable[[Any], Iterable[Key]]
"""Takes one object. For an update it is called with the old and with the new object."""


def own_key(obj: AnyObject) -> Iterable[Key]:
    return (key_of(obj),)


def keys_of_owner(resource: Resource, *, every: bool = False) -> Mapper:
    """The keys of the owners of this kind; only the controlling owner unless `every`. Ignores the API version."""

    kind, group, namespaced = resource.kind, resource.group, resource.namespaced

    def mapper(obj: AnyObject) -> Iterable[Key]:
        controller = None if every else controller_of(obj)
        owners = owners_of(obj) if every else (controller,) if controller is not None else ()
        return [
            Key(namespace_of(obj) if namespaced else "", reference.name)
            for reference in owners
            if reference.kind == kind and reference.group == group
        ]

    return mapper


def keys_of(event: Event[Any], mapper: Mapper) -> list[Key]:
    """All keys of an event, each once; those of the old object come first."""
    before = mapper(event.old) if event.old is not None else ()
    after = mapper(event.new) if event.new is not None else ()
    return list(dict.fromkeys((*before, *after)))


Wait: TypeAlias = Callable[[Event[Any]], float]
WAITED = "waited"
"""The reason of a reconcile whose event waited for company."""


class Source(Protocol):
    """Adds keys to a queue."""

    @property
    def name(self) -> str:
        """For logs and messages."""
        ...

    async def start(self, queue: WorkQueue[Key]) -> None:
        """Start to add keys; return when those of existing objects are added. Called once."""
        ...


@dataclass(slots=True)
class KindSource:
    """Changes of a cached kind, filtered and mapped."""

    informer: Informer
    mapper: Mapper
    controller: str
    predicates: tuple[Predicate, ...] = ()
    priority: int | None = None
    """None: LOW_PRIORITY for a first list and for updates without a new version, else 0."""
    undecodable: bool = False
    forget: Callable[[Key], None] = field(default=lambda _: None)
    """Called when an object of this kind is deleted."""
    wait: Wait | None = None
    """Seconds that the reconcile of an event may wait; None: none of them waits."""

    @property
    def name(self) -> str:
        """Plural and scope."""
        return f"{self.informer.resource.plural} ({self.informer.scope})"

    def attach(self, queue: WorkQueue[Key]) -> None:
        """Add the handler to the informer, which need not run yet; it is told of what is stored at once."""
        kind = self.informer.resource.kind
        reasons = {each: f"{kind} {each.lower()}" for each in EventType}

        def handle(event: Event[Any]) -> None:
            if event.type is EventType.DELETED:
                self.forget(event.key)
            if not all(predicate(event) for predicate in self.predicates):
                return
            priority = self.priority if self.priority is not None else _priority(event)
            reason, after = reasons[event.type], 0.0
            if self.wait is not None and (after := self.wait(event)) > 0:
                priority, reason = LOW_PRIORITY, WAITED
            for key in keys_of(event, self.mapper):
                queue.add(key, priority=priority, after=after, reason=reason)

        self.informer.add_handler(handle, controller=self.controller, undecodable=self.undecodable)

    async def start(self, queue: WorkQueue[Key]) -> None:
        """Add the keys of what is stored and of each change from now on; wait for the first list.

        Not earlier: the queue of a replica that does not lead would keep the keys of all that has changed, and been
        deleted, until it leads.
        """
        self.attach(queue)
        await self.informer.wait_synced()


def _priority(event: Event[Any]) -> int:
    if event.initial and event.type is EventType.ADDED:
        return LOW_PRIORITY
    if event.old is not None and event.new is not None:
        version = resource_version_of(event.old)
        if version and version == resource_version_of(event.new):
            return LOW_PRIORITY
    return 0


class Trigger:
    """A source for the program itself: `trigger(key)` queues a key. Predicates do not apply to it."""

    def __init__(self, name: str = "trigger") -> None:
        self.name = name
        self._queue: WorkQueue[Key] | None = None
        self._early: dict[Key, tuple[int, str]] = {}

    def __call__(self, key: Key, *, priority: int = 0, after: float = 0.0, reason: str = "") -> None:
        """Queue a key after `after` seconds. Before the controller starts: queue it at the start."""
        if self._queue is None:
            known, first = self._early.get(key, (priority, reason or self.name))
            self._early[key] = (max(known, priority), first)
        else:
            self._queue.add(key, priority=priority, after=after, reason=reason or self.name)

    async def start(self, queue: WorkQueue[Key]) -> None:
        """Queue the keys that came before the start."""
        self._queue = queue
        for key, (priority, reason) in self._early.items():
            queue.add(key, priority=priority, reason=reason)
        self._early.clear()
