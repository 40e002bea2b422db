# SPDX-License-Identifier: Apache-2.0
"""Structured merge: what an apply or an update makes of an object and of who owns its fields.

Knows nothing of names, times and entries; `fieldmanager.py` puts those around it.

What it is about: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.controller.local.apiserver.merge.apply import fieldset, naming
from trainwright.controller.local.apiserver.merge.apply.compare import TypedComparison, compare
from trainwright.controller.local.apiserver.merge.apply.conflict import Conflicts
from trainwright.controller.local.apiserver.merge.apply.errors import MissingVersionError, during
from trainwright.controller.local.apiserver.merge.apply.fieldset import Tree
from trainwright.controller.local.apiserver.merge.apply.merge import TypedMerge
from trainwright.controller.local.apiserver.merge.apply.owners import ManagerIdentity, Owners, Ownership
from trainwright.controller.local.apiserver.merge.apply.pruning import Pruning
from trainwright.controller.local.apiserver.merge.apply.reconcile import reconcile
from trainwright.controller.local.apiserver.merge.apply.values import equal
from trainwright.controller.local.apiserver.merge.apply.versions import Document, Typed, Versions


@dataclass(frozen=True, slots=True)
class StructuredMerge:
    """Merges in one version of a kind.

    Attributes:
        versions: of the kind.
        version: the apiVersion of the request.
        reset: fields by apiVersion that the endpoint does not write, and that are therefore never owned through it.
    """

    versions: Versions
    version: str
    reset: Mapping[str, Tree]

    def apply(
        self, live: Typed, config: Typed, owners: Owners, manager: ManagerIdentity, *, force: bool
    ) -> tuple[Document | None, Owners]:
        """The object after an apply and its owners; None for an object that did not change.

        Raises:
            Conflicts: it is not forced, and others own what it would change.
            InternalError: the object cannot be converted to a version that an owner names.
        """
        owners = self._reconciled(live, owners)
        merge = TypedMerge()
        merged = Typed(merge.merge(live.view, live.document, config.document), live.view)
        last = owners.get(manager)
        named = fieldset.recursive_difference(
            naming.owned(config.view, config.document), self.reset.get(self.version, {})
        )
        owners[manager] = Ownership(named, self.version, applied=True)
        if last is not None and last.fields:
            with during("failed to prune fields"):
                merged = Pruning(self.versions, owners, manager, last, spared=merge.spared).prune(merged)
        owners = self._claim(live, merged, owners, manager, {}, force=force)
        return (None if equal(live.document, merged.document) else merged.document), owners

    def update(self, live: Typed, new: Typed, owners: Owners) -> tuple[Owners, Tree]:
        """Who still owns what after an update, and what it changed, which is now its manager's.

        Raises:
            InternalError: the object cannot be converted to a version that an owner names.
        """
        owners = self._reconciled(live, owners)
        change = self._compared(self.version, live, new)
        owners = self._claim(live, new, owners, None, {self.version: change}, force=True)
        return owners, fieldset.union(change.modified, change.added)

    def _reconciled(self, live: Typed, owners: Owners) -> Owners:
        """The owners in terms of today's schemas, without those whose version is gone. A new dictionary."""
        found: Owners = {}
        for manager, owned in owners.items():
            try:
                view = self.versions.at(owned.version, live).view
            except MissingVersionError:
                continue
            fields = reconcile(view, owned.fields)
            found[manager] = owned if fields is owned.fields else owned.with_fields(fields)
        return found

    def _claim(
        self,
        old: Typed,
        new: Typed,
        owners: Owners,
        manager: ManagerIdentity | None,
        changes: dict[str, TypedComparison],
        *,
        force: bool,
    ) -> Owners:
        """Take what changes away from all but the manager.

        `changes` has what is known of what changed, by version; the rest is added where an owner needs it.
        """
        conflicts: dict[ManagerIdentity, Tree] = {}
        left: Owners = {}
        for other, owned in owners.items():
            if other == manager:
                left[other] = owned
                continue
            seen = changes.get(owned.version)
            if seen is None:
                try:
                    seen = self._compared(owned.version, old, new)
                except MissingVersionError:
                    continue
                changes[owned.version] = seen
            taken = fieldset.intersection(owned.fields, fieldset.union(seen.modified, seen.added))
            if taken:
                conflicts[other] = taken
            fields = fieldset.difference(fieldset.difference(owned.fields, taken), seen.removed)
            left[other] = owned if fields is owned.fields else owned.with_fields(fields)
        if conflicts and not force:
            raise Conflicts(conflicts)
        return {other: owned for other, owned in left.items() if owned.fields}

    def _compared(self, version: str, old: Typed, new: Typed) -> TypedComparison:
        with during("failed to convert old object"):
            before = self.versions.at(version, old)
        with during("failed to convert new object"):
            after = self.versions.at(version, new)
        return compare(before.view, before.document, after.document).without(self.reset.get(version))
