# SPDX-License-Identifier: Apache-2.0
"""Who owns whom, and what becomes of an object given its owners and its dependents.

A kind that another controller caches as documents is read from that cache; of every other kind only the metadata is
cached. An index by the uids of the owners finds dependents.

Source: the garbage collector of Kubernetes 1.36.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, Key, deletion_timestamp_of, finalizers_of, uid_of
from trainwright.controller.runtime import Cache, Event, Informer, MetadataOnly, NotCached, Subscription

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def references_of(obj: AnyObject) -> list[Document]:
    """`metadata.ownerReferences` in wire form."""
    if isinstance(obj, dict):
        return list((obj.get("metadata") or {}).get("ownerReferences") or ())
    metadata: Any = obj.metadata
    return [msgspec.to_builtins(one) for one in (metadata.owner_references if metadata is not None else None) or ()]


def owner_uids(obj: AnyObject) -> Iterable[str]:
    """The uids of all owners; the index of dependents."""
    return [str(reference.get("uid")) for reference in references_of(obj)]


def group_of(reference: Document) -> str:
    """The API group of an owner. Its version is not looked at: another one may be served by now."""
    return str(reference.get("apiVersion") or "").rpartition("/")[0]


def is_waiting(obj: AnyObject) -> bool:
    """Whether the object is being deleted and waits for its dependents."""
    return deletion_timestamp_of(obj) is not None and FOREGROUND in finalizers_of(obj)


def is_orphaning(obj: AnyObject) -> bool:
    """Whether the object is being deleted and gives up its dependents."""
    return deletion_timestamp_of(obj) is not None and ORPHAN in finalizers_of(obj)


def blocks(obj: AnyObject, owner: str) -> bool:
    """Whether the object holds up the deletion of the owner with this uid."""
    return any(r.get("uid") == owner and r.get("blockOwnerDeletion") for r in references_of(obj))


def without(obj: AnyObject, owners: Collection[str]) -> list[Document]:
    """The references of the object but for those to the owners with these uids."""
    return [reference for reference in references_of(obj) if reference.get("uid") not in owners]


class OwnerState(Enum):
    """The state of one owner."""

    SOLID = "solid"
    """It exists."""
    WAITING = "waiting"
    """It is being deleted and waits for its dependents."""
    ABSENT = "absent"
    """No object has its uid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageDecision:
    """What to do, in the order of the fields."""

    references: list[Document] | None = None
    """The owner references that the object has from now on; None: no change."""
    orphans: Sequence[AnyObject] = ()
    """Dependents that lose their reference to the object."""
    look_at: Sequence[AnyObject] = ()
    """Dependents to decide on now."""
    remove_finalizer: str = ""
    delete: Literal["Background", "Foreground", "Orphan"] | None = None


NOTHING = GarbageDecision()


def decide(obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[AnyObject]) -> GarbageDecision:
    """Decide on one object.

    Args:
        obj: the object.
        owners: by uid, the state of each owner; not needed for an object that is being deleted.
        dependents: all objects that name it as an owner.
    """
    if is_orphaning(obj):
        return GarbageDecision(orphans=dependents, remove_finalizer=ORPHAN)
    if is_waiting(obj):
        blocking = [dependent for dependent in dependents if blocks(dependent, uid_of(obj))]
        if not blocking:
            return GarbageDecision(remove_finalizer=FOREGROUND)
        return GarbageDecision(look_at=[dependent for dependent in blocking if not is_waiting(dependent)])
    if deletion_timestamp_of(obj) is not None or not owners:
        return NOTHING
    return _by_owners(obj, owners, dependents)


def _by_owners(obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[AnyObject]) -> GarbageDecision:
    if OwnerState.SOLID in owners.values():
        gone = [uid for uid, state in owners.items() if state is not OwnerState.SOLID]
        return GarbageDecision(references=without(obj, gone)) if gone else NOTHING
    if OwnerState.WAITING in owners.values() and dependents:
        # A dependent that waits as well may be an owner of this object further up. So that a circle ends, this object
        # holds up no owner.
        circle = any(is_waiting(dependent) for dependent in dependents)
        return GarbageDecision(references=_unblocked(obj) if circle else None, delete="Foreground")
    finalizers = finalizers_of(obj)
    policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    return GarbageDecision(delete=policy)  # type: ignore[arg-type]  # one of the three


def _unblocked(obj: AnyObject) -> list[Document]:
    return [{**reference, "blockOwnerDeletion": False} for reference in references_of(obj)]


_OWNERS = "owner-uid"
SYNC_SECONDS = 30.0
"""How long the first list of a kind is waited for, as by the real collector. A kind that cannot be listed, since its
conversion webhook is down, must not hold up all others."""


class GraphItem(NamedTuple):
    """An object to look at."""

    resource: Resource
    key: Key


class Graph:
    """The objects of all kinds and their owners."""

    def __init__(self, cache: Cache, changed: Callable[[Resource, Event[AnyObject]], None]) -> None:
        """`changed` is called for every change of an object."""
        self._cache, self._changed = cache, changed
        self._informers: dict[Resource, Informer] = {}
        self._subscriptions: dict[Resource, Subscription] = {}
        self._made: set[Resource] = set()
        self._waited_for: dict[Resource, float] = {}
        """Until when, by the clock of the event loop."""

    def follow(self, resources: Iterable[Resource]) -> None:
        """Watch these kinds from now on, and no others."""
        wanted = dict.fromkeys(resources)
        for resource in list(self._informers):
            if resource not in wanted:
                self._leave(resource)
        for resource in wanted:
            if resource not in self._informers:
                self._join(resource)

    async def wait_synced(self) -> None:
        """Wait for the first lists of all kinds, for a while."""
        for resource, informer in list(self._informers.items()):
            if not informer.synced and resource in self._waited_for:
                with suppress(TimeoutError, NotCached):
                    async with asyncio.timeout_at(self._waited_for[resource]):
                        await informer.wait_synced()

    @property
    def synced(self) -> bool:
        """Whether all kinds have had their first list, or enough time for it."""
        now = asyncio.get_running_loop().time()
        return all(one.synced or self._waited_for[resource] <= now for resource, one in self._informers.items())

    def get(self, item: GraphItem) -> AnyObject | None:
        """An object; None if it does not exist or its kind is not served any more."""
        informer = self._informers.get(item.resource)
        return informer.store.get(item.key) if informer is not None else None

    def all(self, resource: Resource) -> Iterable[AnyObject]:
        """All objects of a kind."""
        informer = self._informers.get(resource)
        return informer.store.list() if informer is not None else ()

    def resource_of(self, reference: Document) -> Resource | None:
        """The kind of an owner; None if it is not served."""
        group, kind = group_of(reference), reference.get("kind")
        return next((r for r in self._informers if r.kind == kind and r.group == group), None)

    def owner(self, reference: Document, namespace: str) -> AnyObject | None:
        """The owner, if the cache has it. It may exist although the cache has not seen it."""
        resource = self.resource_of(reference)
        if resource is None:
            return None
        key = Key(namespace if resource.namespaced else "", str(reference.get("name")))
        found = self.get(GraphItem(resource, key))
        return found if found is not None and uid_of(found) == reference.get("uid") else None

    def dependents(self, uid: str) -> list[tuple[Resource, AnyObject]]:
        """All objects that name this uid as an owner, with their kinds."""
        return [
            (resource, obj)
            for resource, informer in self._informers.items()
            for obj in informer.store.indexed(_OWNERS, uid)
        ]

    def _join(self, resource: Resource) -> None:
        declared = [i for i in self._cache.declared(resource) if not (i.scope.label_selector or i.scope.field_selector)]
        if not declared:
            self._made.add(resource)
        informer = declared[0] if declared else self._cache.informer(MetadataOnly(resource))
        informer.add_index(_OWNERS, owner_uids)
        self._informers[resource] = informer
        self._waited_for[resource] = asyncio.get_running_loop().time() + SYNC_SECONDS
        self._subscriptions[resource] = informer.add_handler(lambda event: self._changed(resource, event))

    def _leave(self, resource: Resource) -> None:
        self._subscriptions.pop(resource).remove()
        informer = self._informers.pop(resource)
        del self._waited_for[resource]
        if resource in self._made:
            self._made.discard(resource)
            self._cache.remove(informer)
