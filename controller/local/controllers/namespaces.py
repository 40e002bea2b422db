# SPDX-License-Identifier: Apache-2.0
"""Reconciles namespaces that are being deleted.

Pods go first, and everything else when no pod is left: a pod must not see its configuration vanish.
"""

from collections import Counter
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.base import Resource
from trainwright.api.conditions import set_condition
from trainwright.api.objects import (
    Document,
    Key,
    conditions_of,
    deletion_timestamp_of,
    finalizers_of,
    name_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.controllers.base import ControllerBase, served_kinds, write_status
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


FINALIZER = "kubernetes"
AGAIN_SECONDS = 1.0
"""How long content that is being deleted is waited for. Not every kind is watched, so the next look is by time."""


class NamespaceController(ControllerBase):
    """Reconciles namespaces."""

    RULES = (
        Rule.on(NAMESPACE, *WATCH),
        Rule.on(NAMESPACE, "patch", subresource="status"),
        Rule.on(NAMESPACE, "update", subresource="finalize"),
        Rule("*", "*", ("delete", "deletecollection", "list")),
    )

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        manager.controller("namespace").for_(NAMESPACE).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one namespace."""
        namespace = self.cache.get(NAMESPACE, key.name)
        if namespace is None or deletion_timestamp_of(namespace) is None:
            return None
        if FINALIZER not in (spec_of(namespace).get("finalizers") or ()):
            return None
        content = await self._delete_content(key.name)
        status = {
            **status_of(namespace),
            "phase": "Terminating",
            "conditions": conditions(namespace, content, self.now()),
        }
        try:
            namespace = await write_status(self.client, NAMESPACE, namespace, status)
            if not content.is_empty:
                return RetryAfter(AGAIN_SECONDS, reason="content is left")
            await self._finalize(namespace)
        except NotFound:
            return None
        return None

    async def _delete_content(self, namespace: str) -> Content:
        content = Content()
        try:
            kinds = await served_kinds(self.client)
        except ApiError as error:
            content.undiscovered = error.message
            return content
        ours = {kind: verbs for kind, verbs in kinds.items() if kind.namespaced and {"delete", "list"} <= verbs}
        for part in ([kind for kind in ours if kind == POD], [kind for kind in ours if kind != POD]):
            for kind in part:
                try:
                    content.add(kind, await self._delete_kind(kind, ours[kind], namespace))
                except ApiError as error:
                    content.failures.append(error.message)
            if not content.is_empty:
                break
        return content

    async def _delete_kind(self, kind: Resource, verbs: Container[str], namespace: str) -> Iterable[tuple[str, ...]]:
        """Delete all objects of a kind. Returns the finalizers of each object that is left."""
        found = (await self.client.list(MetadataOnly(kind), namespace)).items
        if found and "deletecollection" in verbs:
            await self.client.delete_collection(kind, namespace, propagation="Background")
        else:
            for obj in found:
                with suppress(NotFound):
                    await self.client.delete(kind, name_of(obj), namespace, propagation="Background")
        left = (await self.client.list(MetadataOnly(kind), namespace)).items if found else ()
        return map(finalizers_of, left)

    async def _finalize(self, namespace: Document) -> None:
        lock = {"name": name_of(namespace), "uid": uid_of(namespace), "resourceVersion": resource_version_of(namespace)}
        left = [finalizer for finalizer in spec_of(namespace).get("finalizers") or () if finalizer != FINALIZER]
        document = {"metadata": lock, "spec": {"finalizers": left}}
        await self.client.update(document, kind=NAMESPACE, subresource="finalize")
