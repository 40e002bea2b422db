# SPDX-License-Identifier: Apache-2.0
"""The writing verbs: create, update, patch, apply, delete. The cache is told of each write before and after."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import msgspec

from trainwright.api.objects import AnyObject, Document, Key, name_of, namespace_of, wire
from trainwright.controller.runtime.client.observer import IgnoredWrite, PendingWrite
from trainwright.controller.runtime.client.session import ApiSession, O
from trainwright.controller.runtime.client.transport import Request, collection_path, object_path
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import Codec, Kind, KindOf, T, codec_of

PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_ENCODER = msgspec.json.Encoder()


class _Gone(msgspec.Struct):
    uid: str | None = None


class _GoneMeta(msgspec.Struct):
    uid: str | None = None
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _DeleteAnswer(msgspec.Struct):
    kind: str | None = None
    details: _Gone | None = None
    metadata: _GoneMeta | None = None


_DELETED = msgspec.json.Decoder(_DeleteAnswer)


class WriteVerbs(ApiSession):
    """The writing half of a client."""

    @overload
    async def create(
        self, obj: Document, *, kind: Kind | None = None, dry_run: bool | None = None, field_manager: str = ""
    ) -> Document: ...
    @overload  # after that for documents, whose literals have narrower types than what comes back
    async def create(
        self, obj: O, *, kind: Kind | None = None, dry_run: bool | None = None, field_manager: str = ""
    ) -> O: ...

    async def create(
        self,
        obj: O,
        *,
        kind: Kind | None = None,
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> O:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden, NotFound (namespace or kind), TransportError."""
        codec = self._codec(obj, kind)
        return await self._write(
            codec, "POST", obj, name_of(obj), path_name=None, dry_run=dry_run, field_manager=field_manager
        )

    async def update(
        self,
        obj: O,
        *,
        kind: Kind | None = None,
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> O:
        """Replace a whole object. Fields that the model does not know are lost, so prefer apply and patch.

        Raises Conflict if the object's resourceVersion is not the current one, NotFound, Invalid, TransportError.
        """
        codec = self._codec(obj, kind)
        name = name_of(obj)
        return await self._write(
            codec,
            "PUT",
            obj,
            name,
            path_name=name,
            subresource=subresource,
            dry_run=dry_run,
            field_manager=field_manager,
        )

    async def patch(
        self,
        kind: KindOf[T],
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",  # noqa: A002 - the API's own word
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> T:
        """Change only the given fields. A list is a JSON patch (`type="json"`); include resourceVersion to lock.

        Raises NotFound, Conflict, Invalid, BadRequest (strategic patch on a custom resource), TransportError.
        """
        codec = codec_of(kind)
        return await self._send_write(
            codec,
            Request(
                "PATCH",
                object_path(codec.resource, name, namespace, subresource),
                self._options(dry_run, field_manager, validation=True),
                {"Accept": codec.accept, "Content-Type": _PATCH_TYPES[type]},
                _ENCODER.encode(patch),
            ),
            Key(namespace if codec.resource.namespaced else "", name),
        )

    @overload
    async def apply(
        self,
        obj: Document,
        *,
        kind: Kind | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> Document: ...
    @overload  # as of create
    async def apply(
        self,
        obj: O,
        *,
        kind: Kind | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> O: ...

    async def apply(
        self,
        obj: O,
        *,
        kind: Kind | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> O:
        """Server-side apply: the object contains exactly the fields that `field_manager` owns afterwards.

        Raises Conflict (`causes` name the fields and their owners) unless `force`, Invalid, NotFound (a status of an
        object that does not exist), ConfigurationError without a field manager, TransportError.
        """
        codec = self._codec(obj, kind)
        name = name_of(obj)
        namespace = namespace_of(obj)
        query = self._options(dry_run, field_manager, validation=False)
        if "fieldManager" not in query:
            raise ConfigurationError(
                f"apply {codec.resource.kind} {name}: pass a field_manager, or set the default of the client"
            )
        if force:
            query["force"] = "true"
        document = {**wire(obj), "apiVersion": codec.resource.api_version, "kind": codec.resource.kind}
        return await self._send_write(
            codec,
            Request(
                "PATCH",
                object_path(codec.resource, name, namespace, subresource),
                query,
                {"Accept": codec.accept, "Content-Type": _APPLY},
                _ENCODER.encode(document),
            ),
            Key(namespace if codec.resource.namespaced else "", name),
        )

    async def delete(
        self,
        kind: KindOf[T],
        name: str | Key,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool | None = None,
    ) -> T | None:
        """Delete one object, by its key, or by name and namespace.

        Returns the object if it still exists with a deletion timestamp, None if it is deleted.

        `uid` and `resource_version` are preconditions. Raises NotFound, Conflict (precondition failed), TransportError.
        """
        codec = codec_of(kind)
        if isinstance(name, Key):
            namespace, name = name
        key = Key(namespace if codec.resource.namespaced else "", name)
        preconditions = {n: v for n, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        dry = self._defaults.dry_run if dry_run is None else dry_run
        if dry:
            options["dryRun"] = ["All"]
        request = Request(
            "DELETE",
            object_path(codec.resource, name, namespace),
            {},
            {"Accept": _JSON, "Content-Type": _JSON},
            _ENCODER.encode(options),
        )
        pending = IgnoredWrite() if dry or self._writes is None else self._writes.begin(codec.resource, key)
        try:
            response = await self.send(request)
            answer = _DELETED.decode(response.body)
            if answer.kind != "Status" and answer.metadata and answer.metadata.deletion_timestamp:
                obj = codec.decode(response.body)
                pending.written(codec, obj)
                return obj
        except BaseException:
            pending.failed()
            raise
        gone = (answer.details.uid if answer.details else "") or (answer.metadata.uid if answer.metadata else "") or uid
        pending.deleted(gone)
        return None

    async def delete_collection(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", propagation: Propagation | None = None
    ) -> None:
        """Delete all matching objects. Needs the verb deletecollection. Caches see it only through their watches."""
        resource = codec_of(kind).resource
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        query = {"labelSelector": label_selector} if label_selector else {}
        await self.send(
            Request(
                "DELETE",
                collection_path(resource, namespace),
                query,
                {"Accept": _JSON, "Content-Type": _JSON},
                _ENCODER.encode(options),
            )
        )

    # ------------------------------------------------------------------ subresources but status

    async def post_subresource(
        self, kind: Kind, name: str, namespace: str, subresource: str, body: Document
    ) -> Document:
        """Create through a subresource (eviction, token, binding); returns the answer. Raises ApiError."""
        path = object_path(codec_of(kind).resource, name, namespace, subresource)
        request = Request("POST", path, {}, {"Accept": _JSON, "Content-Type": _JSON}, _ENCODER.encode(body))
        answer: Document = msgspec.json.decode((await self.send(request)).body)
        return answer

    async def get_scale(self, kind: Kind, name: str, namespace: str = "") -> int:
        """Read spec.replicas through the scale subresource. Raises NotFound if the kind has none."""
        path = object_path(codec_of(kind).resource, name, namespace, "scale")
        answer: Document = msgspec.json.decode((await self.send(Request("GET", path, {}, {"Accept": _JSON}))).body)
        return int((answer.get("spec") or {}).get("replicas") or 0)

    async def set_scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> None:
        """Set spec.replicas through the scale subresource. Raises NotFound, Invalid, TransportError."""
        path = object_path(codec_of(kind).resource, name, namespace, "scale")
        headers = {"Accept": _JSON, "Content-Type": _PATCH_TYPES["merge"]}
        await self.send(Request("PATCH", path, {}, headers, _ENCODER.encode({"spec": {"replicas": replicas}})))

    async def _write(
        self,
        codec: Codec[T],
        method: str,
        obj: AnyObject,
        name: str,
        *,
        path_name: str | None,
        dry_run: bool | None,
        field_manager: str,
        subresource: str = "",
    ) -> T:
        document = {**wire(obj), "apiVersion": codec.resource.api_version, "kind": codec.resource.kind}
        namespace = namespace_of(obj)
        request = Request(
            method,
            collection_path(codec.resource, namespace)
            if path_name is None
            else object_path(codec.resource, path_name, namespace, subresource),
            self._options(dry_run, field_manager, validation=True),
            {"Accept": codec.accept, "Content-Type": _JSON},
            _ENCODER.encode(document),
        )
        return await self._send_write(codec, request, Key(namespace if codec.resource.namespaced else "", name))

    async def _send_write(self, codec: Codec[T], request: Request, key: Key) -> T:
        pending: PendingWrite = IgnoredWrite()
        if self._writes is not None and key.name and "dryRun" not in request.query:
            applies = request.headers["Content-Type"] == _APPLY
            pending = self._writes.begin(codec.resource, key, applies=applies)
        try:
            response = await self.send(request)
            obj = codec.decode(response.body)
        except BaseException:
            pending.failed()
            raise
        pending.written(codec, obj)
        return obj
