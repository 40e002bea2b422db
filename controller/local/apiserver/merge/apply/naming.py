# SPDX-License-Identifier: Apache-2.0
"""The sets of fields that a document names.

Two kinds: what an apply owns (`owned`: leaves, items and undeclared keys), and every node there is (`every`).
"""

from collections import Counter

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import MEMBER, NOTHING, Tree
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import SCALARS, Value


def owned(view: SchemaView, document: Value) -> Tree:
    """What a manager owns that applies the document.

    Leaves are members, and units, items of lists, and keys that the schema does not declare. Declared parents are none;
    an empty list with items of their own is nothing.
    """
    return {element: below for element, below in _owned(view, document).items() if element != SELF}


def _owned(view: SchemaView, value: Value) -> Tree:
    if type(value) is dict and view.fields is not None:
        return MEMBER if view.fields.atomic else _owned_fields(view.fields, value)
    if type(value) is list and view.items is not None:
        return MEMBER if view.items.atomic else _owned_items(view.items, value)
    form = part(view, value)
    return {} if (type(form) is MapView or type(form) is ListView) and not form.atomic else MEMBER


def _owned_fields(view: MapView, value: dict[str, Value]) -> Tree:
    tree: Tree = {}
    declared, others = view.declared, view.others
    for name, inner in value.items():
        child = declared.get(name)
        if type(inner) in SCALARS and (child is None or child.scalar is not None):
            tree["f:" + name] = MEMBER
            continue
        is_member = child is None or inner is None or (not inner and type(inner) is dict)
        if child is None:
            assert others is not None, f"{name} is checked to be allowed"
            child = others
        below = _owned(child, inner)
        if is_member and SELF not in below:
            below[SELF] = NOTHING
        if below:
            tree["f:" + name] = below
    return tree


def _owned_items(view: ListView, value: list[Value]) -> Tree:
    tree: Tree = {}
    elements = view.elements(value)
    repeated = _repeated(elements)
    for element, inner in zip(elements, value, strict=True):
        if element in repeated:
            tree[element] = MEMBER
            continue
        below = _owned(view.item, inner)
        if SELF not in below:
            below[SELF] = NOTHING
        tree[element] = below
    return tree


def every(view: SchemaView, value: Value) -> Tree:
    """The node of a value and all nodes below it, each a member; items that occur several times count as units."""
    form = part(view, value)
    if type(form) is MapView:
        if form.atomic or not value or type(value) is not dict:
            return MEMBER
        tree = {
            "f:" + name: MEMBER if child.scalar is not None and type(inner) in SCALARS else every(child, inner)
            for name, inner in value.items()
            if (child := form.at(name))
        }
    elif type(form) is ListView:
        if form.atomic or not value or type(value) is not list:
            return MEMBER
        elements = form.elements(value)
        repeated = _repeated(elements)
        tree = {
            element: MEMBER if element in repeated else every(form.item, inner)
            for element, inner in zip(elements, value, strict=True)
        }
    else:
        return MEMBER
    tree[SELF] = NOTHING
    return tree


def _repeated(elements: list[str]) -> set[str]:
    if len(set(elements)) == len(elements):
        return set()
    return {element for element, count in Counter(elements).items() if count > 1}


def with_declared_parents(view: SchemaView | None, tree: Tree) -> Tree:
    """A set, and the declared fields that have members below them.

    What an apply names without owning it, such as `spec`, counts where sets are compared to find what to remove.
    """
    made: Tree = {}
    fields = view.fields if view is not None else None
    items = view.items if view is not None else None
    for element, below in tree.items():
        if element == SELF or (len(below) == 1 and SELF in below):
            made[element] = below
            continue
        child: SchemaView | None = None
        kind = element[:2]
        if kind == "f:" and fields is not None:
            child = fields.at(element[2:])
        elif kind == "k:" and items is not None:
            child = items.item
        filled = with_declared_parents(child, below)
        if kind == "f:" and fields is not None and SELF not in filled and element[2:] in fields.declared:
            filled[SELF] = NOTHING
        made[element] = filled
    return made
