# SPDX-License-Identifier: Apache-2.0
"""What an apply removes: fields that its manager named before, does not name now, and no manager owns.

All fields named before are removed first. Two kinds are then added back: fields that any manager owns now, in any
version, and fields that the applying manager never owned but that lie inside of one that it did.

That looks through the whole object several times. In most applies, no manager owns anything any more in the fields and
items that go. They are taken out at once, with the same result.
"""

from collections.abc import Collection
from dataclasses import dataclass

from trainwright.controller.local.apiserver.merge.apply import fieldset, naming
from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.errors import MissingVersionError, during
from trainwright.controller.local.apiserver.merge.apply.fieldset import MEMBER, NOTHING, Tree
from trainwright.controller.local.apiserver.merge.apply.naming import with_declared_parents
from trainwright.controller.local.apiserver.merge.apply.owners import ManagerIdentity, Owners, Ownership
from trainwright.controller.local.apiserver.merge.apply.removal import remove
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import Value
from trainwright.controller.local.apiserver.merge.apply.versions import Typed, Versions


@dataclass(frozen=True, slots=True)
class Pruning:
    """One apply.

    Attributes:
        versions: of the kind.
        owners: with what the manager names now.
        manager: who applies.
        last: what it named before, and in which version.
        spared: it names fields as empty that are not (`TypedMerge.spared`).
    """

    versions: Versions
    owners: Owners
    manager: ManagerIdentity
    last: Ownership
    spared: bool

    def prune(self, merged: Typed) -> Typed:
        """The merged object without what is to go.

        Raises:
            InternalError: the object cannot be converted to a version that an owner names.
        """
        now = self.owners[self.manager]
        versions = {now.version, self.last.version, *(owned.version for owned in self.owners.values())}
        gone = fieldset.difference(self.last.fields, now.fields)
        if len(versions) == 1 and not self.spared:
            # It names all that it named before, so nothing goes. A field that it names as empty, and whose content has
            # no owner, may go all the same: that takes the long way.
            if not gone:
                return merged
            # If the manager owned apiVersion, the long way fails over an object without it.
            whole = _whole(merged.view, merged.document, gone, now.fields, self._of_others())
            if whole is not None and "f:apiVersion" not in self.last.fields:
                return _without(merged, whole)
        try:
            with during("failed to convert merged object to last applied version"):
                converted = self.versions.at(self.last.version, merged)
        except MissingVersionError:
            return merged
        view = converted.view
        before = with_declared_parents(view, self.last.fields)
        pruned = Typed(remove(view, converted.document, before), view)
        named = _Named()
        with during("failed add back owned items"):
            pruned = self._with_owned(converted, pruned, named)
        with during("failed add back dangling items"):
            pruned = self._with_foreign(converted, pruned, before, named)
        return self.versions.at(now.version, pruned)

    def _of_others(self) -> Tree:
        found: Tree = {}
        for manager, owned in self.owners.items():
            if manager != self.manager:
                found = fieldset.union(found, owned.fields)
        return found

    def _with_owned(self, merged: Typed, pruned: Typed, named: "_Named") -> Typed:
        """Add back what any manager owns, in the version of the last apply first."""
        owned: dict[str, Tree] = {}
        for ownership in self.owners.values():
            owned[ownership.version] = fieldset.union(owned.get(ownership.version, {}), ownership.fields)
        for version in sorted(owned, key=lambda version: (version != self.last.version, version)):
            try:
                with during(f"failed to convert merged object at version {version}"):
                    merged = self.versions.at(version, merged)
                with during(f"failed to convert pruned object at version {version}"):
                    pruned = self.versions.at(version, pruned)
            except MissingVersionError:
                continue
            kept = with_declared_parents(merged.view, owned[version])
            kept = fieldset.union(named.by(pruned), kept)
            pruned = _without(merged, fieldset.difference(named.by(merged), kept))
        return pruned

    def _with_foreign(self, merged: Typed, pruned: Typed, before: Tree, named: "_Named") -> Typed:
        """Add back what the manager did not own before."""
        try:
            with during("failed to convert pruned object to last applied version"):
                pruned = self.versions.at(self.last.version, pruned)
        except MissingVersionError:
            return merged
        gone = fieldset.difference(named.by(merged), named.by(pruned))
        return _without(merged, fieldset.intersection(gone, before))


def _whole(view: SchemaView, value: Value, gone: Tree, now: Tree, others: Tree) -> Tree | None:
    """What goes with all that is in it: fields and items in which the manager names nothing now and others own nothing.

    What the manager names now keeps all that it lies in, so nothing else goes.

    Args:
        view: of the value.
        value: merged.
        gone: what the manager named in it before and does not name now.
        now: what the manager names in it now.
        others: what others own in it.

    Returns:
        None where something may go in part.
    """
    form = part(view, value)
    inside: dict[str, tuple[SchemaView | None, Value]]
    declared: Collection[str] = ()
    if type(form) is MapView and not form.atomic and type(value) is dict:
        inside = {"f:" + name: (form.at(name), inner) for name, inner in value.items()}
        declared = form.declared
    elif type(form) is ListView and not form.atomic and type(value) is list:
        inside = {element: (form.item, item) for element, item in zip(form.elements(value), value, strict=True)}
    else:
        return None
    found: Tree = {}
    for element, before in gone.items():
        child, inner = inside.get(element, (None, None))
        if child is None:
            continue
        if element in now:
            below = _whole(child, inner, before, now[element], others.get(element, NOTHING))
            if below is None:
                return None
            if below:
                found[element] = below
        elif element not in others and (SELF in before or element[2:] in declared) and _has_content(inner):
            found[element] = MEMBER
        else:
            # A field that was not a member itself stays, and so does one with empty lists alone, which no set has.
            return None
    return found


def _has_content(value: Value) -> bool:
    return any(map(_has_content, value.values())) if type(value) is dict else value != []


class _Named:
    """What documents name, each looked through once. They do not change meanwhile."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Typed, Tree]] = {}

    def by(self, one: Typed) -> Tree:
        key = id(one.document), id(one.view)
        if key not in self._known:
            # With the document, whose identity another one could have once it is gone.
            self._known[key] = one, with_declared_parents(one.view, naming.owned(one.view, one.document))
        return self._known[key][1]


def _without(one: Typed, fields: Tree) -> Typed:
    return Typed(remove(one.view, one.document, fields), one.view) if fields else one
