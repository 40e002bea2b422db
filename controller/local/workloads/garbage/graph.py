# SPDX-License-Identifier: Apache-2.0
"""Who owns whom: reads of the caches of all kinds.

A kind that another controller caches as documents is read from that cache; of every other kind only the metadata is
cached. An index by the uids of the owners finds dependents.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, Key, uid_of
from trainwright.controller.local.workloads.garbage.references import group_of, owner_uids
from trainwright.controller.runtime import Cache, Event, Informer, MetadataOnly, Subscription

_OWNERS = "owner-uid"


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
        """Wait for the first lists of all kinds."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    @property
    def synced(self) -> bool:
        """Whether all kinds have had their first list."""
        return all(informer.synced for informer in self._informers.values())

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
        self._subscriptions[resource] = informer.add_handler(lambda event: self._changed(resource, event))

    def _leave(self, resource: Resource) -> None:
        self._subscriptions.pop(resource).remove()
        informer = self._informers.pop(resource)
        if resource in self._made:
            self._made.discard(resource)
            self._cache.remove(informer)
