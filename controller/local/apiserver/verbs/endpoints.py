# SPDX-License-Identifier: Apache-2.0
"""The verbs on a resource: from a call to an answer."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.merge.copying import copied
from trainwright.controller.local.apiserver.request import bodies, rendering
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import ServerResponse, write_options
from trainwright.controller.local.apiserver.request.listoptions import list_options
from trainwright.controller.local.apiserver.request.wanted import wanted as wanted_by
from trainwright.controller.local.apiserver.verbs import deletes, patching
from trainwright.controller.local.apiserver.verbs.deletes import Deletes
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads, shown
from trainwright.controller.local.apiserver.verbs.watches import Watches
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, track

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FOLDERS = {"nodes": "minions", "services": "services/specs"}
"""Where the real server keeps kinds that it does not keep under their plural; its messages say so."""


class Endpoints:
    """Serves the verbs."""

    def __init__(self, reads: ResourceReads, watches: Watches, writes: ResourceWrites, deletes: Deletes) -> None:
        self._reads = reads
        self._watches = watches
        self._writes = writes
        self._deletes = deletes

    async def serve(self, call: RequestInfo) -> ServerResponse:
        """Answer a call for a resource or a subresource that is stored with it. Raises StatusError."""
        method = call.request.method
        _check_size(call)
        sub = call.served.subresources.get(call.subresource)
        if sub is not None and not call.served.type.custom and _VERBS.get(method) not in sub.verbs:
            raise errors.method_not_allowed()
        if method in ("GET", "HEAD"):
            return await self._read(call)
        # The real server takes the name of the URL for custom resources, and checks none for built-in kinds.
        if method == "POST" and not call.subresource and (not call.name or call.served.type.custom):
            return await self.create(call)
        if method == "PUT" and not call.name and call.served.type.custom:
            raise errors.bad_request("name must be provided")
        if method == "PUT" and call.name:
            return await self.replace(call)
        if method == "PATCH" and call.name:
            return await self.patch(call)
        if method == "DELETE" and not call.name and not _has_collections_to_delete(call):
            raise errors.method_not_allowed()
        if method == "DELETE" and not call.subresource:
            return await (self.delete(call) if call.name else self.delete_collection(call))
        if call.served.type.custom and method in _VERBS:
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
        wanted = wanted_by(call)
        options = write_options(call.request, "CreateOptions")
        document = bodies.read_object(call, options.validation)
        call.served.strategy.default(document)
        return shown(call, await self._writes.create(call, document, options), wanted, 201)

    async def replace(self, call: RequestInfo) -> ServerResponse:
        """PUT on an object."""
        wanted = wanted_by(call)
        options = write_options(call.request, "UpdateOptions")
        document = bodies.read_object(call, options.validation)
        call.served.strategy.default(document)
        meta = metadata.metadata_of(document)
        metadata.set_namespace(meta, call.namespace)
        metadata.check_name(meta, call.name)
        metadata.without_duplicate_owners(meta)

        async def transform(live: Document | None) -> Document:
            _check_uid(call, meta.get("uid"), live)
            return track(call, live, copied(document), options)

        create = call.served.strategy.create_on_update and not call.subresource
        made, created = await self._writes.update(call, transform, options, create=create)
        return shown(call, made, wanted, 201 if created else 200)

    async def patch(self, call: RequestInfo) -> ServerResponse:
        """PATCH on an object."""
        media = bodies.content_type(call.request.headers.get("content-type", ""))
        types = patching.accepted(call)
        if media not in types:
            if not call.served.type.custom:
                raise errors.no_such_patch()
            raise errors.unsupported_media_type(types)
        wanted = wanted_by(call)
        apply = media == patching.APPLY_PATCH
        options = write_options(call.request, "PatchOptions", apply=apply)
        transform = patching.transform_of(call, media, options)
        made, created = await self._writes.update(call, transform, options, create=apply and not call.subresource)
        return shown(call, made, wanted, 201 if created else 200)

    async def delete(self, call: RequestInfo) -> ServerResponse:
        """DELETE of an object."""
        wanted = wanted_by(call)
        options = deletes.read_options(call)
        warning = call.served.strategy.deletion_warning
        if warning and not options.policy and options.orphans is None:
            call.warn(warning)
        document, gone = await self._deletes.delete(call, options)
        status = 202 if not gone and options.orphans is False else 200
        if gone and not call.served.strategy.returns_deleted:
            return ServerResponse.of(_gone(call, document), status)
        return shown(call, document, wanted, status)

    async def delete_collection(self, call: RequestInfo) -> ServerResponse:
        """DELETE of all objects of a collection that match."""
        wanted = wanted_by(call)
        options = deletes.read_options(call)
        listing = list_options(call)
        items, version, _, _ = await self._reads.select(call, listing, self._reads.selection(call))
        for one in items:
            single = RequestInfo(
                request=call.request,
                user=call.user,
                served=call.served,
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
        return self._reads.listed(call, items, rendering.list_metadata(version), wanted)


def _has_collections_to_delete(call: RequestInfo) -> bool:
    """Not across namespaces, and not of namespaces themselves."""
    across = call.served.type.namespaced and not call.namespace
    return not across and "deletecollection" in call.served.verbs


def _check_uid(call: RequestInfo, uid: str | None, live: Document | None) -> None:
    """A PUT that says a uid is for that object alone. Raises StatusError."""
    found = live["metadata"]["uid"] if live is not None else ""
    if uid and uid != found:
        kind = call.served.type
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
