# SPDX-License-Identifier: Apache-2.0
"""The verbs on a resource, from a call to an answer.

Begin with `Endpoints.serve`. PUT, PATCH and apply differ in the transform that makes the new object from the live one;
`writes` does the rest for all of them.
"""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.merge.patch import json_patch, merge_patch, read_patch
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.info import (
    VERBS,
    RequestInfo,
    ServerResponse,
    WriteQuery,
    write_options,
)
from trainwright.controller.local.apiserver.request.lists import list_options, selection_of
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.apiserver.verbs import deletes, reads
from trainwright.controller.local.apiserver.verbs.deletes import Deletes
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads, shown
from trainwright.controller.local.apiserver.verbs.scale import at_endpoint, is_scale
from trainwright.controller.local.apiserver.verbs.watches import Watches
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, Transform, track
from trainwright.controller.local.types.errors import invalid_unshown
from trainwright.controller.local.types.go_json import DocumentDecodeError, convert_integers
from trainwright.controller.local.types.model import builtin
from trainwright.controller.local.values import copied

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_FOLDERS = {"nodes": "minions", "services": "services/specs"}
"""Where the real server keeps kinds that it does not keep under their plural; its messages say so."""


class Endpoints:
    def __init__(self, reads: ResourceReads, watches: Watches, writes: ResourceWrites, deletes: Deletes) -> None:
        self._reads = reads
        self._watches = watches
        self._writes = writes
        self._deletes = deletes

    async def serve(self, call: RequestInfo) -> ServerResponse:
        """Answer a call for a resource or a subresource that is stored with it. Raises StatusError."""
        method, custom = call.request.method, call.resource.custom
        bodies.check_size(call)
        sub = call.resource.subresources.get(call.subresource)
        if sub is not None and not custom and VERBS.get(method) not in sub.verbs:
            raise errors.method_not_allowed()
        call.negotiate()
        match method:
            case "GET" | "HEAD":
                return await self._read(call)
            # The real server takes the name of the URL for custom resources, and checks none for built-in kinds.
            case "POST" if not call.subresource and (not call.name or custom):
                return await self._create(call)
            case "PUT" if not call.name and custom:
                raise errors.bad_request("name must be provided")
            case "PUT" if call.name:
                return await self._replace(call)
            case "PATCH" if call.name:
                return await self._patch(call)
            case "DELETE" if not call.name and not _has_collections_to_delete(call):
                raise errors.method_not_allowed()
            case "DELETE" if not call.subresource:
                return await (self._delete(call) if call.name else self._delete_collection(call))
        if custom and method in VERBS:
            raise errors.not_supported(call.group, call.plural, VERBS[method])
        raise errors.method_not_allowed()

    async def _read(self, call: RequestInfo) -> ServerResponse:
        # The real server does not heed `watch` in the query of one object.
        if call.name:
            return await self._reads.get(call)
        options = list_options(call)
        if options.watch:
            return await self._watches.watch(call, options)
        return await self._reads.list(call, options)

    async def _create(self, call: RequestInfo) -> ServerResponse:
        options = write_options(call.request, "CreateOptions")
        document = bodies.read_object(call, options)
        call.resource.strategy.default(document)
        return shown(call, await self._writes.create(call, document, options), 201)

    async def _replace(self, call: RequestInfo) -> ServerResponse:
        options = write_options(call.request, "UpdateOptions")
        create = call.resource.strategy.create_on_update and not call.subresource
        return await self._update(call, _replacement(call, options), options, create=create)

    async def _patch(self, call: RequestInfo) -> ServerResponse:
        media = bodies.content_type(call.request.headers.get("content-type", ""))
        strategic = () if call.resource.custom else (STRATEGIC_PATCH,)
        types = (JSON_PATCH, MERGE_PATCH, *strategic, *(() if is_scale(call) else (APPLY_PATCH,)))
        if media not in types:
            raise errors.unsupported_media_type(types, None if call.resource.custom else {})
        apply = media == APPLY_PATCH
        options = write_options(call.request, "PatchOptions", apply=apply)
        made = _application(call, options) if apply else _patching(call, media, options)
        return await self._update(call, made, options, create=apply and not call.subresource)

    async def _update(
        self, call: RequestInfo, transform: Transform, options: WriteQuery, *, create: bool
    ) -> ServerResponse:
        made, created = await self._writes.update(call, transform, options, create=create)
        return shown(call, at_endpoint(call, made), 201 if created else 200)

    async def _delete(self, call: RequestInfo) -> ServerResponse:
        options = deletes.read_options(call)
        warning = call.resource.strategy.deletion_warning
        if warning and not options.policy and options.orphans is None:
            call.warn(warning)
        document, gone = await self._deletes.delete(call, options)
        status = 202 if not gone and options.orphans is False else 200
        if gone and not call.resource.strategy.returns_deleted:
            return ServerResponse.of(_gone(call, document), status)
        return shown(call, document, status)

    async def _delete_collection(self, call: RequestInfo) -> ServerResponse:
        options = deletes.read_options(call)
        items, version, _, _ = await self._reads.select(call, list_options(call), selection_of(call))
        for one in items:
            try:
                await self._deletes.delete(call.of_object(one.name), options)
            except errors.StatusError as error:
                if error.code != 404:
                    raise
        return self._reads.listed(call, items, reads.list_metadata(version))


def _has_collections_to_delete(call: RequestInfo) -> bool:
    """Not across namespaces, and not of namespaces themselves."""
    across = call.resource.namespaced and not call.namespace
    return not across and "deletecollection" in call.resource.verbs


def _gone(call: RequestInfo, document: Document) -> Document:
    meta = document["metadata"]
    details = {"name": meta["name"], "group": call.group, "kind": call.plural, "uid": meta["uid"]}
    return errors.status("Success", details={key: value for key, value in details.items() if value})


def _replacement(call: RequestInfo, options: WriteQuery) -> Transform:
    """PUT: the object in the body. Raises StatusError."""
    document = bodies.read_object(call, options)
    if not is_scale(call):
        call.resource.strategy.default(document)
    _check_identity(call, document)
    meta = metadata.metadata_of(document)
    metadata.without_duplicate_owners(meta)

    def replace(live: Document | None) -> Document:
        _check_uid(call, meta.get("uid"), live)
        return track(call, live and at_endpoint(call, live), copied(document), options)

    return replace


def _check_uid(call: RequestInfo, uid: str | None, live: Document | None) -> None:
    """A PUT that says a uid is for that object alone. Raises StatusError."""
    found = live["metadata"]["uid"] if live is not None else ""
    if uid and uid != found:
        kind = call.resource
        folder = f"{kind.group}/{kind.plural}" if kind.custom else _FOLDERS.get(kind.plural, kind.plural)
        key = "/".join(part for part in ("/registry", folder, call.namespace, call.name) if part)
        problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        raise call.conflict(
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {problem}"
        )


def _patching(call: RequestInfo, media: str, options: WriteQuery) -> Transform:

    def patch(live: Document | None) -> Document:
        if live is None:
            raise call.not_found()
        before = at_endpoint(call, live)
        made, strict = _patched(call, before, media)
        bodies.report_strict(call, strict, options, _rejected)
        if not is_scale(call):
            call.resource.strategy.default(made)
        _check_identity(call, made)
        return track(call, before, made, options)

    return patch


def _patched(call: RequestInfo, live: Document, media: str) -> tuple[Document, list[str]]:
    """What a patch makes, and what is odd about it. Raises StatusError."""
    body, strict = call.request.body, list[str]()
    if media == JSON_PATCH:
        made = json_patch(live, body)
    elif media == MERGE_PATCH:
        made = merge_patch(live, read_patch(body))
    else:
        made = strategic_merge_patch(live, read_patch(body) or {}, builtin(call.resource.body_model(call.subresource)))
    if media != JSON_PATCH:
        strict = bodies.duplicate_keys(body)
    if not isinstance(made, dict):
        raise _rejected("the result is not an object")
    kind, version = bodies.expected(call)
    custom = call.resource.custom
    # That of a custom resource is validated later.
    for name, right in (("kind", kind), ("apiVersion", version)):
        # Of a built-in kind, a strategic merge patch changes neither, whatever it says.
        kept = media == STRATEGIC_PATCH and isinstance(made.get(name), str)
        made[name] = right if kept else made.get(name) or ("" if custom else right)
    if not custom and (made["kind"], made["apiVersion"]) != (kind, version):
        raise _rejected(f"it is a {made['kind']} in version {made['apiVersion']}")
    try:
        strict += call.resource.decode(made, call.subresource)
    except DocumentDecodeError as error:
        raise _rejected(str(error)) from error
    return made, strict


def _rejected(problem: str) -> errors.StatusError:
    """422: what a patch made is no object of the kind. Kubernetes names neither kind nor object here."""
    return errors.invalid("", "", "", [invalid_unshown("patch", problem)])


def _application(call: RequestInfo, options: WriteQuery) -> Transform:
    """Server-side apply: the live object with the fields of an applied configuration. Raises StatusError."""

    def apply(live: Document | None) -> Document:
        try:
            document, duplicates = bodies.read_applied(call.request.body)
        except ValueError as error:
            raise errors.bad_request(f"error decoding YAML: {error}") from error
        if not isinstance(document, dict | None):
            raise errors.bad_request("error decoding YAML: expected an object")
        bodies.report_strict(call, duplicates, options, errors.bad_request)
        return _applied(call, live, document or {}, options)

    return apply


def _applied(call: RequestInfo, live: Document | None, document: Document, options: WriteQuery) -> Document:
    manager = call.resource.managers[call.subresource]
    made = manager.apply(live, document, options.manager, force=options.force, now=call.now)
    metadata.metadata_of(made)
    try:
        if not call.resource.body_model(call.subresource):
            # Only a decoded body loses its nulls, and what is applied has no unknown fields.
            made["metadata"], _ = decode_metadata(made["metadata"])
        else:
            _decode_applied(call, made)
    except DocumentDecodeError as error:
        raise errors.plain_internal(str(error)) from error
    call.resource.strategy.default(made)
    uid = made["metadata"].get("uid")
    if live is None and uid:
        raise call.conflict(f"uid mismatch: the provided object specified uid {uid}, and no existing object was found")
    _check_identity(call, made)
    return made


def _decode_applied(call: RequestInfo, made: Document) -> None:
    try:
        call.resource.decode(made, call.subresource)
    except DocumentDecodeError:
        # Numbers of an applied document are converted; only those of other bodies have to fit their fields.
        convert_integers(builtin(call.resource.body_model(call.subresource)), made)
        call.resource.decode(made, call.subresource)


def _check_identity(call: RequestInfo, made: Document) -> None:
    """Raises StatusError where an object says another name or namespace than the URL."""
    meta = metadata.metadata_of(made)
    metadata.set_namespace(meta, call.namespace)
    metadata.check_name(meta, call.name)
