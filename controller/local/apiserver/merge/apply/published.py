# SPDX-License-Identifier: Apache-2.0
"""Empty objects of built-in kinds, which are Go structs on the real server.

A creation is compared with the empty object. That of a Pod holds `spec.containers` as null, so a manager that creates a
Pod owns the containers and not the list itself.
"""

from collections.abc import Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.openapi import Schema
from trainwright.controller.local.apiserver.merge.apply.versions import Document


def empty_object(models: Mapping[str, Schema], name: str, version: str, kind: str) -> Document:
    """The zero value of a built-in kind, as Go encodes it.

    Args:
        models: as `/openapi/v3` publishes them, with defaults: what is always encoded is required or has a default that
            is a zero value.
        name: of the kind's model.
        version: apiVersion of the object.
        kind: of the object.
    """
    return {"apiVersion": version, "kind": kind, **_zero(models, models[name])}


def _zero(models: Mapping[str, Schema], schema: Schema) -> Document:
    made: Document = {}
    required = schema.get("required") or ()
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    for field, inner in properties.items():
        default: Any = inner.get("default")
        if default == {}:
            made[field] = _zero(models, models[_reference(inner)])
        elif default in ("", 0, False) and default is not None:
            made[field] = default
        elif field in required and default is None:
            # A list, a map or a pointer.
            made[field] = None
    return made


def _reference(schema: Schema) -> str:
    reference: str = schema.get("$ref") or schema["allOf"][0]["$ref"]
    return reference.rpartition("/")[2]
