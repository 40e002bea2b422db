# SPDX-License-Identifier: Apache-2.0
"""Fields of documents by their paths, and changes of them that a server is asked to take."""

import re
from collections.abc import Iterator
from typing import Any

from trainwright.controller.local.apiserver.kinds.strategy import held_structs
from trainwright.controller.local.types.model import published_models, reference_of

Document = dict[str, Any]

_ONE_PODS = "io.k8s.api.core.v1.PodTemplateSpec"
_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"


def paths_of(document: Document, model: str, prefix: str = "") -> Iterator[str]:
    """The paths of what a document says, with `[*]` for items; not in metadata and pod templates."""
    inner, properties = held_structs(model), _properties(model)
    for name, value in document.items():
        if not prefix and name in ("apiVersion", "kind", "metadata", "status"):
            continue
        path = f"{prefix}{name}"
        yield path
        held = inner.get(name) or reference_of(properties.get(name) or {})
        if held in (_ONE_PODS, _SELECTOR):
            continue
        if held and isinstance(value, dict):
            yield from paths_of(value, held, f"{path}.")
        elif isinstance(value, list) and value:
            if held and isinstance(value[0], dict):
                yield from paths_of(value[0], held, f"{path}[*].")
            elif isinstance(value[0], str):
                yield f"{path}[*]"


def scalar_paths(model: str, prefix: str = "") -> Iterator[str]:
    """Those of an object and of what it holds, not deeper."""
    for name, schema in _properties(model).items():
        held = reference_of(schema)
        if held and not prefix:
            yield from scalar_paths(held, f"{name}.")
        elif schema.get("type") in ("string", "integer", "boolean"):
            yield f"{prefix}{name}"


def schema_at(model: str, path: str) -> Document:
    schema: Document = {}
    for step in path.split("."):
        name, each, _ = step.partition("[*]")
        schema = _properties(model).get(name) or {}
        if each:
            schema = schema.get("items") or {}
        model = reference_of(schema)
    return schema


def _properties(model: str) -> Document:
    return published_models().get(model, {}).get("properties") or {}


def _steps(path: str) -> list[str | int]:
    made: list[str | int] = []
    for step in path.split("."):
        name, each, _ = step.partition("[*]")
        made += [name, 0] if each else [name]
    return made


def value_at(document: Any, path: str) -> Any:
    for step in _steps(path):
        document = document[step]
    return document


def set_value(document: Any, path: str, value: Any) -> None:
    *way, last = _steps(path)
    for step in way:
        document = document[step]
    if value is None:
        del document[last]
    else:
        document[last] = value


def changes_of(document: Document, model: str) -> Iterator[tuple[str, Any]]:
    """Other values for single ones that are there, by their paths."""
    for path in paths_of(document, model):
        value = value_at(document, path)
        choices = [one for one in schema_at(model, path).get("enum") or () if one != value]
        yield from ((path, other) for other in _others(value, choices))
    if isinstance(document.get("spec"), dict) and isinstance(document["spec"].get("template"), dict):
        yield "spec.template.metadata.annotations", {"new": "x"}


def _others(value: Any, choices: list[str]) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, str):
        address = re.fullmatch(r"(\d+\.\d+\.\d+\.)(\d+)", value)
        return choices or [f"{address[1]}{int(address[2]) + 1}" if address else f"{value}x"]
    if isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values()):
        return [{**value, "new": "x"}]
    if isinstance(value, dict) and "matchLabels" in value:
        return [{**value, "matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    return []
