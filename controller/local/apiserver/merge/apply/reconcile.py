# SPDX-License-Identifier: Apache-2.0
"""Sets of fields brought in line with a schema that changed since they were written.

A field that became atomic is owned as a whole by every manager that owned something inside it. A field that became
granular keeps its owner until the next apply. Kubernetes does the same and advises against such a change.
"""

from functools import lru_cache

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import MEMBER, Branch, Tree
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


_known = lru_cache(maxsize=1024)(_node)


def _children(view: SchemaView, node: Tree) -> Tree:
    declared: dict[str, SchemaView] = {}
    if view.fields is not None:
        if view.fields.guessed:
            return node
        declared, others = view.fields.declared, view.fields.others
    elif view.scalar is None and view.items is not None:
        others = view.items.item
    else:
        return node
    changed: Tree | None = None
    for element, below in node.items():
        # A member with nothing below it is one unit already.
        if below is MEMBER or not below or (len(below) == 1 and SELF in below):
            continue
        child = declared.get(element[2:], others) if element[:2] == "f:" else others
        if child is None:
            continue
        now = _known(child, below) if type(below) is Branch else _node(child, below)
        if now is not below:
            if changed is None:
                changed = dict(node)
            changed[element] = now
    return node if changed is None else changed
