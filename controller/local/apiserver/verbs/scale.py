# SPDX-License-Identifier: Apache-2.0
"""The subresource `scale`: how many replicas an object asks for and has, whatever its kind.

Of built-in kinds it reads `spec.replicas`, `status.replicas` and `spec.selector`; of custom ones what the definition
names. Admission is asked about the Scale; what is validated and stored is the object.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource
"""

from copy import deepcopy
from typing import Any

from trainwright.api.objects import Document, dig
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import ScalePaths
from trainwright.controller.local.apiserver.request.info import RequestInfo
from trainwright.controller.local.apiserver.views.cells import selector_text
from trainwright.controller.local.types.errors import invalid

_BUILT_IN = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_UNSAID = -(2**31)
"""Replicas of a custom object that says none, as a write at its Scale finds them."""


def is_scale(call: RequestInfo) -> bool:
    """Whether a call is about the Scale of an object, and not about the object."""
    return call.subresource == "scale"


def at_endpoint(call: RequestInfo, document: Document) -> Document:
    """An object as writes at the endpoint of the call see it: at `scale`, its Scale."""
    return _scale_of(call, document) if is_scale(call) else document


def read_at_endpoint(call: RequestInfo, document: Document) -> Document:
    """The same where it is only read. Raises StatusError where a custom object says no replicas; writes begin there."""
    path = (call.resource.scale or _BUILT_IN).spec
    if is_scale(call) and call.resource.custom and dig(document, path) is None:
        raise errors.internal(f'the spec replicas field ".{path}" does not exist')
    return at_endpoint(call, document)


def _scale_of(call: RequestInfo, document: Document) -> Document:
    paths, meta = call.resource.scale or _BUILT_IN, document["metadata"]
    replicas = dig(document, paths.spec)
    if replicas is None and call.resource.custom:
        replicas = _UNSAID
    selector: Any = dig(document, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        # ReplicationControllers have a map in its place.
        is_map = not selector.keys() & {"matchLabels", "matchExpressions"}
        selector = selector_text({"matchLabels": selector} if is_map else selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in _METADATA if meta.get(name)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": dig(document, paths.status) or 0, **({"selector": selector} if selector else {})},
    }


def scaled(call: RequestInfo, live: Document, scale: Document, manager: str) -> Document:
    """The object with the replicas, and the version, that a Scale says; they belong to the manager.

    Raises StatusError for a negative number, or where the Scale of a custom object still says none.
    """
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not call.resource.custom:
        found = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise errors.invalid("autoscaling", "Scale", call.name, found)
    made, paths = deepcopy(live), call.resource.scale or _BUILT_IN
    if replicas == _UNSAID:
        raise errors.bad_request(f'the spec replicas field ".{paths.spec}" cannot be empty')
    *parents, last = paths.spec.split(".")
    part = made
    for name in parents:
        part = part.setdefault(name, {})
    part[last] = replicas
    if replicas < 0:
        found = list(call.resource.strategy.errors([], made, live, ""))
        found.append(invalid(f".{paths.spec}", replicas, "should be a non-negative integer"))
        raise errors.invalid(call.group, call.kind, call.name, found)
    made = call.resource.managers[""].at(call.subresource).update(live, made, manager, now=call.now)
    for entry in made["metadata"].get("managedFields") or ():
        if entry.get("subresource") == call.subresource:
            entry.pop("time", None)  # as on the real server
    if version := scale["metadata"].get("resourceVersion"):
        made["metadata"]["resourceVersion"] = version
    return made
