# SPDX-License-Identifier: Apache-2.0
"""The subresource `scale`: how many replicas an object asks for and has, whatever its kind.

Of built-in kinds it reads `spec.replicas`, `status.replicas` and `spec.selector`; of custom ones what the definition
names. Admission is asked about the Scale; what is validated and stored is the object.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource
"""

from copy import deepcopy
from functools import cache
from typing import Any

from trainwright.api.objects import Document, dig
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import ScalePaths
from trainwright.controller.local.apiserver.kinds.strategy import set_or_drop
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.merge.managedfields import Managed, Ownership, read_entries, write_entries
from trainwright.controller.local.apiserver.request.info import RequestInfo
from trainwright.controller.local.apiserver.views.reading import selector_text
from trainwright.controller.local.types.errors import invalid
from trainwright.controller.local.types.go_json import zero
from trainwright.controller.local.types.model import builtin, models_by_kind

_VERSION, _KIND = "autoscaling/v1", "Scale"
_OWN = {"scale": (_VERSION, _KIND), "binding": ("v1", "Binding")}
"""Subresources whose bodies have a kind, and so owners, of their own; those in other groups are of the resource."""
_BUILT_IN = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_REPLICAS = fieldset.of(("f:spec", "f:replicas"))
_UNSAID = -(2**31)
"""Replicas of a custom object that says none, as a write at its Scale finds them."""


def is_scale(call: RequestInfo) -> bool:
    """Whether a call is about the Scale of an object, and not about the object."""
    return call.subresource == "scale"


def at_endpoint(call: RequestInfo, document: Document) -> Document:
    """An object as writes at the endpoint of the call see it: at `scale`, its Scale."""
    return _scale_of(call, document) if is_scale(call) else document


def shown_at_endpoint(call: RequestInfo, document: Document) -> Document:
    """The same as clients see it: a Scale does not say who owns its field."""
    shown = at_endpoint(call, document)
    if is_scale(call):
        del shown["metadata"]["managedFields"]
    return shown


def read_at_endpoint(call: RequestInfo, document: Document) -> Document:
    """The same where it is only read. Raises StatusError where a custom object says no replicas; writes begin there."""
    path = (call.resource.scale or _BUILT_IN).spec
    if is_scale(call) and call.resource.custom and dig(document, path) is None:
        raise errors.internal(f'the spec replicas field ".{path}" does not exist')
    return shown_at_endpoint(call, document)


def manager_of(call: RequestInfo) -> FieldManager | None:
    """Who tracks the owners of fields at the endpoint of a call; None where nobody does."""
    return _manager(call.subresource) if call.subresource in _OWN else call.resource.managers.get(call.subresource)


@cache
def _manager(subresource: str) -> FieldManager:
    version, kind = _OWN[subresource]
    model = models_by_kind()[version, kind]
    if subresource != "scale":
        return FieldManager(builtin(model), version, kind, subresource=subresource)
    # Nobody owns what the object itself says: its status, and a number of replicas that is not there.
    reset, empty = fieldset.of(("f:status",)), zero(model, apiVersion=version, kind=kind)
    return FieldManager(builtin(model), version, kind, subresource=subresource, reset=reset, empty=empty)


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
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    owners = read_entries(meta.get("managedFields"))
    of_scale = Managed(times=owners.times)
    for who, owned in owners.owners.items():
        if fieldset.has(owned.fields, _steps(paths)):
            of_scale.owners[who] = Ownership(_REPLICAS, _VERSION, owned.applied)
    return {
        "kind": _KIND,
        "apiVersion": _VERSION,
        "metadata": {**{name: meta[name] for name in kept if meta.get(name)}, "managedFields": write_entries(of_scale)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": dig(document, paths.status) or 0, **({"selector": selector} if selector else {})},
    }


def _steps(paths: ScalePaths) -> tuple[str, ...]:
    """Of the path of the replicas, as managed fields name them."""
    return tuple(f"f:{name}" for name in paths.spec.split("."))


def _entries(call: RequestInfo, paths: ScalePaths, own: Document, scale: Document) -> list[Document]:
    """The managed fields of an object, in which those of its Scale say who owns the replicas."""
    managed, of_scale = read_entries(own.get("managedFields")), read_entries(scale.get("managedFields"))
    replicas, version = fieldset.of(_steps(paths)), call.resource.api_version
    for who, owned in list(managed.owners.items()):
        if rest := fieldset.difference(owned.fields, replicas):
            managed.owners[who] = owned.with_fields(rest)
        else:
            del managed.owners[who]
    for who, owned in of_scale.owners.items():
        # Who owned the replicas in the object, too, gets an entry beside the own one, as on the real server.
        managed.owners[who] = Ownership(replicas, version, owned.applied)
    return write_entries(managed)


def scaled(call: RequestInfo, live: Document, scale: Document) -> Document:
    """The object with the replicas, and the version, that a Scale says.

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
    meta, said = made["metadata"], scale["metadata"]
    meta["resourceVersion"] = said.get("resourceVersion") or meta["resourceVersion"]
    set_or_drop(meta, "managedFields", _entries(call, paths, meta, said) or None)
    if replicas < 0:
        found = list(call.resource.strategy.errors([], made, live, ""))
        found.append(invalid(f".{paths.spec}", replicas, "should be a non-negative integer"))
        raise errors.invalid(call.group, call.kind, call.name, found)
    return made
