# SPDX-License-Identifier: Apache-2.0
"""OpenAPI v3 of the local cluster, as far as clients use it: validation and merging before writes, `kubectl explain`.

`index` lists the documents, `document` makes one. They are made on demand; the caller keeps them by what they are made
of.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.schema.published.kinds import Subresource
from trainwright.controller.local.types.model import Schema, models_by_kind, published_models

Document = dict[str, Any]

PREFIX = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_BODIES = ("application/json", "application/yaml")
_READ = ("resourceVersion",)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_SELECT = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch")
_LIST = (*_SELECT, "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds", "watch")
_BOOLEANS = frozenset({"allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch"})
_INTEGERS = frozenset({"gracePeriodSeconds", "limit", "timeoutSeconds"})
_METHODS = {"get": "get", "update": "put", "patch": "patch", "delete": "delete", "create": "post"}
_NAMES = {"get": "read", "put": "replace", "patch": "patch", "delete": "delete", "post": "create"}


def paths_of(resource: Resource, model: str, list_model: str) -> Iterator[tuple[str, Document]]:
    """The paths of a resource with their operations.

    Args:
        resource: the resource.
        model: the name of its model.
        list_model: the name of its list's model.
    """
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{inside}/{resource.plural}"
    verbs = resource.verbs
    made: Document = {}
    if "list" in verbs:
        made["get"] = _operation(resource, "list", f"list{_subject(resource)}", _LIST, list_model)
    if "create" in verbs:
        made["post"] = _operation(resource, "post", f"create{_subject(resource)}", _WRITE, model, _body(model))
    if "deletecollection" in verbs:
        name = f"delete{_subject(resource, collection=True)}"
        # kube-apiserver publishes neither options nor a body for collections of custom resources.
        parameters = _LIST if resource.custom else (*_SELECT, *_DELETE)
        options = None if resource.custom else _body(f"{_META}.DeleteOptions")
        made["delete"] = _operation(resource, "deletecollection", name, parameters, f"{_META}.Status", options)
    if verbs == ("create",):
        # For kubectl, which believes only PATCH operations when it asks whether a kind is validated by the server. It
        # would validate by the models of `/openapi/v2` next, which kube-apiserver has and this server has not.
        name = f"patch{_subject(resource)}"
        made["patch"] = _operation(resource, "patch", name, (*_WRITE, "force"), model, _patch_body(resource))
    yield collection, {**made, "parameters": _path_parameters(resource, named=False)}
    item = _item(resource, model)
    if item:
        path = f"{collection}/{{name}}"
        yield path, {**item, "parameters": _path_parameters(resource, named=True)}
    for _, subresource in sorted(resource.subresources.items()):
        operations = _subresource(resource, subresource, model)
        path = f"{collection}/{{name}}/{subresource.name}"
        yield path, {**operations, "parameters": _path_parameters(resource, named=True)}
    if resource.namespaced and "list" in verbs:
        name = f"list{_subject(resource, everywhere=True)}"
        everywhere = {"get": _operation(resource, "list", name, _LIST, list_model)}
        yield f"{root}/{resource.plural}", {**everywhere, "parameters": []}


def _item(resource: Resource, model: str) -> Document:
    made: Document = {}
    verbs, subject = resource.verbs, _subject(resource)
    if "get" in verbs:
        made["get"] = _operation(resource, "get", f"read{subject}", _READ if resource.custom else (), model)
    if "update" in verbs:
        made["put"] = _operation(resource, "put", f"replace{subject}", _WRITE, model, _body(model))
    if "delete" in verbs:
        options = _body(f"{_META}.DeleteOptions")
        made["delete"] = _operation(resource, "delete", f"delete{subject}", _DELETE, f"{_META}.Status", options)
    if "patch" in verbs:
        made["patch"] = _operation(
            resource, "patch", f"patch{subject}", (*_WRITE, "force"), model, _patch_body(resource)
        )
    return made


def _subresource(resource: Resource, subresource: Subresource, model: str) -> Document:
    kind = subresource.kind or resource.kind
    group = subresource.group if subresource.version else resource.group
    of_kind = {"group": group, "version": subresource.version or resource.version, "kind": kind}
    # Exec is a connection, which has options and no body.
    connects = kind.endswith("Options")
    own = kind == resource.kind
    suffix = f"{resource.kind}{subresource.name.capitalize()}"
    made: Document = {}
    for verb in subresource.verbs:
        method = _METHODS[verb]
        name = f"{_NAMES[method]}{_subject(resource, suffix)}"
        parameters: tuple[str, ...] = ()
        body = None
        if connects:
            name = f"connect{_subject(resource, suffix, method)}"
        elif method == "patch":
            parameters, body = (*_WRITE, "force"), _patch_body(resource)
        elif method in ("put", "post"):
            parameters, body = _WRITE, _body(model if own else f"io.k8s.api.{_package(group)}.{kind}")
        action = "connect" if connects else method
        made[method] = _operation(resource, action, name, parameters, model if own else "", body)
        made[method]["x-kubernetes-group-version-kind"] = of_kind
    return made


def _package(group: str) -> str:
    """The part of a model's name that stands for a built-in group, in v1."""
    return f"{group.partition('.')[0] or 'core'}.v1"


def _operation(
    resource: Resource,
    action: str,
    name: str,
    parameters: tuple[str, ...],
    answer: str,
    body: Document | None = None,
) -> Document:
    made: Document = {"operationId": name}
    if parameters:
        made["parameters"] = [_query_parameter(parameter) for parameter in sorted(parameters)]
    if body is not None:
        made["requestBody"] = body
    ok: Document = {"description": "OK"}
    if answer:
        ok["content"] = {body: {"schema": {"$ref": PREFIX + answer}} for body in _BODIES}
    made["responses"] = {"200": ok, "401": {"description": "Unauthorized"}}
    made["x-kubernetes-action"] = action
    made["x-kubernetes-group-version-kind"] = {
        "group": resource.group,
        "version": resource.version,
        "kind": resource.kind,
    }
    return made


def _subject(
    resource: Resource, kind: str = "", method: str = "", *, collection: bool = False, everywhere: bool = False
) -> str:
    """The rest of an operation's identifier, such as `CoreV1NamespacedPod`."""
    group = resource.group.removesuffix(".k8s.io") or "core"
    words = [*group.split("."), resource.version, method, "collection" if collection else ""]
    if resource.namespaced and not everywhere:
        words.append("namespaced")
    name = "".join(word[:1].upper() + word[1:] for word in words) + (kind or resource.kind)
    return f"{name}ForAllNamespaces" if everywhere else name


def _body(model: str) -> Document:
    return {"content": {body: {"schema": {"$ref": PREFIX + model}} for body in _BODIES}, "required": True}


def _patch_body(resource: Resource) -> Document:
    types = _PATCHES if resource.custom else (*_PATCHES, _STRATEGIC)
    return {"content": {body: {"schema": {"$ref": f"{PREFIX}{_META}.Patch"}} for body in types}, "required": True}


def _query_parameter(name: str) -> Document:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(resource: Resource, *, named: bool) -> list[Document]:
    names = (["name"] if named else []) + (["namespace"] if resource.namespaced else [])
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in names
    ]


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


_ROOTS = tuple(f"{_META}.{name}" for name in ("DeleteOptions", "Patch", "Status", "WatchEvent"))


def document_path(group: str, version: str) -> str:
    """The path of a document below `/openapi/v3/`, which is its key in the index."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(hashes: Mapping[str, str]) -> Document:
    """`/openapi/v3`.

    Args:
        hashes: a text per document (`document_path`) that changes with it. Clients keep a document for as long as its
            hash is the same, and a request with another one is redirected.
    """
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashes[path]}"} for path in sorted(hashes)}
    }


def document(resources: Iterable[Resource], kubernetes_version: str) -> Document:
    """`/openapi/v3/<path>`: what there is in a group version.

    Args:
        resources: the resources of one group version; at least one.
        kubernetes_version: such as `1.36`.
    """
    served = list(resources)
    first = served[0]
    own: Document = {}
    paths: Document = {}
    roots = [*_ROOTS]
    for resource in served:
        if resource.custom:
            own |= custom_models(resource, resource.schema or {})
            model, list_model = custom_model_name(resource), custom_model_name(resource, of_list=True)
        else:
            names = models_by_kind()
            model = resource.model
            list_model = names.get((resource.api_version, f"{resource.kind}List"), "")
        roots += (model, list_model, *_kinds_of_subresources(resource))
        paths.update(paths_of(resource, model, list_model))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version},
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {"schemas": reachable(roots, own, first.group, first.version)},
    }


def _kinds_of_subresources(resource: Resource) -> Iterable[str]:
    names = models_by_kind()
    for _, subresource in sorted(resource.subresources.items()):
        group = subresource.group if subresource.version else resource.group
        version = subresource.version or resource.version
        found = names.get((f"{group}/{version}" if group else version, subresource.kind))
        if found is not None:
            yield found
