# SPDX-License-Identifier: Apache-2.0
"""Documents in messages: the real server shows its internal structs, whose fields have their Go names and order."""

import json
from functools import cache
from importlib import resources
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.gowriting.shapes import PACKAGE, GoShape, fields_of, shape_of

_POD_SPEC, _CONTEXT = "core.PodSpec", "securityContext"
_PUBLISHED = "meta/"
"""Structs that have no internal form: they are shown as on the wire."""


def internal(document: Document, struct: str) -> Document:
    """A document as an internal struct.

    Args:
        document: in the form in which it is stored.
        struct: the key of the struct in the table that `hack/go_types.py` makes, such as `core.PodSpec`, or of one that
            has no internal form, such as `meta/v1.LabelSelector`.
    """
    if struct.startswith(_PUBLISHED):
        return _as_published(document, struct)
    if struct == _POD_SPEC:
        document = {**document, _CONTEXT: _security_context(document)}
    made: Document = {}
    for name, (wire, shape) in _fields_of(struct).items():
        if name == "metadata":
            # It is embedded, so its fields are among those of the struct.
            made |= _as_published(document.get(wire) or {}, shape.struct)
        else:
            made[name] = _shown(document.get(wire), shape)
    return made


def _security_context(spec: Document) -> Document:
    """The internal one, which every pod has, and which holds the host namespaces."""
    moved = {wire: spec.get(wire) for wire, _ in _fields_of("core.PodSecurityContext").values()}
    context: Document = spec.get(_CONTEXT) or {}
    return {**moved, **context}


def _shown(value: Any, shape: GoShape) -> Any:
    if value is None:
        if shape.sort == "struct" and not shape.pointer:
            return internal({}, shape.struct)
        return shape.zero
    if shape.sort == "struct":
        return internal(value, shape.struct)
    if shape.sort == "list" and shape.item is not None:
        return [_shown(item, shape.item) for item in value]
    if shape.sort == "map" and shape.item is not None:
        return {key: _shown(value[key], shape.item) for key in sorted(value)}
    return value


def _as_published(document: Document, struct: str) -> Document:
    """With the fields in the order of the struct."""
    known = fields_of(struct)
    return {name: _shown(document[name], known[name].shape) for name in known if name in document}


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(PACKAGE).joinpath("go_internal.schema.json").read_text()
    table: dict[str, dict[str, str]] = json.loads(text)
    return table


@cache
def _fields_of(struct: str) -> dict[str, tuple[str, GoShape]]:
    """Names on the wire and types by Go names."""
    made: dict[str, tuple[str, GoShape]] = {}
    for name, text in _table()[struct].items():
        wire, _, expression = text.partition(" ")
        made[name] = (wire, shape_of(expression))
    return made
