# SPDX-License-Identifier: Apache-2.0
"""The models of a document: published ones, and those that are made of the schemas of CRDs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.views.openapi.operations import PREFIX
from trainwright.controller.local.types.model import Schema, published_models

Document = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_KINDS = "x-kubernetes-group-version-kind"
_EVERYWHERE = ("DeleteOptions", "WatchEvent")
"""Models that are kinds of every group version."""
_NESTED = ("properties", "additionalProperties", "items", "allOf", "anyOf", "oneOf", "not")


def custom_model_name(resource: Resource, *, of_list: bool = False) -> str:
    """The name of a custom resource's model, such as `com.example.v1.Widget`."""
    group = ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{resource.kind}{'List' if of_list else ''}"


def custom_models(resource: Resource, schema: Schema) -> Document:
    """The models of a custom resource and of its list, by name.

    Args:
        resource: a served version of a CustomResourceDefinition.
        schema: its `openAPIV3Schema`.
    """
    name, list_name = custom_model_name(resource), custom_model_name(resource, of_list=True)
    own: Document = {**_completed(schema), _KINDS: [_kind(resource, resource.kind)]}
    own["properties"] = {**(own.get("properties") or {}), **_type_fields("ObjectMeta")}
    items = {"type": "array", "items": {"$ref": PREFIX + name}}
    listed = {
        "type": "object",
        "required": ["items"],
        "properties": {**_type_fields("ListMeta"), "items": items},
        _KINDS: [_kind(resource, f"{resource.kind}List")],
    }
    return {name: own, list_name: listed}


def _type_fields(metadata: str) -> Document:
    text = {"type": "string"}
    reference = {"allOf": [{"$ref": f"{PREFIX}{_META}.{metadata}"}]}
    return {"apiVersion": text, "kind": text, "metadata": reference}


def _kind(resource: Resource, kind: str) -> Document:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _completed(schema: Schema) -> Document:
    """A schema in which embedded resources have their type and metadata."""
    made: Document = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _completed(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            made[key] = _completed(value)
        else:
            made[key] = value
    if schema.get("x-kubernetes-embedded-resource") is True:
        made["properties"] = {**(made.get("properties") or {}), **_type_fields("ObjectMeta")}
    return made


def reachable(roots: Iterable[str], own: Mapping[str, Schema], group: str, version: str) -> Document:
    """The models that others refer to, with those themselves.

    Args:
        roots: names of models; one that there is not is left out.
        own: models beside the published ones.
        group: of the document; its DeleteOptions and WatchEvent are kinds of it too.
        version: of the document.
    """
    published = published_models()
    found: Document = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        model = own.get(name) or published.get(name)
        if name in found or model is None:
            continue
        found[name] = model
        waiting += _references(model)
    for kind in _EVERYWHERE:
        name = f"{_META}.{kind}"
        if group and name in found:
            kinds = [*found[name][_KINDS], {"group": group, "kind": kind, "version": version}]
            found[name] = {**found[name], _KINDS: kinds}
    return {name: found[name] for name in sorted(found)}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        for key in _NESTED:
            inner = value.get(key)
            if key == "properties" and isinstance(inner, Mapping):
                for schema in inner.values():
                    yield from _references(schema)
            elif inner is not None:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
