# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: who owns whom, what becomes of an object given its owners and dependents, and the collector.

A kind that another controller caches as documents is read from that cache; of every other kind only the metadata is
cached. An index by the uids of the owners finds dependents. Absent owners are looked up at the API server before
anything is deleted, because a cache may be behind. Nothing is decided until all kinds have had their first list: an
owner in the foreground would not know of all its dependents.

Source: the garbage collector of Kubernetes 1.36.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import (
    AnyObject,
    Document,
    Key,
    deletion_timestamp_of,
    finalizers_of,
    key_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from trainwright.controller.local.controllers.base import ControllerBase, Plan, PlannedWrite
from trainwright.controller.runtime import Conflict, Discovery, Event, KubernetesError, Manager, MetadataOnly, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.informer import Informer, Subscription
from trainwright.controller.runtime.errors import NotCached
from trainwright.controller.runtime.kinds import DEFINITION
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.workqueue.queue import WorkQueue

log = logging.getLogger(__name__)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
WORKERS = 8
REFRESH_SECONDS = 30.0
"""How often the served kinds are looked up, beside after every change of a CRD."""
SYNC_SECONDS = 30.0
"""How long the first list of a kind is waited for, as by the real collector. A kind that cannot be listed, since its
conversion webhook is down, must not hold up all others."""
_ABSENT = 4096
"""Absent owners that are remembered. A uid is never used twice."""
_OWNERS = "owner-uid"


def references_of(obj: AnyObject) -> list[Document]:
    """`metadata.ownerReferences` in wire form."""
    if isinstance(obj, dict):
        return list((obj.get("metadata") or {}).get("ownerReferences") or ())
    metadata: Any = obj.metadata
    return [msgspec.to_builtins(one) for one in (metadata.owner_references if metadata is not None else None) or ()]


def is_waiting(obj: AnyObject) -> bool:
    """Whether the object is being deleted and waits for its dependents."""
    return deletion_timestamp_of(obj) is not None and FOREGROUND in finalizers_of(obj)


def is_orphaning(obj: AnyObject) -> bool:
    """Whether the object is being deleted and gives up its dependents."""
    return deletion_timestamp_of(obj) is not None and ORPHAN in finalizers_of(obj)


class OwnerState(Enum):
    SOLID = "solid"
    """It exists."""
    WAITING = "waiting"
    """It is being deleted and waits for its dependents."""
    ABSENT = "absent"
    """No object has its uid."""


class Item(NamedTuple):
    resource: Resource
    key: Key


Dependent = tuple[Resource, AnyObject]
"""An object that names another as its owner, with its kind."""


@dataclass(slots=True, kw_only=True)
class GarbagePlan(Plan):
    look_at: list[Item] = field(default_factory=list)
    """Dependents to decide on now."""


def plan(
    resource: Resource, obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[Dependent]
) -> GarbagePlan:
    """Decide on one object by its dependents, and by the state of each owner (by uid) unless it is being deleted."""
    uid = uid_of(obj)
    if is_orphaning(obj):
        given_up = [_with_references(kind, one, _without(one, {uid})) for kind, one in dependents]
        return GarbagePlan(writes=[*given_up, _released(resource, obj, ORPHAN)])
    if is_waiting(obj):
        blocking = [(kind, one) for kind, one in dependents if _blocks(one, uid)]
        if not blocking:
            return GarbagePlan(writes=[_released(resource, obj, FOREGROUND)])
        return GarbagePlan(look_at=[Item(kind, key_of(one)) for kind, one in blocking if not is_waiting(one)])
    if deletion_timestamp_of(obj) is not None or not owners:
        return GarbagePlan()
    return GarbagePlan(writes=_writes_by_owners(resource, obj, owners, dependents))


def _writes_by_owners(
    resource: Resource, obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[Dependent]
) -> list[PlannedWrite]:
    if OwnerState.SOLID in owners.values():
        gone = [owner for owner, state in owners.items() if state is not OwnerState.SOLID]
        return [_with_references(resource, obj, _without(obj, gone))] if gone else []
    if OwnerState.WAITING in owners.values() and dependents:
        references = references_of(obj)
        circle = any(is_waiting(dependent) for _, dependent in dependents)
        if circle and any(reference.get("blockOwnerDeletion") for reference in references):
            # A dependent that waits as well may be an owner of this object further up. So that a circle ends, this
            # object holds up no owner. This changes it, and the next look deletes it.
            unblocked = [{**reference, "blockOwnerDeletion": False} for reference in references]
            return [_with_references(resource, obj, unblocked)]
        return [_deleted(resource, obj, "Foreground")]
    finalizers = finalizers_of(obj)
    policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    return [_deleted(resource, obj, policy)]  # type: ignore[arg-type]  # one of the three


def _blocks(obj: AnyObject, owner: str) -> bool:
    """Whether the object holds up the deletion of the owner with this uid."""
    return any(r.get("uid") == owner and r.get("blockOwnerDeletion") for r in references_of(obj))


def _without(obj: AnyObject, owners: Collection[str]) -> list[Document]:
    return [reference for reference in references_of(obj) if reference.get("uid") not in owners]


def _with_references(resource: Resource, obj: AnyObject, references: list[Document]) -> PlannedWrite:
    return _patched(resource, obj, {"ownerReferences": references})


def _released(resource: Resource, obj: AnyObject, finalizer: str) -> PlannedWrite:
    return _patched(resource, obj, {"finalizers": [one for one in finalizers_of(obj) if one != finalizer]})


def _patched(resource: Resource, obj: AnyObject, metadata: Document) -> PlannedWrite:
    """Change metadata of the object as it was decided on: Conflict if it has changed."""
    lock = {"uid": uid_of(obj), "resourceVersion": resource_version_of(obj)}
    body = {"metadata": {**lock, **metadata}}
    kind = MetadataOnly(resource)
    return PlannedWrite(verb="patch", kind=kind, obj=_named(obj), body=body, tolerate=NotFound)


def _deleted(resource: Resource, obj: AnyObject, policy: Literal["Background", "Foreground", "Orphan"]) -> PlannedWrite:
    options = {"propagation": policy, "resource_version": resource_version_of(obj)}
    return PlannedWrite(verb="delete", kind=resource, obj=_named(obj), options=options)


def _named(obj: AnyObject) -> Document:
    return {"metadata": {"name": name_of(obj), "namespace": namespace_of(obj), "uid": uid_of(obj)}}


@dataclass(slots=True)
class _Followed:
    """A kind that is watched."""

    informer: Informer
    subscription: Subscription
    is_ours: bool
    """Whether nobody else reads the informer."""
    waited_until: float
    """By the clock of the event loop, for the first list."""


class Graph:
    """The objects of all kinds and their owners."""

    def __init__(self, cache: Cache, changed: Callable[[Resource, Event[AnyObject]], None]) -> None:
        """`changed` is called for every change of an object."""
        self._cache, self._changed = cache, changed
        self._followed: dict[Resource, _Followed] = {}

    def follow(self, resources: Iterable[Resource]) -> None:
        """Watch these kinds from now on, and no others."""
        wanted = dict.fromkeys(resources)
        for resource in [one for one in self._followed if one not in wanted]:
            left = self._followed.pop(resource)
            left.subscription.remove()
            if left.is_ours:
                self._cache.remove(left.informer)
        for resource in wanted:
            if resource not in self._followed:
                self._join(resource)

    def _join(self, resource: Resource) -> None:
        declared = [i for i in self._cache.declared(resource) if not (i.scope.label_selector or i.scope.field_selector)]
        informer = declared[0] if declared else self._cache.informer(MetadataOnly(resource))
        informer.add_index(_OWNERS, lambda obj: [str(reference.get("uid")) for reference in references_of(obj)])
        subscription = informer.add_handler(lambda event: self._changed(resource, event))
        until = asyncio.get_running_loop().time() + SYNC_SECONDS
        self._followed[resource] = _Followed(informer, subscription, not declared, until)

    async def wait_synced(self) -> None:
        """Wait for the first lists of all kinds, for a while."""
        for one in list(self._followed.values()):
            if not one.informer.synced:
                with suppress(TimeoutError, NotCached):
                    async with asyncio.timeout_at(one.waited_until):
                        await one.informer.wait_synced()

    @property
    def synced(self) -> bool:
        """Whether all kinds have had their first list, or enough time for it."""
        now = asyncio.get_running_loop().time()
        return all(one.informer.synced or one.waited_until <= now for one in self._followed.values())

    def get(self, item: Item) -> AnyObject | None:
        """An object; None if it does not exist or its kind is not served any more."""
        followed = self._followed.get(item.resource)
        return followed.informer.store.get(item.key) if followed is not None else None

    def all(self, resource: Resource) -> Iterable[AnyObject]:
        followed = self._followed.get(resource)
        return followed.informer.store.list() if followed is not None else ()

    def resource_of(self, reference: Document) -> Resource | None:
        """The kind of an owner, whatever its version: another one may be served by now. None if it is not served."""
        group, kind = str(reference.get("apiVersion") or "").rpartition("/")[0], reference.get("kind")
        return next((r for r in self._followed if r.kind == kind and r.group == group), None)

    def owner(self, reference: Document, namespace: str) -> AnyObject | None:
        """The owner, if the cache has it. It may exist although the cache has not seen it."""
        resource = self.resource_of(reference)
        if resource is None:
            return None
        found = self.get(Item(resource, Key(namespace if resource.namespaced else "", str(reference.get("name")))))
        return found if found is not None and uid_of(found) == reference.get("uid") else None

    def dependents(self, uid: str) -> list[Dependent]:
        followed = self._followed.items()
        return [(resource, obj) for resource, one in followed for obj in one.informer.store.indexed(_OWNERS, uid)]


class GarbageCollector(ControllerBase):
    """A runnable that declares its watches on the manager while it runs, since kinds come and go."""

    REPORTER = "garbage-collector-controller"

    def declare(self, manager: Manager) -> None:
        self._graph = Graph(manager.cache, self._look_around)
        self._queue: WorkQueue[Item] = WorkQueue("garbage")
        self._absent: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._refresh = asyncio.Event()
        self._ready = asyncio.Event()
        manager.cache.informer(MetadataOnly(DEFINITION)).add_handler(lambda _: self._refresh.set())
        manager.add(self, Group.LEADER, "garbage")

    async def run(self) -> None:
        """Collect until cancelled or until `request_stop`."""
        async with TaskScope("garbage") as tasks:
            tasks.start("garbage/kinds", self._follow_kinds())
            await self._ready.wait()
            workers = [tasks.start(f"garbage/{number}", self._work()) for number in range(WORKERS)]
            for worker in workers:
                await worker

    def request_stop(self) -> None:
        """Finish what was begun, then return from `run`."""
        self._queue.shut_down()
        self._ready.set()

    async def _follow_kinds(self) -> None:
        while True:
            self._refresh.clear()
            try:
                served = await Discovery(self.client).served()
                collected = [kind for kind, one in served.items() if {"list", "watch", "delete"} <= {*one["verbs"]}]
                # Events have owners in name only, and go by their age.
                self._graph.follow(kind for kind in collected if kind.plural != "events")
            except KubernetesError as error:
                log.warning("cannot look up the served kinds: %s", error)
            if not self._ready.is_set():
                await self._graph.wait_synced()
                self._ready.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._refresh.wait()

    async def _work(self) -> None:
        while True:
            async with self._queue.take() as item:
                if item is None:
                    return
                try:
                    await self._collect(item.key)
                except Conflict:
                    self._queue.add_rate_limited(item.key, reason="changed meanwhile")
                except KubernetesError as error:
                    delay = self._queue.add_rate_limited(item.key, reason=type(error).__name__)
                    log.info("%s %s: %s; retry in %.3g s", item.key.resource.kind, item.key.key, error, delay)
                else:
                    self._queue.forget(item.key)

    # ------------------------------------------------------------------ what may have to go

    def _look_around(self, resource: Resource, event: Event[AnyObject]) -> None:
        """Queue what a change concerns: the object itself, its dependents, its owners."""
        old, new = event.old, event.new
        if new is None:
            if old is not None:
                self._look_at_dependents(old)
                self._look_at_waiting_owners(old)
            return
        if is_waiting(new) and (old is None or not is_waiting(old)):
            self._look_at_dependents(new)
        references = references_of(new)
        if old is not None and references_of(old) != references:
            self._look_at_waiting_owners(old)
        owners = [self._graph.owner(reference, namespace_of(new)) for reference in references]
        if is_waiting(new) or is_orphaning(new) or any(owner is None or is_waiting(owner) for owner in owners):
            self._queue.add(Item(resource, event.key))

    def _look_at_dependents(self, owner: AnyObject) -> None:
        for resource, dependent in self._graph.dependents(uid_of(owner)):
            self._queue.add(Item(resource, key_of(dependent)))

    def _look_at_waiting_owners(self, dependent: AnyObject) -> None:
        for reference in references_of(dependent):
            owner = self._graph.owner(reference, namespace_of(dependent))
            resource = self._graph.resource_of(reference)
            if owner is not None and resource is not None and is_waiting(owner):
                self._queue.add(Item(resource, key_of(owner)))

    # ------------------------------------------------------------------ deciding

    async def _collect(self, item: Item) -> None:
        if not self._graph.synced:
            # A kind that has just come: its objects may be dependents.
            await self._graph.wait_synced()
        obj = self._graph.get(item)
        if obj is None:
            return
        owners: dict[str, OwnerState] = {}
        for reference in references_of(obj):
            state = await self._state_of(item, obj, reference)
            if state is None:
                return
            owners[str(reference.get("uid"))] = state
        found = plan(item.resource, obj, owners, self._graph.dependents(uid_of(obj)))
        for dependent in found.look_at:
            self._queue.add(dependent)
        if found.of("delete"):
            log.info("%s %s: deleted, because its owners are gone", item.resource.kind, item.key)
        await self.make(found.writes)

    async def _state_of(self, item: Item, obj: AnyObject, reference: Document) -> OwnerState | None:
        """The state of an owner; None if the reference is wrong, so that nothing may be done."""
        # The uid alone would not do: it may exist in another namespace.
        place = (namespace_of(obj), *(str(reference.get(part)) for part in ("apiVersion", "kind", "name", "uid")))
        if place in self._absent:
            return OwnerState.ABSENT
        resource = self._graph.resource_of(reference)
        if resource is None:
            text = f"the server has no {reference.get('kind')} in {reference.get('apiVersion')}"
            raise NotFound(text, code=404, reason="NotFound")
        if resource.namespaced and not item.resource.namespaced:
            self._report_wrong_namespace(obj, reference)
            return None
        owner = self._graph.owner(reference, namespace_of(obj))
        if owner is None:
            namespace = namespace_of(obj) if resource.namespaced else ""
            with suppress(NotFound):
                owner = await self.client.get(MetadataOnly(resource), str(reference.get("name")), namespace)
            if owner is None or uid_of(owner) != reference.get("uid"):
                self._absent[place] = None
                if len(self._absent) > _ABSENT:
                    self._absent.popitem(last=False)
                if resource.namespaced and self._is_elsewhere(resource, reference, namespace):
                    self._report_wrong_namespace(obj, reference)
                return OwnerState.ABSENT
        return OwnerState.WAITING if is_waiting(owner) else OwnerState.SOLID

    def _is_elsewhere(self, resource: Resource, reference: Document, namespace: str) -> bool:
        """Whether an object with the uid of the owner is in another namespace."""
        owners = [one for one in self._graph.all(resource) if uid_of(one) == reference.get("uid")]
        return any(namespace_of(one) != namespace for one in owners)

    def _report_wrong_namespace(self, obj: AnyObject, reference: Document) -> None:
        namespace = namespace_of(obj)
        owner = (
            f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace},"
            f" name: {reference.get('name')}, uid: {reference.get('uid')}]"
        )
        note = f'ownerRef {owner} does not exist in namespace "{namespace}"'
        self.recorder.event(obj, "Warning", "OwnerRefInvalidNamespace", note)
