# SPDX-License-Identifier: Apache-2.0
"""What changed between two documents of one schema, as sets of fields.

Branches that are equal are not looked into, so that a comparison costs little more than a change does.
"""

from dataclasses import dataclass

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import MEMBER, Tree, recursive_difference, union
from trainwright.controller.local.apiserver.merge.apply.naming import every
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import Value, equal

ABSENT = object()


@dataclass(frozen=True, slots=True)
class TypedComparison:
    """No field is in more than one of the sets, except where a value changed its type."""

    removed: Tree
    modified: Tree
    added: Tree

    def without(self, fields: Tree | None) -> "TypedComparison":
        """Leave out fields and what is below them."""
        if not fields:
            return self
        return TypedComparison(
            recursive_difference(self.removed, fields),
            recursive_difference(self.modified, fields),
            recursive_difference(self.added, fields),
        )


_Change = tuple[Tree, Tree, Tree]
_MODIFIED: _Change = ({}, MEMBER, {})


def compare(view: SchemaView, old: Value, new: Value) -> TypedComparison:
    """What was removed, modified and added from `old` to `new`, both of which fit the view."""
    change = _compare(view, old, new)
    return TypedComparison({}, {}, {}) if change is None else TypedComparison(*map(_without_root, change))


def _without_root(tree: Tree) -> Tree:
    return {element: below for element, below in tree.items() if element != SELF}


def _compare(view: SchemaView, old: Value, new: Value) -> _Change | None:
    if equal(old, new):
        return None
    before, after = part(view, old), part(view, new)
    change = _compare_as(after, old, new)
    if before is after:
        return change
    # A value that changed its type is both compared as what it was and as what it is.
    return _both(_compare_as(before, old, new), change)


def _compare_as(form: object, old: Value, new: Value) -> _Change | None:
    if type(form) is MapView:
        left, right = _non_empty(old, dict), _non_empty(new, dict)
        if not form.atomic and (left or right):
            return _compare_maps(form, left, right)
    elif type(form) is ListView:
        left, right = _non_empty(old, list), _non_empty(new, list)
        if not form.atomic and (left or right):
            return _compare_lists(form, left, right)
    return None if equal(old, new) else _MODIFIED


def _non_empty(value: Value, kind: type) -> Value:
    return value if value and type(value) is kind else kind()


def _compare_maps(view: MapView, old: dict[str, Value], new: dict[str, Value]) -> _Change | None:
    found: _Change = ({}, {}, {})
    for name, left in old.items():
        right = new.get(name, ABSENT)
        if left is right:
            continue
        child = view.at(name)
        assert child is not None, f"{name} is checked to be allowed"
        _enter(found, "f:" + name, child, left, right)
    for name, right in new.items():
        if name not in old:
            child = view.at(name)
            assert child is not None, f"{name} is checked to be allowed"
            found[2]["f:" + name] = every(child, right)
    return found if any(found) else None


def _compare_lists(view: ListView, old: list[Value], new: list[Value]) -> _Change | None:
    found: _Change = ({}, {}, {})
    before, after = _by_element(view, old), _by_element(view, new)
    for element in before | after:
        left, right = before.get(element, []), after.get(element, [])
        if len(left) <= 1 and len(right) <= 1:
            _enter(found, element, view.item, left[0] if left else ABSENT, right[0] if right else ABSENT)
        else:
            _enter_repeated(found, element, view.item, left, right)
    return found if any(found) else None


def _by_element(view: ListView, values: list[Value]) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for element, value in zip(view.elements(values), values, strict=True):
        found.setdefault(element, []).append(value)
    return found


def _enter(found: _Change, element: str, view: SchemaView, old: Value, new: Value) -> None:
    removed, modified, added = found
    if new is ABSENT:
        removed[element] = every(view, old)
    elif old is ABSENT:
        added[element] = every(view, new)
    elif change := _compare(view, old, new):
        for tree, below in zip((removed, modified, added), change, strict=True):
            if below:
                tree[element] = below


def _enter_repeated(found: _Change, element: str, view: SchemaView, old: list[Value], new: list[Value]) -> None:
    """Items of the same keys are one unit as long as there are several."""
    removed, modified, added = found
    if len(old) > 1 and len(new) > 1:
        if not equal(old, new):
            modified[element] = MEMBER
    elif len(old) > 1:
        removed[element] = MEMBER
        if new:
            added[element] = every(view, new[0])
    else:
        added[element] = MEMBER
        if old:
            removed[element] = every(view, old[0])


def _both(one: _Change | None, other: _Change | None) -> _Change | None:
    if one is None or other is None:
        return one or other
    removed, modified, added = (union(left, right) for left, right in zip(one, other, strict=True))
    return removed, modified, added
