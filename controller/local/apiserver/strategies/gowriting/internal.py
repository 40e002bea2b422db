# SPDX-License-Identifier: Apache-2.0
"""Values of fields in messages: the real server shows its internal structs, whose fields have their Go names."""

from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies.gowriting.shapes import Shape, fields_of

_GO_NAMES = {"apiGroup": "APIGroup", "apiVersion": "APIVersion", "ip": "IP", "uid": "UID"}


def internal(document: Document, struct: str) -> Document:
    """A document as the internal struct, where that has the same fields as the published one.

    Pod specifications have not: their host namespaces are elsewhere.
    """
    made: Document = {}
    for name, field in fields_of(struct).items():
        made[_GO_NAMES.get(name) or name[0].upper() + name[1:]] = _shown(document.get(name), field.shape)
    return made


def _shown(value: Any, shape: Shape) -> Any:
    if value is None:
        if shape.sort == "struct" and not shape.pointer:
            return internal({}, shape.struct)
        return shape.zero
    if shape.sort == "struct":
        return internal(value, shape.struct)
    if shape.sort == "list" and shape.item is not None:
        return [_shown(item, shape.item) for item in value]
    return value
