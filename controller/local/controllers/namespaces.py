# SPDX-License-Identifier: Apache-2.0
"""Gives each namespace its account `default` and the CA certificate; empties namespaces that are being deleted.

Pods go first, and everything else when no pod is left: a pod must not see its configuration vanish.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.base import Resource
from trainwright.api.conditions import set_condition
from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    conditions_of,
    deletion_timestamp_of,
    finalizers_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from trainwright.controller.local.controllers.base import (
    ControllerBase,
    Plan,
    PlannedWrite,
    PlanningController,
)
from trainwright.controller.local.controllers.objects import ACCOUNT, CONFIG_MAP, NAMESPACE, POD
from trainwright.controller.runtime import AlreadyExists, Discovery, Event, Manager, MetadataOnly, NotFound, Result
from trainwright.controller.runtime.errors import ApiError

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_CA_KEY = "ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
        " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of"
        " Kubernetes clusters."
    )
}
"""Annotation that kube-controller-manager sets; tools recognise the ConfigMap by it."""


def plan_for_namespace(namespace: str, account: Document | None, ca: Document | None, authority: str) -> Plan:
    """Make the account `default` and the ConfigMap with the CA certificate, and mend the latter."""
    plan = Plan()
    if account is None:
        made: Document = {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}}
        plan.writes.append(PlannedWrite(verb="create", kind=ACCOUNT, obj=made, tolerate=AlreadyExists))
    data = {_CA_KEY: authority}
    if ca is None:
        metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": _DESCRIPTION}
        made = {"metadata": metadata, "data": data}
        plan.writes.append(PlannedWrite(verb="create", kind=CONFIG_MAP, obj=made, tolerate=AlreadyExists))
    elif ca.get("data") != data or not _DESCRIPTION.items() <= annotations_of(ca).items():
        patch = {"metadata": {"annotations": _DESCRIPTION}, "data": dict.fromkeys(ca.get("data") or ()) | data}
        plan.writes.append(PlannedWrite(verb="patch", kind=CONFIG_MAP, obj=ca, body=patch))
    return plan


class AccountController(PlanningController):
    NAME, KIND = "accounts", NAMESPACE

    def declare(self, manager: Manager) -> None:
        builder = manager.controller(self.NAME).for_(NAMESPACE)
        for kind, name in ((ACCOUNT, DEFAULT_ACCOUNT), (CONFIG_MAP, ROOT_CA)):
            builder.watches(kind, lambda obj: (Key("", namespace_of(obj)),), predicates=[_named(name)])
        builder.reconcile(self.reconcile)

    def plan(self, obj: Document) -> Plan | None:
        if deletion_timestamp_of(obj) is not None:
            return None
        name = name_of(obj)
        account, ca = self.cache.get(ACCOUNT, DEFAULT_ACCOUNT, name), self.cache.get(CONFIG_MAP, ROOT_CA, name)
        return plan_for_namespace(name, account, ca, self.settings.authority)


def _named(name: str) -> Callable[[Event[Document]], bool]:
    return lambda event: name_of(event.obj) == name


# ---------------------------------------------------------------------- deletion

FINALIZER = "kubernetes"
AGAIN_SECONDS = 1.0
"""How long content that is being deleted is waited for. Not every kind is watched, so the next look is by time."""


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
        return not (self.left or self.failures or self.undiscovered)


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
"""Reason and message of each condition of a namespace that does not hang."""


def conditions(namespace: Document, content: Content, now: datetime) -> list[Document]:
    kinds = sorted(f"{r.plural}.{r.group} has {number} resource instances" for r, number in content.left.items())
    held = sorted(f"{name} in {number} resource instances" for name, number in content.finalizers.items())
    failures = f"{len(content.failures)} remaining: {', '.join(sorted(content.failures))}"
    trouble: dict[str, tuple[str, str]] = {}
    if content.undiscovered:
        trouble["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", content.undiscovered)
    if content.failures:
        message = f"Failed to delete all resource types, {failures}"
        trouble["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
    if kinds:
        message = f"Some resources are remaining: {', '.join(kinds)}"
        trouble["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
    if held:
        message = f"Some content in the namespace has finalizers remaining: {', '.join(held)}"
        trouble["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    result = conditions_of(namespace)
    for type_, fine in _FINE.items():
        reason, message = trouble.get(type_, fine)
        wanted = {"type": type_, "status": str(type_ in trouble), "reason": reason, "message": message}
        result = set_condition(result, wanted, now=lambda: now)
    return result


def plan_for_deletion(namespace: Document, content: Content, now: datetime) -> Plan:
    """Say what is left in a namespace that is being deleted. Once that is said, let it go if nothing is."""
    status = {**status_of(namespace), "phase": "Terminating", "conditions": conditions(namespace, content, now)}
    if status != status_of(namespace):
        return Plan(status=status)
    if not content.is_empty:
        return Plan(look_again=AGAIN_SECONDS)
    left = [finalizer for finalizer in spec_of(namespace).get("finalizers") or () if finalizer != FINALIZER]
    return Plan(writes=[PlannedWrite(verb="finalize", kind=NAMESPACE, obj=namespace, body={"finalizers": left})])


class NamespaceController(ControllerBase):
    def declare(self, manager: Manager) -> None:
        manager.controller("namespace").for_(NAMESPACE).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Empty one namespace, and let it go when nothing is left."""
        namespace = self.cache.get(NAMESPACE, key.name)
        finalizers = spec_of(namespace or {}).get("finalizers") or ()
        if namespace is None or deletion_timestamp_of(namespace) is None or FINALIZER not in finalizers:
            return None
        content = await self._delete_content(key.name)
        with suppress(NotFound):
            while namespace is not None:
                plan = plan_for_deletion(namespace, content, self.now())
                if not await self.carry_out(plan, NAMESPACE, namespace) or plan.writes:
                    return plan.result()
                namespace = self.cache.get(NAMESPACE, key.name)
        return None

    async def _delete_content(self, namespace: str) -> Content:
        content = Content()
        try:
            served = await Discovery(self.client).served()
        except ApiError as error:
            content.undiscovered = error.message
            return content
        verbs = {kind: {*one["verbs"]} for kind, one in served.items() if kind.namespaced}
        ours = {kind: known for kind, known in verbs.items() if {"delete", "list"} <= known}
        for kind in sorted(ours, key=lambda kind: kind != POD):  # which keeps the order of the others
            try:
                for finalizers in await self._delete_kind(kind, ours[kind], namespace):
                    content.left[kind] += 1
                    content.finalizers.update(finalizers)
            except ApiError as error:
                content.failures.append(error.message)
            if kind == POD and not content.is_empty:
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
