# SPDX-License-Identifier: Apache-2.0
"""Reconciles namespaces that are being deleted.

Pods go first, and everything else when no pod is left: a pod must not see its configuration vanish.
"""

from trainwright.api.base import Resource
from trainwright.api.objects import Document, Key, deletion_timestamp_of, name_of, resource_version_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.workloads.documents import spec_of, status_of
from trainwright.controller.local.workloads.kinds import NAMESPACE, POD
from trainwright.controller.local.workloads.namespaces.conditions import Content, conditions
from trainwright.controller.local.workloads.served import Served, served_kinds
from trainwright.controller.local.workloads.writes import write_status
from trainwright.controller.runtime import ApiError, Manager, MetadataOnly, NotFound, Result, RetryAfter

NAME = "namespace"
FINALIZER = "kubernetes"
AGAIN_SECONDS = 1.0
"""How long content that is being deleted is waited for. Not every kind is watched, so the next look is by time."""


class NamespaceController:
    """Reconciles namespaces. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(NAMESPACE, *WATCH),
        Rule.on(NAMESPACE, "patch", subresource="status"),
        Rule.on(NAMESPACE, "update", subresource="finalize"),
        Rule("*", "*", ("delete", "deletecollection", "list")),
    )

    def __init__(self, manager: Manager, *, now: Now = wall_clock, again: float = AGAIN_SECONDS) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            now: for transition times.
            again: seconds between two looks at a namespace with content.
        """
        self._client, self._cache, self._now, self._again = manager.client, manager.cache, now, again
        manager.controller(NAME).for_(NAMESPACE).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one namespace."""
        namespace = self._cache.get(NAMESPACE, key.name)
        if namespace is None or deletion_timestamp_of(namespace) is None:
            return None
        if FINALIZER not in (spec_of(namespace).get("finalizers") or ()):
            return None
        content = await self._delete_content(key.name)
        status = {
            **status_of(namespace),
            "phase": "Terminating",
            "conditions": conditions(namespace, content, self._now()),
        }
        try:
            namespace = await write_status(self._client, NAMESPACE, namespace, status)
            if not content.is_empty:
                return RetryAfter(self._again, reason="content is left")
            await self._finalize(namespace)
        except NotFound:
            return None
        return None

    async def _delete_content(self, namespace: str) -> Content:
        content = Content()
        try:
            kinds = await served_kinds(self._client)
        except ApiError as error:
            content.undiscovered = error.message
            return content
        ours = [kind for kind in kinds if kind.resource.namespaced and "delete" in kind.verbs]
        pods = [kind for kind in ours if kind.resource == POD]
        for part in (pods, [kind for kind in ours if kind not in pods]):
            for kind in part:
                await self._delete_kind(kind, namespace, content)
            if not content.is_empty:
                break
        return content

    async def _delete_kind(self, kind: Served, namespace: str, content: Content) -> None:
        resource = kind.resource
        try:
            if not await self._finalizers(kind, namespace):
                return
            if "deletecollection" in kind.verbs:
                await self._client.delete_collection(resource, namespace, propagation="Background")
            else:
                await self._delete_each(resource, namespace)
            content.add(resource, await self._finalizers(kind, namespace))
        except ApiError as error:
            content.failures.append(error.message)

    async def _finalizers(self, kind: Served, namespace: str) -> list[tuple[str, ...]]:
        """The finalizers of each object of a kind that is left."""
        if "list" not in kind.verbs:
            return []
        found = await self._client.list(MetadataOnly(kind.resource), namespace)
        return [tuple((obj.metadata.finalizers if obj.metadata else None) or ()) for obj in found.items]

    async def _delete_each(self, resource: Resource, namespace: str) -> None:
        for obj in (await self._client.list(MetadataOnly(resource), namespace)).items:
            try:
                await self._client.delete(resource, name_of(obj), namespace, propagation="Background")
            except NotFound:
                continue

    async def _finalize(self, namespace: Document) -> None:
        lock = {"name": name_of(namespace), "uid": uid_of(namespace), "resourceVersion": resource_version_of(namespace)}
        left = [finalizer for finalizer in spec_of(namespace).get("finalizers") or () if finalizer != FINALIZER]
        document = {"metadata": lock, "spec": {"finalizers": left}}
        await self._client.update(document, kind=NAMESPACE, subresource="finalize")
