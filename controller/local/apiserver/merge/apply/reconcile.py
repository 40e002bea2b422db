# SPDX-License-Identifier: Apache-2.0
"""Sets of fields brought in line with a schema that changed since they were written.

A field that became atomic is owned as a whole by every manager that owned something inside it. A field that became
granular keeps its owner until the next apply. Kubernetes does the same and advises against such a change.
"""

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import MEMBER, Tree
from trainwright.controller.local.apiserver.merge.apply.schema import SchemaView


def reconcile(view: SchemaView, fields: Tree) -> Tree:
    """The set in terms of today's schema; the same object if nothing changed."""
    if view.fields is not None and view.fields.atomic:
        return fields
    return _children(view, fields)


def _node(view: SchemaView, node: Tree) -> Tree:
    if view.fields is not None:
        if view.fields.guessed:
            return node
        if view.fields.atomic:
            return MEMBER
    elif view.scalar is None and view.items is not None and view.items.atomic:
        return MEMBER
    return _children(view, node)


def _children(view: SchemaView, node: Tree) -> Tree:
    changed: Tree | None = None
    for element, below in node.items():
        # A member with nothing below it is one unit already.
        if not below or (len(below) == 1 and SELF in below):
            continue
        child = _child(view, element)
        if child is None:
            continue
        now = _node(child, below)
        if now is not below:
            if changed is None:
                changed = dict(node)
            changed[element] = now
    return node if changed is None else changed


def _child(view: SchemaView, element: str) -> SchemaView | None:
    if view.fields is not None:
        if view.fields.guessed:
            return None
        return view.fields.at(element[2:]) if element[:2] == "f:" else view.fields.others
    if view.scalar is None and view.items is not None:
        return view.items.item
    return None
