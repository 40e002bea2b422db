# SPDX-License-Identifier: Apache-2.0
"""Builds small objects, for real servers and for scripts."""

import itertools
from collections.abc import Mapping
from typing import Any, TypeVar, overload

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import AnyObject, Document, name_of, owner_reference, uid_of, wire
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import resource_of

ModelT = TypeVar("ModelT", bound=Object)

_numbers = itertools.count(1)


@overload
def build(kind: type[ModelT], name: str = "", namespace: str | None = None, **parts: Any) -> ModelT: ...
@overload
def build(kind: Resource, name: str = "", namespace: str | None = None, **parts: Any) -> Document: ...
def build(
    kind: type[Object] | Resource,
    name: str = "",
    namespace: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    owner: AnyObject | None = None,
    version: str = "",
    uid: str = "",
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Any:
    """An object of any kind: the model if one is given, a dictionary in wire form for a `Resource`.

    Example:
        job = build(Job, owner=web, labels={"app": "web"}, spec={"template": template})

    Args:
        kind: a model or a Resource.
        name: default: a unique one, such as `job-7`.
        namespace: default: `default`, and none for cluster-scoped kinds.
        labels: `metadata.labels`.
        owner: becomes the controller; needs a `uid`.
        version: resourceVersion of an object that looks stored; for scripts, because servers refuse to create it.
        uid: default with `version`: made of the name.
        metadata: other fields of the metadata, by wire names.
        fields: `spec`, `data`, … by wire names; documents or models.

    Raises:
        ConfigurationError: the owner has no uid, or `kind` is not a kind.
        ValueError: a namespace for a cluster-scoped kind, or a field that the model does not have.
        msgspec.ValidationError: a value does not fit the model; with its path.
    """
    resource = resource_of(kind)
    if namespace and not resource.namespaced:
        raise ValueError(f"{resource.kind} is cluster-scoped: do not pass a namespace")
    name = name or f"{resource.kind.lower()}-{next(_numbers)}"
    meta: Document = {"name": name}
    if resource.namespaced:
        meta["namespace"] = namespace or "default"
    if labels:
        meta["labels"] = dict(labels)
    if version:
        meta |= {"resourceVersion": version, "uid": uid or f"uid-{name}"}
    elif uid:
        meta["uid"] = uid
    if owner is not None:
        if not uid_of(owner):
            raise ConfigurationError(f"the owner {name_of(owner)} has no uid: give it one, or a version")
        meta["ownerReferences"] = [owner_reference(owner, _resource_of_object(owner))]
    meta |= metadata or {}
    given = {name: value for name, value in fields.items() if value is not None}
    document: Document = msgspec.to_builtins(
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **given}
    )
    if isinstance(kind, Resource):
        return document
    made = msgspec.convert(document, kind)
    if (kept := wire(made)) != document:
        raise ValueError(f"{resource.kind} has no field {_lost(document, kept)}")
    return made


def config_map(
    name: str,
    namespace: str = "default",
    *,
    data: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    version: str = "",
    uid: str = "",
    owner: Document | None = None,
    **metadata: Any,
) -> Document:
    """A ConfigMap in wire form, the smallest object; see `build`."""
    about: dict[str, Any] = {"labels": labels, "version": version, "uid": uid, "owner": owner, "metadata": metadata}
    return build(ConfigMap.RESOURCE, name, namespace, **about, data=data)


def _resource_of_object(obj: AnyObject) -> Resource:
    if not isinstance(obj, dict):
        return resource_of(type(obj))
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return Resource(group=group, version=version, kind=obj["kind"], plural="", namespaced=True)


def _lost(given: Any, kept: Any, path: str = "") -> str:
    """Path of the first value of `given` that `kept` lacks."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name not in kept:
                return f"{path}.{name}".removeprefix(".")
            if value != kept[name]:
                return _lost(value, kept[name], f"{path}.{name}")
    if isinstance(given, list) and isinstance(kept, list):
        for index, (value, other) in enumerate(zip(given, kept, strict=False)):
            if value != other:
                return _lost(value, other, f"{path}[{index}]")
    return path.removeprefix(".")
