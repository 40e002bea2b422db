# SPDX-License-Identifier: Apache-2.0
"""What an operator says of itself: what it reconciles, owns, watches, reads and writes. Its rights follow from that."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from trainwright.api.base import Resource
from trainwright.api.rights import APPLY, WATCH, Rule, merged
from trainwright.controller.runtime.controller.controller import Result
from trainwright.controller.runtime.controller.sources import Mapper, Predicate
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.kinds import Kind, resource_of
from trainwright.controller.runtime.workqueue.limiters import Limiter

Handler: TypeAlias = Callable[[Any, Any], Awaitable[Result]]
"""A reconciler or a clean-up: takes the object, as the cache has it, and the `Context` of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What an installation needs to know of an operator."""

    name: str
    rules: tuple[Rule, ...]
    """In the namespaces of its objects, and on objects without one."""
    crds: Path | None
    """Folder of the CustomResourceDefinitions of its own kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalization:
    """What is cleaned up before an object is deleted."""

    finalizer: str
    cleanup: Handler


@dataclass(slots=True, kw_only=True)
class Reconciled:
    """One controller of an operator. Each field is as the argument of `App.reconciles` says."""

    kind: Kind
    name: str
    reconcile: Handler
    labels: str = ""
    owns: tuple[Kind, ...] = ()
    watches: Mapping[Kind, Mapper] = field(default_factory=dict)
    reads: tuple[Kind, ...] = ()
    writes: tuple[Kind, ...] = ()
    deletes: tuple[Kind, ...] = ()
    status: bool = False
    events: bool = False
    when: tuple[Predicate, ...] = ()
    workers: int = 4
    limiter: Limiter | None = None
    timeout: float | None = None
    finalization: Finalization | None = None

    def rules(self) -> Iterable[Rule]:
        """The rights that follow, each needed by something that the declaration allows."""
        main = resource_of(self.kind)
        yield Rule.on(main, *WATCH)
        if self.status:
            yield Rule.on(main, "get")  # a status whose write met another one is read again
            yield Rule.on(main, "patch", subresource="status")
        if self.finalization is not None:
            yield Rule.on(main, "patch")
        for kind in self.owns:
            yield Rule.on(resource_of(kind), *WATCH, *APPLY)
        if self.owns:
            # OwnerReferencesPermissionEnforcement, which some clusters have on, asks for it: children block the
            # deletion of their owner. https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
            yield Rule.on(main, "update", subresource="finalizers")
        for kind in (*self.watches, *self.reads):
            yield Rule.on(resource_of(kind), *WATCH)
        for kind in self.writes:
            # What is not read from a cache is read before it is written.
            yield Rule.on(resource_of(kind), "get", *APPLY)
        for kind in self.deletes:
            yield Rule.on(resource_of(kind), "delete")
        if self.events:
            yield from EventRecorder.RULES

    def check_applies(self, resource: Resource) -> bool:
        """Whether objects of this kind are children of the object. Raises ConfigurationError if it is not declared."""
        if resource in map(resource_of, self.owns):
            return True
        if resource in map(resource_of, self.writes):
            return False
        raise self.undeclared(f"writes {resource.kind}", f"owns=[{resource.kind}] or writes=[{resource.kind}]")

    def check_deletes(self, resource: Resource) -> None:
        """Raises ConfigurationError if it is not declared."""
        if resource not in map(resource_of, self.deletes):
            raise self.undeclared(f"deletes {resource.kind}", f"deletes=[{resource.kind}]")

    def undeclared(self, what: str, missing: str) -> ConfigurationError:
        """The error for a call that needs a right that is not declared."""
        return ConfigurationError(f"{self.name} {what}, which is not declared: pass {missing} to reconciles")


def rules_of(declared: Iterable[Reconciled]) -> tuple[Rule, ...]:
    """The rights of all controllers together, one rule for each resource."""
    return merged(rule for one in declared for rule in one.rules())
