# SPDX-License-Identifier: Apache-2.0
"""Reconciles namespaces that are being deleted.

Pods go first, and everything else when no pod is left: a pod must not see its configuration vanish.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.base import Resource
from trainwright.api.conditions import find, set_condition
from trainwright.api.objects import (
    Document,
    Key,
    conditions_of,
    deletion_timestamp_of,
    name_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.controllers.base import Served, served_kinds, write_status
from trainwright.controller.local.controllers.objects import NAMESPACE, POD
from trainwright.controller.runtime import ApiError, Manager, MetadataOnly, NotFound, Result, RetryAfter

_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass
class Content:
    """What is left in a namespace after an attempt to delete everything."""

    left: Counter[Resource] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    """How many of the objects that are left have each finalizer."""
    failures: list[str] = field(default_factory=list)
    """Why kinds could not be deleted."""
    undiscovered: str = ""
    """Why the served kinds are not known."""

    @property
    def is_empty(self) -> bool:
        """Whether the namespace can go."""
        return not (self.left or self.failures or self.undiscovered)

    def add(self, resource: Resource, finalizers: Iterable[tuple[str, ...]]) -> None:
        """Count the objects of one kind that are left, by their finalizers."""
        for found in finalizers:
            self.left[resource] += 1
            self.finalizers.update(found)


def conditions(namespace: Document, content: Content, now: datetime) -> list[Document]:
    """All conditions of the namespace."""
    true = dict(_true(content))
    result = conditions_of(namespace)
    for type_, fine in _FINE.items():
        reason, message = true.get(type_, fine)
        status = "True" if type_ in true else "False"
        wanted = {"type": type_, "status": status, "reason": reason, "message": message}
        current = find(result, type_)
        if current is None or any(current.get(name) != value for name, value in wanted.items()):
            result = set_condition(result, wanted, now=lambda: now)
    return result


def _true(content: Content) -> Iterable[tuple[str, tuple[str, str]]]:
    if content.undiscovered:
        yield "NamespaceDeletionDiscoveryFailure", ("DiscoveryFailed", content.undiscovered)
    if content.failures:
        failures = ", ".join(sorted(content.failures))
        message = f"Failed to delete all resource types, {len(content.failures)} remaining: {failures}"
        yield "NamespaceDeletionContentFailure", ("ContentDeletionFailed", message)
    if content.left:
        kinds = sorted(f"{r.plural}.{r.group} has {number} resource instances" for r, number in content.left.items())
        message = f"Some resources are remaining: {', '.join(kinds)}"
        yield "NamespaceContentRemaining", ("SomeResourcesRemain", message)
    if content.finalizers:
        held = sorted(f"{name} in {number} resource instances" for name, number in content.finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(held)}"
        yield "NamespaceFinalizersRemaining", ("SomeFinalizersRemain", message)


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
