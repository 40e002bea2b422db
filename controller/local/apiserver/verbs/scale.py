# SPDX-License-Identifier: Apache-2.0
"""The subresource `scale`: how many replicas an object asks for and has, whatever its kind.

Of built-in kinds it reads `spec.replicas`, `status.replicas` and `spec.selector`; of custom ones what the definition
names. A write changes the object itself, so webhooks and policies are asked about that and not about a Scale.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from trainwright.api.objects import Document, dig
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.kinds.registry import ScalePaths
from trainwright.controller.local.apiserver.merge.errors import PatchError
from trainwright.controller.local.apiserver.merge.patch import json_patch, merge_patch, read_merge_patch
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo, negotiate
from trainwright.controller.local.apiserver.request.info import ServerResponse, write_options
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads, shown
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, track
from trainwright.controller.local.apiserver.views.reading import selector_text
from trainwright.controller.local.types.errors import invalid, invalid_unshown

_JSON_PATCH = "application/json-patch+json"
_PATCHES = (_JSON_PATCH, "application/merge-patch+json", "application/strategic-merge-patch+json")
_BUILT_IN = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_MOST = 2**31


class Scales:
    """Serves it."""

    def __init__(self, reads: ResourceReads, writes: ResourceWrites) -> None:
        self._reads = reads
        self._writes = writes

    async def serve(self, call: RequestInfo) -> ServerResponse:
        """Answer a GET, PUT or PATCH. Raises StatusError."""
        method = call.request.method
        wanted = negotiate(call)
        if method in ("GET", "HEAD"):
            stored = await self._reads.stored(call)
            return shown(call, _scale_of(call, call.resource.named(stored.document())), wanted)
        media = bodies.content_type(call.request.headers.get("content-type", ""))
        if method == "PATCH" and media not in _PATCHES:
            raise errors.unsupported_media_type(_PATCHES)
        if method not in ("PUT", "PATCH"):
            raise errors.method_not_allowed()
        options = write_options(call.request, "UpdateOptions" if method == "PUT" else "PatchOptions")
        of_object = replace(call, subresource="")

        async def transform(live: Document | None) -> Document:
            if live is None:
                raise call.not_found()
            before = _scale_of(call, live)
            scale = _patched(call, before, media) if method == "PATCH" else _read(call)
            version = (scale.get("metadata") or {}).get("resourceVersion")
            if version and version != before["metadata"]["resourceVersion"]:
                raise call.conflict()
            made = _with_replicas(call, live, (scale.get("spec") or {}).get("replicas") or 0)
            return track(of_object, live, made, options)

        made, _ = await self._writes.update(of_object, transform, options, create=False)
        return shown(call, _scale_of(call, made), wanted)


def _paths(call: RequestInfo) -> ScalePaths:
    return call.resource.scale or _BUILT_IN


def _scale_of(call: RequestInfo, document: Document) -> Document:
    """The Scale of an object. Raises StatusError where a custom one does not say how many replicas it wants."""
    paths, meta = _paths(call), document["metadata"]
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


def _read(call: RequestInfo) -> Document:
    """The Scale in the body of a PUT. Raises StatusError."""
    scale = bodies.read_plain(call, "Scale", "autoscaling/v1")
    metadata.check_name(metadata.metadata_of(scale), call.name)
    if not _is_count((scale.get("spec") or {}).get("replicas")):
        raise errors.bad_request("Scale cannot be handled: spec.replicas: expected an integer of 32 bits")
    return scale


def _patched(call: RequestInfo, before: Document, media: str) -> Document:
    """The Scale that a patch makes. A strategic one is a plain merge: there are no lists. Raises StatusError."""
    body = call.request.body
    try:
        live = deepcopy(before)
        made = json_patch(live, body) if media == _JSON_PATCH else merge_patch(live, read_merge_patch(body))
    except PatchError as error:
        raise errors.StatusError(error.code, error.reason, str(error), error.details) from error
    if not isinstance(made, dict) or not _is_count(dig(made, "spec.replicas")):
        problem = "spec.replicas: expected an integer of 32 bits"
        raise errors.invalid("", "", "", [invalid_unshown("patch", problem)])
    return made


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST)


def _with_replicas(call: RequestInfo, live: Document, replicas: int) -> Document:
    if replicas < 0 and not call.resource.custom:
        found = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise errors.invalid("autoscaling", "Scale", call.name, found)
    made = deepcopy(live)
    *parents, last = _paths(call).spec.split(".")
    part = made
    for name in parents:
        part = part.setdefault(name, {})
    part[last] = replicas
    if replicas < 0:
        found = list(call.resource.strategy.errors([], made, live, ""))
        found.append(invalid(f".{_paths(call).spec}", replicas, "should be a non-negative integer"))
        raise errors.invalid(call.group, call.kind, call.name, found)
    return made
