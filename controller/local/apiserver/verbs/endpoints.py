# SPDX-License-Identifier: Apache-2.0
"""The verbs on a resource, from a call to an answer; patches of all four types, as transforms of the live object."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.merge.errors import ApplyError, BadRequestError, ConflictError, PatchError
from trainwright.controller.local.apiserver.merge.patch import (
    json_patch,
    merge_patch,
    operation_count,
    read_merge_patch,
    read_strategic_patch,
)
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo, list_options, negotiate, selection_of
from trainwright.controller.local.apiserver.request.info import ServerResponse, WriteQuery, write_options
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.apiserver.verbs import deletes, reads
from trainwright.controller.local.apiserver.verbs.deletes import Deletes
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads, shown
from trainwright.controller.local.apiserver.verbs.scale import Scales
from trainwright.controller.local.apiserver.verbs.watches import Watches
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, Transform, track
from trainwright.controller.local.types.errors import invalid_unshown
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.types.model import builtin
from trainwright.controller.local.values import copied

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CBOR = "application/apply-patch+cbor"
OPERATIONS = 10_000
"""Of a JSON patch at most."""


def accepted(call: RequestInfo) -> tuple[str, ...]:
    """The types of patches that a kind takes."""
    strategic = () if call.resource.custom else (STRATEGIC_PATCH,)
    return (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH)


def transform_of(call: RequestInfo, media: str, options: WriteQuery) -> Transform:
    """What makes the new object from the live one. Raises StatusError for a patch that nothing can be made of."""
    if media == APPLY_PATCH:

        async def apply(live: Document | None) -> Document:
            document, duplicates = _apply_document(call)
            made = _applied(call, live, document, options)
            report_duplicates(call, duplicates, options)
            return made

        return apply

    async def patch(live: Document | None) -> Document:
        if live is None:
            raise call.not_found()
        if media == JSON_PATCH:
            _check_count(call)
        return _patched(call, live, media, options)

    return patch


def _check_count(call: RequestInfo) -> None:
    try:
        count = operation_count(call.request.body)
    except PatchError as error:
        raise _status(error) from error
    if count > OPERATIONS:
        raise errors.too_large(f"The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}")


def _patched(call: RequestInfo, live: Document, media: str, options: WriteQuery) -> Document:
    body, strict = call.request.body, list[str]()
    try:
        if media == JSON_PATCH:
            made = json_patch(live, body)
        elif media == MERGE_PATCH:
            made = merge_patch(live, read_merge_patch(body))
        else:
            made = strategic_merge_patch(live, read_strategic_patch(body), builtin(call.resource.model))
        if options.validation != "Ignore" and media != JSON_PATCH:
            strict = bodies.duplicate_keys(body)
        if not isinstance(made, dict):
            raise _rejected("the result is not an object")
        _check_kind(call, made)
        try:
            strict += call.resource.decode(made)
        except DocumentDecodeError as error:
            raise _rejected(str(error)) from error
        if options.validation == "Ignore":
            strict = []
        if strict and options.validation == "Strict":
            raise _rejected(f"strict decoding error: {', '.join(strict)}")
    except PatchError as error:
        raise _status(error) from error
    for warning in strict:
        call.warn(warning)
    call.resource.strategy.default(made)
    _check_identity(call, made)
    return track(call, live, made, options)


def _check_kind(call: RequestInfo, made: Document) -> None:
    """Raises StatusError where a patch made an object of another kind; custom resources are validated later."""
    kind, version = bodies.expected(call)
    if call.resource.custom:
        made["kind"] = made.get("kind") or ""
        made["apiVersion"] = made.get("apiVersion") or ""
        return
    made["kind"], made["apiVersion"] = made.get("kind") or kind, made.get("apiVersion") or version
    said = str(made["kind"]), str(made["apiVersion"])
    problem = None if said == (kind, version) else bodies.kind_problem(*said, kind)
    if problem is not None:
        raise _rejected(problem)


def _apply_document(call: RequestInfo) -> tuple[Document, list[str]]:
    """The document, and warnings about duplicate keys. Raises StatusError."""
    try:
        document, duplicates = bodies.read_yaml(call.request.body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
    if document is None:
        return {}, duplicates
    if not isinstance(document, dict):
        raise errors.bad_request("error decoding YAML: expected an object")
    return document, duplicates


def report_duplicates(call: RequestInfo, duplicates: list[str], options: WriteQuery) -> None:
    """Warn of duplicate keys, or refuse them. Raises StatusError."""
    if not duplicates or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: {', '.join(duplicates)}")
    for text in duplicates:
        call.warn(text)


def _applied(call: RequestInfo, live: Document | None, document: Document, options: WriteQuery) -> Document:
    manager = call.resource.managers[call.subresource]
    try:
        made = manager.apply(live, document, options.manager, force=options.force, now=call.now)
    except ConflictError as error:
        causes = [(cause.field, cause.message) for cause in error.causes]
        raise errors.apply_conflict(str(error), causes) from error
    except BadRequestError as error:
        raise errors.bad_request(str(error)) from error
    except ApplyError as error:
        raise errors.plain_internal(str(error)) from error
    metadata.metadata_of(made)
    try:
        if call.resource.custom:
            # Only a decoded body loses its nulls, and what is applied has no unknown fields.
            made["metadata"], _ = decode_metadata(made["metadata"])
        else:
            call.resource.decode(made)
    except DocumentDecodeError as error:
        raise errors.plain_internal(str(error)) from error
    call.resource.strategy.default(made)
    uid = made["metadata"].get("uid")
    if live is None and uid:
        raise call.conflict(f"uid mismatch: the provided object specified uid {uid}, and no existing object was found")
    _check_identity(call, made)
    return made


def _check_identity(call: RequestInfo, made: Document) -> None:
    meta = metadata.metadata_of(made)
    metadata.set_namespace(meta, call.namespace)
    metadata.check_name(meta, call.name)


def _status(error: PatchError) -> errors.StatusError:
    return errors.StatusError(error.code, error.reason, str(error), error.details)


def _rejected(problem: str) -> errors.StatusError:
    """422: what a patch made is no object of the kind. Kubernetes names neither kind nor object here."""
    return errors.invalid("", "", "", [invalid_unshown("patch", problem)])


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FOLDERS = {"nodes": "minions", "services": "services/specs"}
"""Where the real server keeps kinds that it does not keep under their plural; its messages say so."""


class Endpoints:
    """Serves the verbs."""

    def __init__(
        self, reads: ResourceReads, watches: Watches, writes: ResourceWrites, deletes: Deletes, scales: Scales
    ) -> None:
        self._reads = reads
        self._watches = watches
        self._writes = writes
        self._deletes = deletes
        self._scales = scales

    async def serve(self, call: RequestInfo) -> ServerResponse:
        """Answer a call for a resource or a subresource that is stored with it. Raises StatusError."""
        method = call.request.method
        _check_size(call)
        if call.subresource == "scale":
            return await self._scales.serve(call)
        sub = call.resource.subresources.get(call.subresource)
        if sub is not None and not call.resource.custom and _VERBS.get(method) not in sub.verbs:
            raise errors.method_not_allowed()
        if method in ("GET", "HEAD"):
            return await self._read(call)
        # The real server takes the name of the URL for custom resources, and checks none for built-in kinds.
        if method == "POST" and not call.subresource and (not call.name or call.resource.custom):
            return await self.create(call)
        if method == "PUT" and not call.name and call.resource.custom:
            raise errors.bad_request("name must be provided")
        if method == "PUT" and call.name:
            return await self.replace(call)
        if method == "PATCH" and call.name:
            return await self.patch(call)
        if method == "DELETE" and not call.name and not _has_collections_to_delete(call):
            raise errors.method_not_allowed()
        if method == "DELETE" and not call.subresource:
            return await (self.delete(call) if call.name else self.delete_collection(call))
        if call.resource.custom and method in _VERBS:
            raise errors.not_supported(call.group, call.plural, _VERBS[method])
        raise errors.method_not_allowed()

    async def _read(self, call: RequestInfo) -> ServerResponse:
        # The real server does not heed `watch` in the query of one object.
        if call.name and not call.watches:
            return await self._reads.get(call)
        options = list_options(call)
        if options.watch:
            return await self._watches.watch(call, options)
        return await self._reads.list(call, options)

    async def create(self, call: RequestInfo) -> ServerResponse:
        """POST on a collection."""
        wanted = negotiate(call)
        options = write_options(call.request, "CreateOptions")
        document = bodies.read_object(call, options.validation)
        call.resource.strategy.default(document)
        return shown(call, await self._writes.create(call, document, options), wanted, 201)

    async def replace(self, call: RequestInfo) -> ServerResponse:
        """PUT on an object."""
        wanted = negotiate(call)
        options = write_options(call.request, "UpdateOptions")
        document = bodies.read_object(call, options.validation)
        call.resource.strategy.default(document)
        meta = metadata.metadata_of(document)
        metadata.set_namespace(meta, call.namespace)
        metadata.check_name(meta, call.name)
        metadata.without_duplicate_owners(meta)

        async def transform(live: Document | None) -> Document:
            _check_uid(call, meta.get("uid"), live)
            return track(call, live, copied(document), options)

        create = call.resource.strategy.create_on_update and not call.subresource
        made, created = await self._writes.update(call, transform, options, create=create)
        return shown(call, made, wanted, 201 if created else 200)

    async def patch(self, call: RequestInfo) -> ServerResponse:
        """PATCH on an object."""
        media = bodies.content_type(call.request.headers.get("content-type", ""))
        types = accepted(call)
        if media not in types:
            if not call.resource.custom:
                raise errors.no_such_patch()
            raise errors.unsupported_media_type(types)
        wanted = negotiate(call)
        apply = media == APPLY_PATCH
        options = write_options(call.request, "PatchOptions", apply=apply)
        transform = transform_of(call, media, options)
        made, created = await self._writes.update(call, transform, options, create=apply and not call.subresource)
        return shown(call, made, wanted, 201 if created else 200)

    async def delete(self, call: RequestInfo) -> ServerResponse:
        """DELETE of an object."""
        wanted = negotiate(call)
        options = deletes.read_options(call)
        warning = call.resource.strategy.deletion_warning
        if warning and not options.policy and options.orphans is None:
            call.warn(warning)
        document, gone = await self._deletes.delete(call, options)
        status = 202 if not gone and options.orphans is False else 200
        if gone and not call.resource.strategy.returns_deleted:
            return ServerResponse.of(_gone(call, document), status)
        return shown(call, document, wanted, status)

    async def delete_collection(self, call: RequestInfo) -> ServerResponse:
        """DELETE of all objects of a collection that match."""
        wanted = negotiate(call)
        options = deletes.read_options(call)
        listing = list_options(call)
        items, version, _, _ = await self._reads.select(call, listing, selection_of(call))
        for one in items:
            single = RequestInfo(
                request=call.request,
                user=call.user,
                resource=call.resource,
                namespace=one.name.namespace,
                name=one.name.name,
                subresource="",
                now=call.now,
                warnings=call.warnings,
            )
            try:
                await self._deletes.delete(single, options)
            except errors.StatusError as error:
                if error.code != 404:
                    raise
        return self._reads.listed(call, items, reads.list_metadata(version), wanted)


def _has_collections_to_delete(call: RequestInfo) -> bool:
    """Not across namespaces, and not of namespaces themselves."""
    across = call.resource.namespaced and not call.namespace
    return not across and "deletecollection" in call.resource.verbs


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


def _gone(call: RequestInfo, document: Document) -> Document:
    meta = document["metadata"]
    details = {"name": meta["name"], "group": call.group, "kind": call.plural, "uid": meta["uid"]}
    return errors.status("Success", details={key: value for key, value in details.items() if value})


def _check_size(call: RequestInfo) -> None:
    if len(call.request.body) > bodies.LIMIT:
        raise errors.too_large(f"limit is {bodies.LIMIT}")
