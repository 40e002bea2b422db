# SPDX-License-Identifier: Apache-2.0
"""Documents by their schema: the fields that they name, what changed between two, fields taken out of one.

Documents are not changed. Branches that are equal are not looked into, so a comparison costs little more than a change.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.merge.fieldset import (
    INVALID,
    MEMBER,
    NOTHING,
    SELF,
    Tree,
    described,
    keyed,
    keyed_by_text,
    recursive_difference,
    set_item,
    union,
)
from trainwright.controller.local.types.model import Type
from trainwright.controller.local.values import SCALARS, Value, equal, json_text

MAP, LIST = "map", "list"
FITTING: Mapping[str, frozenset[type]] = {
    "string": frozenset({str}),
    "numeric": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "untyped": SCALARS,
}
"""The types of the values that a scalar takes, besides null."""


class UnfitError(Exception):
    """A document does not fit its schema, or an item of a list cannot be told apart from others."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message, path)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def part(view: Type, value: Value) -> str:
    """Which of its possible forms a type takes for a value: MAP, LIST, a scalar, or nothing.

    A null, or a value of a type that is not allowed, is treated as a map where there may be one, else as a scalar, else
    as a list.
    """
    kind = type(value)
    if kind is dict:
        if view.is_map:
            return MAP
    elif kind is list:
        if view.is_list:
            return LIST
    elif value is not None and view.scalar is not None:
        return view.scalar
    return MAP if view.is_map else view.scalar or LIST


def child_of(view: Type, name: str) -> Type:
    child = view.at(name)
    assert child is not None, f"{name} is checked to be allowed"
    return child


def _texts(view: Type, values: list[Value]) -> list[str] | None:
    """What tells the items apart, if all have a text as their only key: it takes less time than path elements."""
    if len(view.key_fields) != 1:
        return None
    key, default = view.key_fields[0]
    found: list[Any] = [value.get(key, default) if type(value) is dict else None for value in values]
    return found if set(map(type, found)) <= {str} else None


def elements(view: Type, values: list[Value]) -> list[str]:
    """The path elements of the items of a list; `INVALID` for those that have none."""
    texts = _texts(view, values)
    if texts is not None:
        return [keyed_by_text(view.key_fields[0][0], text) for text in texts]
    found = []
    for value in values:
        try:
            found.append(element_of(view, value))
        except UnfitError:
            found.append(INVALID)
    return found


def element_of(view: Type, value: Value) -> str:
    """The path element of an item of a list. Raises UnfitError for one without any of its keys."""
    keys = view.key_fields
    if not keys:
        if type(value) not in SCALARS:
            raise UnfitError(f"items of a set are plain values, not {json_text(value)}")
        return set_item(value)
    if type(value) is not dict:
        raise UnfitError(f"items of a list with keys are objects, not {json_text(value)}")
    # A key that is null stands in the element, one that is absent and has no default does not.
    fields = [(key, value.get(key, default)) for key, default in keys if key in value or default is not None]
    if not fields:
        raise UnfitError(f"an item has none of the keys of its list: {', '.join(view.keys or ())}")
    if len(keys) == 1 and type(fields[0][1]) is str:
        return keyed_by_text(*fields[0])
    return keyed(fields)


def named_fields(view: Type, document: Value) -> Tree:
    """What a manager owns that applies the document.

    Leaves are members, and units, items of lists, and keys that the schema does not declare. Declared parents are none;
    an empty list with items of their own is nothing.
    """
    return {element: below for element, below in _named(view, document).items() if element != SELF}


def _named(view: Type, value: Value) -> Tree:
    if type(value) is dict and view.is_map:
        return MEMBER if view.atomic else _named_members(view, value)
    if type(value) is list and view.is_list:
        return MEMBER if view.keys is None else _named_items(view, value)
    form = part(view, value)
    has_owners_inside = (form == MAP and not view.atomic) or (form == LIST and view.keys is not None)
    return {} if has_owners_inside else MEMBER


def _named_members(view: Type, value: dict[str, Value]) -> Tree:
    tree: Tree = {}
    parts = view.parts
    for name, inner in value.items():
        child = parts.get(name)
        if type(inner) in SCALARS and (child is None or child.scalar is not None):
            tree["f:" + name] = MEMBER
            continue
        is_member = child is None or inner is None or (not inner and type(inner) is dict)
        if child is None:
            child = child_of(view, name)
        below = _named(child, inner)
        if is_member and SELF not in below:
            below[SELF] = NOTHING
        if below:
            tree["f:" + name] = below
    return tree


def _named_items(view: Type, value: list[Value]) -> Tree:
    tree: Tree = {}
    named = elements(view, value)
    repeated = _repeated(named)
    for element, inner in zip(named, value, strict=True):
        if element in repeated:
            tree[element] = MEMBER
            continue
        below = _named(view.item, inner)
        if SELF not in below:
            below[SELF] = NOTHING
        tree[element] = below
    return tree


def every(view: Type, value: Value) -> Tree:
    """The node of a value and all nodes below it, each a member; items that occur several times count as units."""
    form = part(view, value)
    if form == MAP:
        if view.atomic or not value or type(value) is not dict:
            return MEMBER
        tree = {
            "f:" + name: MEMBER if child.scalar is not None and type(inner) in SCALARS else every(child, inner)
            for name, inner in value.items()
            if (child := view.at(name))
        }
    elif form == LIST:
        if view.keys is None or not value or type(value) is not list:
            return MEMBER
        named = elements(view, value)
        repeated = _repeated(named)
        tree = {
            element: MEMBER if element in repeated else every(view.item, inner)
            for element, inner in zip(named, value, strict=True)
        }
    else:
        return MEMBER
    tree[SELF] = NOTHING
    return tree


def _repeated(named: list[str]) -> set[str]:
    if len(set(named)) == len(named):
        return set()
    return {element for element, count in Counter(named).items() if count > 1}


def with_declared_parents(view: Type | None, tree: Tree) -> Tree:
    """A set, and the declared fields that have members below them.

    What an apply names without owning it, such as `spec`, counts where sets are compared to find what to remove.
    """
    made: Tree = {}
    for element, below in tree.items():
        if element == SELF or (len(below) == 1 and SELF in below):
            made[element] = below
            continue
        kind, name = element[:2], element[2:]
        child: Type | None = None
        if view is not None and kind == "f:" and view.is_map:
            child = view.at(name)
        elif view is not None and kind == "k:" and view.is_list:
            child = view.item
        filled = with_declared_parents(child, below)
        if view is not None and kind == "f:" and SELF not in filled and name in view.parts:
            filled[SELF] = NOTHING
        made[element] = filled
    return made


ABSENT = object()


@dataclass(frozen=True, slots=True)
class TypedComparison:
    """No field is in more than one of the sets, except where a value changed its type."""

    removed: Tree
    modified: Tree
    added: Tree

    def without(self, fields: Tree | None) -> "TypedComparison":
        if not fields:
            return self
        return TypedComparison(
            recursive_difference(self.removed, fields),
            recursive_difference(self.modified, fields),
            recursive_difference(self.added, fields),
        )


_Change = tuple[Tree, Tree, Tree]
_MODIFIED: _Change = ({}, MEMBER, {})


def compare(view: Type, old: Value, new: Value) -> TypedComparison:
    """What was removed, modified and added from `old` to `new`, both of which fit the view."""
    change = _compare(view, old, new)
    return TypedComparison({}, {}, {}) if change is None else TypedComparison(*map(_without_root, change))


def _without_root(tree: Tree) -> Tree:
    return {element: below for element, below in tree.items() if element != SELF}


def _compare(view: Type, old: Value, new: Value) -> _Change | None:
    if equal(old, new):
        return None
    before, after = part(view, old), part(view, new)
    change = _compare_as(view, after, old, new)
    if before == after:
        return change
    # A value that changed its type is both compared as what it was and as what it is.
    return _both(_compare_as(view, before, old, new), change)


def _compare_as(view: Type, form: str, old: Value, new: Value) -> _Change | None:
    if form == MAP:
        left, right = _non_empty(old, dict), _non_empty(new, dict)
        if not view.atomic and (left or right):
            return _compare_maps(view, left, right)
    elif form == LIST:
        left, right = _non_empty(old, list), _non_empty(new, list)
        if view.keys is not None and (left or right):
            return _compare_lists(view, left, right)
    return None if equal(old, new) else _MODIFIED


def _non_empty(value: Value, kind: type) -> Value:
    return value if value and type(value) is kind else kind()


def _compare_maps(view: Type, old: dict[str, Value], new: dict[str, Value]) -> _Change | None:
    found: _Change = ({}, {}, {})
    for name, left in old.items():
        right = new.get(name, ABSENT)
        if left is right:
            continue
        _enter(found, "f:" + name, child_of(view, name), left, right)
    for name, right in new.items():
        if name not in old:
            found[2]["f:" + name] = every(child_of(view, name), right)
    return found if any(found) else None


def _compare_lists(view: Type, old: list[Value], new: list[Value]) -> _Change | None:
    found: _Change = ({}, {}, {})
    before, after = _by_element(view, old), _by_element(view, new)
    for element in before | after:
        left, right = before.get(element, []), after.get(element, [])
        if len(left) <= 1 and len(right) <= 1:
            _enter(found, element, view.item, left[0] if left else ABSENT, right[0] if right else ABSENT)
        else:
            _enter_repeated(found, element, view.item, left, right)
    return found if any(found) else None


def _by_element(view: Type, values: list[Value]) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for element, value in zip(elements(view, values), values, strict=True):
        found.setdefault(element, []).append(value)
    return found


def _enter(found: _Change, element: str, view: Type, old: Value, new: Value) -> None:
    removed, modified, added = found
    if new is ABSENT:
        removed[element] = every(view, old)
    elif old is ABSENT:
        added[element] = every(view, new)
    elif change := _compare(view, old, new):
        for tree, below in zip((removed, modified, added), change, strict=True):
            if below:
                tree[element] = below


def _enter_repeated(found: _Change, element: str, view: Type, old: list[Value], new: list[Value]) -> None:
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


def remove(view: Type, value: Value, fields: Tree) -> Value:
    if not fields:
        return value
    form = part(view, value)
    if form == MAP:
        if view.atomic or not value or type(value) is not dict:
            return None
        return _remove_fields(view, value, fields)
    if form == LIST:
        if view.keys is None or not value or type(value) is not list:
            return None
        return _remove_items(view, value, fields)
    return value


def _remove_fields(view: Type, value: dict[str, Value], fields: Tree) -> dict[str, Value] | None:
    left: dict[str, Value] | None = None
    for element, below in fields.items():
        name = element[2:]
        if element[:2] != "f:" or name not in value:
            continue
        if left is None:
            left = dict(value)
        if SELF in below:
            del left[name]
        elif (child := view.at(name)) is not None:
            left[name] = remove(child, value[name], below)
    return value if left is None else left or None


def _remove_items(view: Type, value: list[Value], fields: Tree) -> list[Value] | None:
    left: list[Value] = []
    for element, item in zip(elements(view, value), value, strict=True):
        below = fields.get(element)
        if below is None:
            left.append(item)
        elif SELF not in below:
            left.append(remove(view.item, item, below))
    return left or None


def check(view: Type, document: Value, *, duplicates: bool) -> None:
    """Raises UnfitError, about one place, for a document that does not fit.

    With `duplicates`, lists may hold several items of the same keys, as stored objects may.
    """
    # What fits comes first.
    if type(document) is dict and view.is_map:
        parts, others = view.parts, view.others
        for name, inner in document.items():
            child = parts.get(name, others)
            if child is None:
                raise UnfitError("field not declared in schema", "." + name)
            if child.scalar is None or type(inner) not in FITTING[child.scalar]:
                _check_inside(child, inner, "." + name, duplicates)
    elif type(document) is list and view.is_list:
        _check_list(view, document, duplicates)
    elif document is not None:
        form = part(view, document)
        if type(document) not in FITTING.get(form, ()):
            raise UnfitError(f"expected {'any scalar' if form == 'untyped' else form}, got {json_text(document)}")


def _check_inside(view: Type, value: Value, step: str, duplicates: bool) -> None:
    try:
        check(view, value, duplicates=duplicates)
    except UnfitError as error:
        error.path = step + error.path
        raise


def _check_list(view: Type, value: list[Value], duplicates: bool) -> None:
    texts = None if view.keys is None else _texts(view, value)
    apart = view.keys is None or (texts is not None and (duplicates or len(set(texts)) == len(texts)))
    seen: set[str] = set()
    for index, inner in enumerate(value):
        if not apart:
            element = element_of(view, inner)
            if element in seen and not duplicates:
                raise UnfitError(f"duplicate entries for key {described(element)}")
            seen.add(element)
        _check_inside(view.item, inner, f"[{index}]", duplicates)


def unlike(document: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """What there is to check of a document if another one fits: its maps without the fields that are equal in both."""
    left: dict[str, Value] = {}
    for name, value in document.items():
        known = other.get(name)
        if value is None or not equal(value, known):
            left[name] = unlike(value, known) if type(value) is dict and type(known) is dict else value
    return left
