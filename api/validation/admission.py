# SPDX-License-Identifier: Apache-2.0
"""What an API server does to a document before it checks it: default, drop nulls, drop unknown fields."""

import copy
from typing import Any

from trainwright.api.validation.errors import Path, spoken
from trainwright.api.validation.schema import KindSchema, Schema, children


def prepare(kind: KindSchema, document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A copy of the document as it would be stored, and the paths of the fields that were dropped as unknown."""
    prepared = copy.deepcopy(document)
    dropped: list[str] = []
    _default(kind, kind.document, prepared)
    _drop_nulls(kind, kind.document, prepared)
    _prune(kind, kind.document, prepared, (), dropped)
    return prepared, dropped


def _default(kind: KindSchema, schema: Schema, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            resolved = kind.resolve(inner)
            if "default" in resolved and value.get(name) is None and not (name in value and resolved.get("nullable")):
                value[name] = copy.deepcopy(resolved["default"])
    for _, inner, part in children(kind, schema, value):
        _default(kind, inner, part)


def _drop_nulls(kind: KindSchema, schema: Schema, value: Any) -> None:
    for name, inner, part in list(children(kind, schema, value)):
        if part is None and isinstance(value, dict) and not inner.get("nullable"):
            del value[name]
        else:
            _drop_nulls(kind, inner, part)


def _prune(kind: KindSchema, schema: Schema, value: Any, path: Path, dropped: list[str]) -> None:
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for name in list(value):
            if kind.field(schema, name) is None:
                del value[name]
                dropped.append(spoken((*path, name)))
    for step, inner, part in children(kind, schema, value):
        _prune(kind, inner, part, (*path, step), dropped)
