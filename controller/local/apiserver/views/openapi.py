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
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_SELECT = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch")
_LIST = (*_SELECT, "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds", "watch")
_BOOLEANS = frozenset({"allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch"})
_INTEGERS = frozenset({"gracePeriodSeconds", "limit", "timeoutSeconds"})
_OPERATIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "list": ("get", "list", _LIST),
    "create": ("post", "create", _WRITE),
    "deletecollection": ("delete", "delete", (*_SELECT, *_DELETE)),
    "get": ("get", "read", ()),
    "update": ("put", "replace", _WRITE),
    "delete": ("delete", "delete", _DELETE),
    "patch": ("patch", "patch", (*_WRITE, "force")),
}
"""By verb: the method, the first word of the operation's name, and the parameters of the query."""
_OF_COLLECTIONS = ("list", "create", "deletecollection")


def paths_of(resource: Resource, model: str, list_model: str) -> Iterator[tuple[str, Document]]:
    """The paths of a resource with their operations.

    Args:
        resource: the resource.
        model: the name of its model.
        list_model: the name of its list's model.
    """
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = "/namespaces/{namespace}" if resource.namespaced else ""
    collection, verbs = f"{root}{inside}/{resource.plural}", resource.verbs

    def made(wanted: Iterable[str]) -> Document:
        of_verb = {verb: list_model if verb == "list" else model for verb in wanted}
        return {_OPERATIONS[verb][0]: _operation(resource, verb, answer) for verb, answer in of_verb.items()}

    on_all = made(verb for verb in _OF_COLLECTIONS if verb in verbs)
    if verbs == ("create",):
        # For kubectl, which believes only PATCH operations when it asks whether a kind is validated by the server. It
        # would validate by the models of `/openapi/v2` next, which kube-apiserver has and this server has not.
        on_all |= made(["patch"])
    yield collection, {**on_all, "parameters": _path_parameters(resource)}
    of_path = {"parameters": _path_parameters(resource, "name")}
    if on_one := made(verb for verb in verbs if verb in _OPERATIONS and verb not in _OF_COLLECTIONS):
        yield f"{collection}/{{name}}", {**on_one, **of_path}
    for _, sub in sorted(resource.subresources.items()):
        of_sub = {_OPERATIONS[verb][0]: _operation(resource, verb, model, sub=sub) for verb in sub.verbs}
        yield f"{collection}/{{name}}/{sub.name}", {**of_sub, **of_path}
    if resource.namespaced and "list" in verbs:
        everywhere = _operation(resource, "list", list_model, everywhere=True)
        yield f"{root}/{resource.plural}", {"get": everywhere, "parameters": []}


def _operation(
    resource: Resource, verb: str, model: str, *, sub: Subresource | None = None, everywhere: bool = False
) -> Document:
    """An operation whose body and answer are of a model, or of the kind of a subresource."""
    method, name, parameters = _OPERATIONS[verb]
    action = {"list": verb, "deletecollection": verb}.get(verb, method)
    group, version, kind = resource.group, resource.version, resource.kind
    words, answer, of_model = [name], model, model
    if sub is not None:
        kind = sub.kind or kind
        group, version = (sub.group if sub.version else group), sub.version or version
        parameters = () if verb == "get" else parameters
        if kind != resource.kind:
            answer, of_model = "", f"io.k8s.api.{group.partition('.')[0] or 'core'}.v1.{kind}"
        if kind.endswith("Options"):
            # Exec is a connection, which has options and no body.
            verb, action, words, parameters = "connect", "connect", ["connect", method], ()
    elif resource.custom:
        # kube-apiserver publishes neither options nor a body for collections of custom resources.
        parameters = {"get": ("resourceVersion",), "deletecollection": _LIST}.get(verb, parameters)
    made: Document = {"operationId": _identifier(resource, words, verb, sub, everywhere=everywhere)}
    if parameters:
        made["parameters"] = [_parameter(name, "query") for name in sorted(parameters)]
    if verb == "patch":
        types = _PATCHES if resource.custom else (*_PATCHES, _STRATEGIC)
        made["requestBody"] = {"content": _content(f"{_META}.Patch", types), "required": True}
    elif verb in ("create", "update"):
        made["requestBody"] = {"content": _content(of_model), "required": True}
    elif verb == "delete" or (verb == "deletecollection" and not resource.custom):
        made["requestBody"] = {"content": _content(f"{_META}.DeleteOptions"), "required": True}
    if method == "delete":
        answer = f"{_META}.Status"
    ok: Document = {"description": "OK", **({"content": _content(answer)} if answer and verb != "connect" else {})}
    made["responses"] = {"200": ok, "401": {"description": "Unauthorized"}}
    made["x-kubernetes-action"] = action
    made[_KINDS] = {"group": group, "version": version, "kind": kind}
    return made


def _identifier(resource: Resource, words: list[str], verb: str, sub: Subresource | None, *, everywhere: bool) -> str:
    """Such as `createCoreV1NamespacedPod`."""
    group = resource.group.removesuffix(".k8s.io") or "core"
    begin, *method = words
    collection = ["collection"] if verb == "deletecollection" else []
    inside = ["namespaced"] if resource.namespaced and not everywhere else []
    parts = [*group.split("."), resource.version, *method, *collection, *inside]
    name = "".join(part[:1].upper() + part[1:] for part in parts)
    suffix = sub.name.capitalize() if sub is not None else "ForAllNamespaces" if everywhere else ""
    return f"{begin}{name}{resource.kind}{suffix}"


def _content(model: str, types: Iterable[str] = _BODIES) -> Document:
    return {media: {"schema": {"$ref": PREFIX + model}} for media in types}


def _parameter(name: str, place: str) -> Document:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(resource: Resource, *names: str) -> list[Document]:
    return [_parameter(name, "path") for name in (*names, *(["namespace"] if resource.namespaced else []))]


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
