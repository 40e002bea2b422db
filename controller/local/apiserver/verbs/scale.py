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
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.views.reading import selector_text
from trainwright.controller.local.types.errors import invalid

_BUILT_IN = ScalePaths("spec.replicas", "status.replicas", "spec.selector")


def is_scale(call: RequestInfo) -> bool:
    """Whether a call is about the Scale of an object, and not about the object."""
    return call.subresource == "scale"


def at_endpoint(call: RequestInfo, document: Document) -> Document:
    """An object as the endpoint of the call shows it: at `scale`, its Scale. Raises StatusError."""
    return scale_of(call, document) if is_scale(call) else document


def scale_of(call: RequestInfo, document: Document) -> Document:
    """The Scale of an object. Raises StatusError where a custom one does not say how many replicas it wants."""
    paths, meta = call.resource.scale or _BUILT_IN, document["metadata"]
    replicas = dig(document, paths.spec)
    if replicas is None and call.resource.custom:
        raise errors.internal(f'the spec replicas field ".{paths.spec}" does not exist')
    selector: Any = dig(document, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        # ReplicationControllers have a map in its place.
        is_map = not selector.keys() & {"matchLabels", "matchExpressions"}
        selector = selector_text({"matchLabels": selector} if is_map else selector)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in kept if meta.get(field)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": dig(document, paths.status) or 0, **({"selector": selector} if selector else {})},
    }


def scaled(call: RequestInfo, live: Document, scale: Document) -> Document:
    """The object with the replicas, and the version, that a Scale says. Raises StatusError for a negative number."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not call.resource.custom:
        found = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise errors.invalid("autoscaling", "Scale", call.name, found)
    made, path = deepcopy(live), (call.resource.scale or _BUILT_IN).spec
    *parents, last = path.split(".")
    part = made
    for name in parents:
        part = part.setdefault(name, {})
    part[last] = replicas
    made["metadata"]["resourceVersion"] = (
        scale["metadata"].get("resourceVersion") or live["metadata"]["resourceVersion"]
    )
    if replicas < 0:
        found = list(call.resource.strategy.errors([], made, live, ""))
        found.append(invalid(f".{path}", replicas, "should be a non-negative integer"))
        raise errors.invalid(call.group, call.kind, call.name, found)
    return made
