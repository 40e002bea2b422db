# SPDX-License-Identifier: Apache-2.0
"""Runs the garbage collector: finds out which objects may have to go, decides, and carries the decision out.

Absent owners are looked up at the API server before anything is deleted, because a cache may be behind. Nothing is
decided until all kinds have had their first list: an owner in the foreground would not know of all its dependents.
"""

import asyncio
import logging
from collections import OrderedDict

from trainwright.api.base import Resource
from trainwright.api.objects import (
    AnyObject,
    Document,
    Key,
    finalizers_of,
    key_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from trainwright.api.rights import Rule
from trainwright.controller.local.controllers.base import ControllerBase, served_kinds
from trainwright.controller.local.controllers.garbage_graph import (
    GarbageDecision,
    Graph,
    GraphItem,
    OwnerState,
    decide,
    is_orphaning,
    is_waiting,
    references_of,
    without,
)
from trainwright.controller.local.controllers.objects import DEFINITION
from trainwright.controller.runtime import (
    Conflict,
    Event,
    Group,
    KubernetesError,
    Manager,
    MetadataOnly,
    NotFound,
    TaskScope,
    WorkQueue,
)

log = logging.getLogger(__name__)

WORKERS = 8
REFRESH_SECONDS = 30.0
"""How often the served kinds are looked up, beside after every change of a CRD."""
_ABSENT = 4096
"""Absent owners that are remembered. A uid is never used twice."""


class GarbageCollector(ControllerBase):
    """A runnable that declares its watches on the manager while it runs, since kinds come and go."""

    RULES = (Rule("*", "*", ("delete", "get", "list", "patch", "watch")),)
    REPORTER = "garbage-collector-controller"

    def declare(self, manager: Manager) -> None:
        """Have the manager run it."""
        self._graph = Graph(manager.cache, self._changed)
        self._queue: WorkQueue[GraphItem] = WorkQueue("garbage")
        self._absent: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._refresh = asyncio.Event()
        self._ready = asyncio.Event()
        definitions = manager.cache.informer(MetadataOnly(DEFINITION))
        definitions.add_handler(lambda _: self._refresh.set())
        manager.add(self, Group.LEADER, "garbage")

    # ------------------------------------------------------------------ life

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
                served = await served_kinds(self.client)
                self._graph.follow(kind for kind, verbs in served.items() if _is_collected(kind, verbs))
            except KubernetesError as error:
                log.warning("cannot look up the served kinds: %s", error)
            if not self._ready.is_set():
                await self._graph.wait_synced()
                self._ready.set()
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._refresh.wait()
            except TimeoutError:
                continue

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

    def _changed(self, resource: Resource, event: Event[AnyObject]) -> None:
        """Queue what a change concerns: the object itself, its dependents, its owners."""
        old, new = event.old, event.new
        if new is None:
            if old is not None:
                self._look_at_dependents(old)
                self._look_at_waiting_owners(old)
            return
        if is_waiting(new):
            if old is None or not is_waiting(old):
                self._look_at_dependents(new)
            self._queue.add(GraphItem(resource, event.key))
        elif is_orphaning(new):
            self._queue.add(GraphItem(resource, event.key))
        references = references_of(new)
        if old is not None and references_of(old) != references:
            self._look_at_waiting_owners(old)
        if any(self._is_doubtful(reference, namespace_of(new)) for reference in references):
            self._queue.add(GraphItem(resource, event.key))

    def _is_doubtful(self, reference: Document, namespace: str) -> bool:
        """Whether an owner is not known to be there to stay."""
        owner = self._graph.owner(reference, namespace)
        return owner is None or is_waiting(owner)

    def _look_at_dependents(self, owner: AnyObject) -> None:
        for resource, dependent in self._graph.dependents(uid_of(owner)):
            self._queue.add(GraphItem(resource, key_of(dependent)))

    def _look_at_waiting_owners(self, dependent: AnyObject) -> None:
        for reference in references_of(dependent):
            owner = self._graph.owner(reference, namespace_of(dependent))
            resource = self._graph.resource_of(reference)
            if owner is not None and resource is not None and is_waiting(owner):
                self._queue.add(GraphItem(resource, key_of(owner)))

    # ------------------------------------------------------------------ deciding

    async def _collect(self, item: GraphItem) -> None:
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
        dependents = self._graph.dependents(uid_of(obj))
        await self._carry_out(item, obj, decide(obj, owners, [d for _, d in dependents]), dependents)

    async def _state_of(self, item: GraphItem, obj: AnyObject, reference: Document) -> OwnerState | None:
        """The state of an owner; None if the reference is wrong, so that nothing may be done."""
        if _place(obj, reference) in self._absent:
            return OwnerState.ABSENT
        resource = self._graph.resource_of(reference)
        if resource is None:
            raise NotFound(
                f"the server has no {reference.get('kind')} in {reference.get('apiVersion')}",
                code=404,
                reason="NotFound",
            )
        if resource.namespaced and not item.resource.namespaced:
            self._report_wrong_namespace(obj, reference)
            return None
        owner = self._graph.owner(reference, namespace_of(obj))
        if owner is None:
            namespace = namespace_of(obj) if resource.namespaced else ""
            try:
                owner = await self.client.get(MetadataOnly(resource), str(reference.get("name")), namespace)
            except NotFound:
                owner = None
            if owner is None or uid_of(owner) != reference.get("uid"):
                self._remember_absent(obj, reference)
                return OwnerState.ABSENT
        return OwnerState.WAITING if is_waiting(owner) else OwnerState.SOLID

    def _remember_absent(self, obj: AnyObject, reference: Document) -> None:
        self._absent[_place(obj, reference)] = None
        if len(self._absent) > _ABSENT:
            self._absent.popitem(last=False)
        if self._is_elsewhere(obj, reference):
            self._report_wrong_namespace(obj, reference)

    def _is_elsewhere(self, obj: AnyObject, reference: Document) -> bool:
        """Whether an object with the uid of the owner is in another namespace."""
        resource = self._graph.resource_of(reference)
        if resource is None or not resource.namespaced:
            return False
        return any(
            uid_of(owner) == reference.get("uid") and namespace_of(owner) != namespace_of(obj)
            for owner in self._graph.all(resource)
        )

    def _report_wrong_namespace(self, obj: AnyObject, reference: Document) -> None:
        namespace = namespace_of(obj)
        owner = (
            f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace},"
            f" name: {reference.get('name')}, uid: {reference.get('uid')}]"
        )
        note = f'ownerRef {owner} does not exist in namespace "{namespace}"'
        self.recorder.event(obj, "Warning", "OwnerRefInvalidNamespace", note)

    # ------------------------------------------------------------------ carrying out

    async def _carry_out(
        self, item: GraphItem, obj: AnyObject, decision: GarbageDecision, dependents: list[tuple[Resource, AnyObject]]
    ) -> None:
        kinds = {uid_of(dependent): resource for resource, dependent in dependents}
        for dependent in decision.look_at:
            self._queue.add(GraphItem(kinds[uid_of(dependent)], key_of(dependent)))
        try:
            if decision.references is not None:
                obj = await self._patch(item.resource, obj, {"ownerReferences": decision.references})
            for dependent in decision.orphans:
                references = without(dependent, {uid_of(obj)})
                await self._patch(kinds[uid_of(dependent)], dependent, {"ownerReferences": references})
            if decision.remove_finalizer:
                left = [finalizer for finalizer in finalizers_of(obj) if finalizer != decision.remove_finalizer]
                await self._patch(item.resource, obj, {"finalizers": left})
            if decision.delete is not None:
                log.info("%s %s: deleted, because its owners are gone", item.resource.kind, item.key)
                await self.client.delete(
                    item.resource,
                    name_of(obj),
                    namespace_of(obj),
                    uid=uid_of(obj),
                    resource_version=resource_version_of(obj),
                    propagation=decision.delete,
                )
        except NotFound:
            return  # already gone; the event of its deletion brings what follows

    async def _patch(self, resource: Resource, obj: AnyObject, metadata: Document) -> AnyObject:
        """Change metadata of the object as it was decided on. Raises Conflict if it has changed."""
        lock: Document = {"uid": uid_of(obj), "resourceVersion": resource_version_of(obj)}
        key = Key(namespace_of(obj) if resource.namespaced else "", name_of(obj))
        patch = {"metadata": {**lock, **metadata}}
        return await self.client.patch(MetadataOnly(resource), key.name, key.namespace, patch)


def _is_collected(kind: Resource, verbs: frozenset[str]) -> bool:
    """Events have owners in name only, and go by their age."""
    return {"list", "watch", "delete"} <= verbs and kind.plural != "events"


def _place(obj: AnyObject, reference: Document) -> tuple[str, ...]:
    """Where an object looks for an owner. The uid alone would not do: it may exist in another namespace."""
    return (namespace_of(obj), *(str(reference.get(part)) for part in ("apiVersion", "kind", "name", "uid")))
