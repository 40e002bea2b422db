# SPDX-License-Identifier: Apache-2.0
"""The five conditions of a namespace that is being deleted: pure functions of what is left in it.

Source: the namespace controller of Kubernetes 1.36.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.base import Resource
from trainwright.api.conditions import find, set_condition
from trainwright.api.objects import Document
from trainwright.controller.local.workloads.documents import conditions_of

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
