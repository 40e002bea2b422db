# SPDX-License-Identifier: Apache-2.0
"""The operations of a resource: what kubectl looks for before it writes, and where `kubectl explain` finds kinds."""

from collections.abc import Iterator
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.schema.published.kinds import Subresource

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
