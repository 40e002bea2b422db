# SPDX-License-Identifier: Apache-2.0
"""The part of a document that a manager owns. Clients use it to find what they applied:
https://kubernetes.io/docs/reference/using-api/server-side-apply/#using-server-side-apply-in-a-controller
"""

from trainwright.controller.local.apiserver.merge.apply.element import SELF
from trainwright.controller.local.apiserver.merge.apply.fieldset import Tree, leaves
from trainwright.controller.local.apiserver.merge.apply.schema import ListView, MapView, SchemaView, part
from trainwright.controller.local.apiserver.merge.apply.values import Value


def extract(view: SchemaView, document: Value, fields: Tree) -> Value:
    """The fields of a set alone, keys of items only if they are in it; null where nothing is left."""
    return _extract(view, document, leaves(fields))


def _extract(view: SchemaView, value: Value, fields: Tree) -> Value:
    form = part(view, value)
    if type(form) is MapView and type(value) is dict:
        return value if form.atomic or not value else _extract_fields(form, value, fields)
    if type(form) is ListView and type(value) is list:
        return value if form.atomic or not value else _extract_items(form, value, fields)
    return None if type(form) in (MapView, ListView) else value


def _extract_fields(view: MapView, value: dict[str, Value], fields: Tree) -> dict[str, Value] | None:
    kept: dict[str, Value] = {}
    for name, inner in value.items():
        below, child = fields.get("f:" + name), view.at(name)
        if below is not None and child is not None:
            # Below a member, structured merge goes on with the set around it. It shows only where the member is no
            # leaf of the document, as when the document changed since.
            kept[name] = _extract(child, inner, fields if SELF in below else below)
    return kept or None


def _extract_items(view: ListView, value: list[Value], fields: Tree) -> list[Value] | None:
    kept: list[Value] = []
    for item in value:
        below = fields.get(view.element_or_invalid(item))
        if below is not None:
            inside = {element: deeper for element, deeper in below.items() if element != SELF}
            kept.append(_extract(view.item, item, inside) if inside else item)
    return kept or None
