# SPDX-License-Identifier: Apache-2.0
"""What a controller uses of the API server, declared before there is a manager. Its rights follow from that."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.api.base import Resource
from trainwright.api.rights import APPLY, WATCH, Rule, merged
from trainwright.controller.runtime.kinds import Kind, resource_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """The kinds that one controller reads and writes.

        USES = Uses(kind=Web, owns=(Service,), status=True)
        role = USES.rules()
        manager.controller("web", USES).for_(Web).owns(Service).reconcile(reconcile)

    The builder refuses a watch of any other kind.
    """

    kind: Kind
    """Reconciled: watched, and read from the cache."""
    owns: tuple[Kind, ...] = ()
    """Applied with the object as their controller, and watched."""
    watches: tuple[Kind, ...] = ()
    """Watched, or read from the cache alone."""
    writes: tuple[Kind, ...] = ()
    """Applied without an owner. What is not read from a cache is read before it is written."""
    deletes: tuple[Kind, ...] = ()
    status: bool = False
    """Whether it writes the status of the object."""
    finalizes: bool = False
    """Whether it sets and removes finalizers of the object."""
    events: bool = False
    more: tuple[Rule, ...] = ()
    """Rights for other calls of the client, such as one that reads the log of a Pod."""

    def rules(self) -> tuple[Rule, ...]:
        """The rights, each needed by something that is declared."""
        return merged(self._rules())

    def is_watched(self, resource: Resource) -> bool:
        return resource in map(resource_of, (self.kind, *self.owns, *self.watches))

    def _rules(self) -> Iterator[Rule]:
        main = resource_of(self.kind)
        yield Rule.on(main, *WATCH)
        if self.status:
            yield Rule.on(main, "patch", subresource="status")
        if self.finalizes:
            yield Rule.on(main, "patch")
        for kind in self.owns:
            yield Rule.on(resource_of(kind), *WATCH, *APPLY)
        if self.owns:
            # OwnerReferencesPermissionEnforcement, which some clusters have on, asks for it: children block the
            # deletion of their owner. https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
            yield Rule.on(main, "update", subresource="finalizers")
        for kind in self.watches:
            yield Rule.on(resource_of(kind), *WATCH)
        for kind in self.writes:
            yield Rule.on(resource_of(kind), "get", *APPLY)
        for kind in self.deletes:
            yield Rule.on(resource_of(kind), "delete")
        if self.events:
            # Imported here: it loads the library of metrics, which `trainwright render` does without.
            from trainwright.controller.runtime.events.recorder import EventRecorder  # noqa: PLC0415

            yield from EventRecorder.RULES
        yield from self.more
