# SPDX-License-Identifier: Apache-2.0
"""Fields taken out of a document.

What loses its last field or item becomes null, as in structured merge. Documents are not changed.
"""

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import Tree
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import Value


def remove(view: SchemaView, value: Value, fields: Tree) -> Value:
    """The value without the members of a set, which is not empty."""
    form = part(view, value)
    if type(form) is MapView:
        if form.atomic or not value or type(value) is not dict:
            return None
        return _remove_fields(form, value, fields)
    if type(form) is ListView:
        if form.atomic or not value or type(value) is not list:
            return None
        return _remove_items(form, value, fields)
    return value


def _remove_fields(view: MapView, value: dict[str, Value], fields: Tree) -> dict[str, Value] | None:
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


def _remove_items(view: ListView, value: list[Value], fields: Tree) -> list[Value] | None:
    left: list[Value] = []
    for element, item in zip(view.elements(value), value, strict=True):
        below = fields.get(element)
        if below is None:
            left.append(item)
        elif SELF not in below:
            left.append(remove(view.item, item, below))
    return left or None
