# SPDX-License-Identifier: Apache-2.0
"""Structured merge: what an apply or an update makes of an object and of who owns its fields.

Knows nothing of names, times and entries; `fieldmanager.py` puts those around it. Objects are not changed; what a merge
leaves as it was is the same object in the result.

What it is about: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply
"""

from typing import Any

from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldset import Tree
from trainwright.controller.local.apiserver.merge.managedfields import Conflicts, ManagerIdentity, Owners, Ownership
from trainwright.controller.local.apiserver.merge.typed import (
    ABSENT,
    LIST,
    MAP,
    TypedComparison,
    child_of,
    compare,
    elements,
    named_fields,
    part,
    remove,
    with_declared_parents,
)
from trainwright.controller.local.types.model import Type
from trainwright.controller.local.values import Value, equal

Document = dict[str, Any]

_KIND = fieldset.of(("f:apiVersion",), ("f:kind",))
"""Fields that never go, whoever is said to own them."""


def apply(
    view: Type,
    live: Document,
    config: Document,
    owners: Owners,
    manager: ManagerIdentity,
    version: str,
    reset: Tree,
    *,
    force: bool,
) -> tuple[Document | None, Owners]:
    """The object after an apply and its owners; None for an object that did not change.

    `reset` are fields that the endpoint does not write, and that are therefore never owned through it. Raises Conflicts
    if others own what it would change and it is not forced.
    """
    merge = TypedMerge()
    merged = merge.merge(view, live, config)
    last = owners.get(manager)
    named = fieldset.recursive_difference(named_fields(view, config), reset)
    owners = {**owners, manager: (last or Ownership(named, version))._replace(fields=named, version=version)}
    if last is not None and last.fields:
        # A field that is named as empty, and whose content has no owner, may go although nothing else does.
        before = fieldset.difference(last.fields, _KIND)
        if before and (merge.spared or fieldset.difference(before, named)):
            merged = _pruned(view, merged, before, owners)
    if len(owners) > 1:
        change = compare(view, live, merged).without(reset)
        owners = _claimed(change, owners, manager, force=force)
    elif not named:
        owners = {}
    return (None if equal(live, merged) else merged), owners


def update(view: Type, live: Document, new: Document, owners: Owners, reset: Tree) -> tuple[Owners, Tree]:
    """Who still owns what after an update, and what it changed, which is now its manager's."""
    change = compare(view, live, new).without(reset)
    return _claimed(change, owners, None, force=True), fieldset.union(change.modified, change.added)


def _pruned(view: Type, merged: Value, before: Tree, owners: Owners) -> Value:
    """The merged object without what its manager named before, and no manager owns now.

    All fields named before are removed first. Two kinds are then added back: fields that any manager owns now, and
    fields that the applying manager never owned but that lie inside of one that it did.
    """
    before = with_declared_parents(view, before)
    everything = with_declared_parents(view, named_fields(view, merged))
    owned: Tree = {}
    for ownership in owners.values():
        owned = fieldset.union(owned, ownership.fields)
    kept = fieldset.union(_named_after(view, merged, before), with_declared_parents(view, owned))
    gone = fieldset.difference(everything, kept)
    foreign = fieldset.difference(everything, _named_after(view, merged, gone))
    return remove(view, merged, fieldset.intersection(foreign, before))


def _named_after(view: Type, document: Value, removed: Tree) -> Tree:
    return with_declared_parents(view, named_fields(view, remove(view, document, removed)))


def _claimed(change: TypedComparison, owners: Owners, manager: ManagerIdentity | None, *, force: bool) -> Owners:
    """Take what changes away from all but the manager.

    Owners may have named their fields in other versions. Versions differ in little; the fields are compared as they
    are.
    """
    conflicts: dict[ManagerIdentity, Tree] = {}
    left: Owners = {}
    changed = fieldset.union(change.modified, change.added)
    for other, owned in owners.items():
        fields = owned.fields
        if other != manager:
            taken = fieldset.intersection(fields, changed)
            if taken:
                conflicts[other] = taken
            fields = fieldset.difference(fieldset.difference(fields, taken), change.removed)
        if fields:
            left[other] = owned if fields is owned.fields else owned._replace(fields=fields)
    if conflicts and not force:
        raise Conflicts(conflicts)
    return left


class TypedMerge:
    """One merge of a document onto an object.

    Attributes:
        spared: the document has a null or an empty map or list where the object has content, which a merge leaves.
    """

    __slots__ = ("spared",)

    def __init__(self) -> None:
        self.spared = False

    def merge(self, view: Type, live: Value, config: Value) -> Value:
        """The object after a document was merged onto it; both fit the view, and the document repeats no item."""
        if equal(live, config):
            return live
        form = part(view, config)
        if form == MAP and not view.atomic and live and type(live) is dict:
            return self._maps(view, live, config) if config else self._spare(live)
        if form == LIST and view.keys is not None and live and type(live) is list:
            return self._lists(view, live, config) if config else self._spare(live)
        return config

    def _spare(self, live: Value) -> Value:
        self.spared = True
        return live

    def _maps(self, view: Type, live: dict[str, Value], config: dict[str, Value]) -> dict[str, Value]:
        merged: dict[str, Value] | None = None
        for name, wanted in config.items():
            mine = live.get(name, ABSENT)
            if mine is not ABSENT:
                wanted = self.merge(child_of(view, name), mine, wanted)  # noqa: PLW2901 - the merged value takes its place
                if wanted is mine:
                    continue
            if merged is None:
                merged = dict(live)
            merged[name] = wanted
        return live if merged is None else merged

    def _lists(self, view: Type, live: list[Value], config: list[Value]) -> list[Value]:
        """Items of the document in the document's order, others where they were, as far as that goes together.

        An item that the object has several times is not merged into: the document's takes the place of all of them.
        """
        wanted = dict(zip(elements(view, config), config, strict=True))
        present: dict[str, Value] = {}
        present_elements = elements(view, live)
        for element, item in zip(present_elements, live, strict=True):
            present[element] = None if element in present else item
        merged = [
            live[position] if element is None else self._item(view, present.get(element, ABSENT), wanted[element])
            for element, position in _placed(present_elements, list(wanted))
        ]
        same = len(merged) == len(live) and all(new is old for new, old in zip(merged, live, strict=True))
        return live if same else merged

    def _item(self, view: Type, live: Value, config: Value) -> Value:
        return config if live is ABSENT else self.merge(view.item, live, config)


def _placed(live: list[str], config: list[str]) -> list[tuple[str | None, int]]:
    """The order of a merged list: elements of the document, and for other items (None) their index in the object.

    Both lists are walked side by side. Items that only the object has are taken as they come. Shared items are taken in
    the document's order: at one that is not due yet the object's side moves on, and what the document has next is
    placed when the object's side stands at nothing of its own.
    """
    wanted, known = set(config), set(live)
    due = [element for element in config if element in known]
    next_due = 0
    placed: list[tuple[str | None, int]] = []
    done: set[str] = set()
    left = right = 0
    while left < len(live) or right < len(config):
        if left < len(live):
            element = live[left]
            if right < len(config):
                if element == config[right]:
                    placed.append((element, -1))
                    done.add(element)
                    left += 1
                    right += 1
                    next_due += 1
                    continue
                if element in wanted and next_due < len(due) and due[next_due] != element:
                    left += 1
                    continue
            if element not in wanted:
                placed.append((None, left))
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(config):
            element = config[right]
            placed.append((element, -1))
            done.add(element)
            right += 1
            if next_due < len(due) and due[next_due] == element:
                next_due += 1
    return placed
