# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3: the models whole, and of the operations what kubectl reads before writes and for `kubectl explain`.

`index` lists the documents, `document` makes one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.types.model import Schema, models_by_kind, published_models

Document = dict[str, Any]

PREFIX = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_KINDS = "x-kubernetes-group-version-kind"
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_METHODS = {"get": "get", "update": "put", "delete": "delete", "patch": "patch"}
"""By verb on one object."""
_COLLECTION_METHODS = {"list": "get", "create": "post", "deletecollection": "delete"}
_PATCH_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def paths_of(resource: Resource) -> Iterator[tuple[str, Document]]:
    """The paths of a resource, with what kubectl looks for in their operations: the kind, and how it is patched."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    collection = f"{root}{'/namespaces/{namespace}' if resource.namespaced else ''}/{resource.plural}"
    on_all = {method for verb, method in _COLLECTION_METHODS.items() if verb in resource.verbs}
    if resource.verbs == ("create",):
        # For kubectl, which believes only PATCH operations when it asks whether a kind is validated by the server. It
        # would validate by the models of `/openapi/v2` next, which kube-apiserver has and this server has not.
        on_all.add("patch")
    yield collection, _operations(resource, on_all)
    if on_one := {method for verb, method in _METHODS.items() if verb in resource.verbs}:
        yield f"{collection}/{{name}}", _operations(resource, on_one)


def _operations(resource: Resource, methods: Iterable[str]) -> Document:
    kind, responses = _kind(resource, resource.kind), {"200": {"description": "OK"}}
    made: Document = {method: {"responses": responses, _KINDS: kind} for method in sorted(methods)}
    if "patch" in made:
        types = _PATCHES if resource.custom else (*_PATCHES, _STRATEGIC)
        content = {media: {"schema": {"$ref": f"{PREFIX}{_META}.Patch"}} for media in types}
        made["patch"]["requestBody"] = {"content": content, "required": True}
        made["patch"]["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}}
            for name in _PATCH_PARAMETERS
        ]
    return made


def custom_model_name(resource: Resource, *, of_list: bool = False) -> str:
    """The name of a custom resource's model, such as `com.example.v1.Widget`."""
    group = ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{resource.kind}{'List' if of_list else ''}"


def custom_models(resource: Resource) -> Document:
    """The models of a custom resource and of its list, by name."""
    name, list_name = custom_model_name(resource), custom_model_name(resource, of_list=True)
    own: Document = {**_completed(resource.schema or {}), _KINDS: [_kind(resource, resource.kind)]}
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


def reachable(roots: Iterable[str], own: Mapping[str, Schema]) -> Document:
    """Models, own or published, and those that they refer to. Names that no model has are left out."""
    published = published_models()
    found: Document = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        model = own.get(name) or published.get(name)
        if name not in found and model is not None:
            found[name] = model
            waiting += _references(model)
    return {name: found[name] for name in sorted(found)}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _references(inner)


_ROOTS = tuple(f"{_META}.{name}" for name in ("DeleteOptions", "Patch", "Status", "WatchEvent"))


def document_path(group: str, version: str) -> str:
    """The path of a document below `/openapi/v3/`, which is its key in the index."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(hashes: Mapping[str, str]) -> Document:
    """`/openapi/v3`: the documents by path. Clients keep one for as long as the text that stands for it is the same."""
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"} for path in sorted(hashes)}
    }


def document(resources: Iterable[Resource], kubernetes_version: str) -> Document:
    """`/openapi/v3/<path>`: the resources of one group version, as of a version such as `1.36`."""
    names = models_by_kind()
    own: Document = {}
    paths: Document = {}
    roots = [*_ROOTS]
    for resource in resources:
        if resource.custom:
            own |= (models := custom_models(resource))
            roots += models
        else:
            roots += (resource.model, names.get((resource.api_version, f"{resource.kind}List"), ""))
        subs = resource.subresources.values()
        roots += (names.get((resource.api_version_of(sub), sub.kind), "") for sub in subs)
        paths.update(paths_of(resource))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version},
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {"schemas": reachable(roots, own)},
    }
