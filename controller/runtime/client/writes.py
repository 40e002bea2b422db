# SPDX-License-Identifier: Apache-2.0
"""The writing verbs: create, update, patch, apply, delete. The cache is told of each write before and after."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypedDict, Unpack, overload

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, Key, name_of, namespace_of, wire
from trainwright.controller.runtime.client.session import ApiSession, O, PendingWrite
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


class WriteOptions(TypedDict, total=False):
    """How an object is written."""

    kind: Kind | None
    """Needed for a dictionary whose kind is not registered."""
    dry_run: bool | None
    """None: the default of the client, as for an empty `field_manager`."""
    field_manager: str


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
    async def create(self, obj: Document, **options: Unpack[WriteOptions]) -> Document: ...
    @overload  # after that for documents, whose literals have narrower types than what comes back
    async def create(self, obj: O, **options: Unpack[WriteOptions]) -> O: ...

    async def create(self, obj: O, **options: Unpack[WriteOptions]) -> O:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden, NotFound (namespace or kind), TransportError."""
        codec = self._codec(obj, options.get("kind"))
        return await self._write(codec, "POST", collection_path(codec.resource, namespace_of(obj)), obj, options)

    async def update(self, obj: O, *, subresource: str = "", **options: Unpack[WriteOptions]) -> O:
        """Replace a whole object. Fields that the model does not know are lost, so prefer apply and patch.

        Raises Conflict if the object's resourceVersion is not the current one, NotFound, Invalid, TransportError.
        """
        codec = self._codec(obj, options.get("kind"))
        path = object_path(codec.resource, name_of(obj), namespace_of(obj), subresource)
        return await self._write(codec, "PUT", path, obj, options)

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
            _key(codec.resource, name, namespace),
        )

    @overload
    async def apply(
        self, obj: Document, *, force: bool = False, subresource: str = "", **options: Unpack[WriteOptions]
    ) -> Document: ...
    @overload  # as of create
    async def apply(
        self, obj: O, *, force: bool = False, subresource: str = "", **options: Unpack[WriteOptions]
    ) -> O: ...

    async def apply(self, obj: O, *, force: bool = False, subresource: str = "", **options: Unpack[WriteOptions]) -> O:
        """Server-side apply: the object contains exactly the fields that `field_manager` owns afterwards.

        Raises Conflict (`causes` name the fields and their owners) unless `force`, Invalid, NotFound (a status of an
        object that does not exist), ConfigurationError without a field manager, TransportError.
        """
        codec, name = self._codec(obj, options.get("kind")), name_of(obj)
        if not (options.get("field_manager") or self._defaults.field_manager):
            raise ConfigurationError(
                f"apply {codec.resource.kind} {name}: pass a field_manager, or set the default of the client"
            )
        path = object_path(codec.resource, name, namespace_of(obj), subresource)
        return await self._write(codec, "PATCH", path, obj, options, _APPLY, {"force": "true"} if force else {})

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
        key = _key(codec.resource, name, namespace)
        preconditions = {n: v for n, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        dry = self._defaults.dry_run if dry_run is None else dry_run
        request = _deletion(
            object_path(codec.resource, name, namespace),
            preconditions=preconditions or None,
            propagationPolicy=propagation,
            gracePeriodSeconds=grace_period,
            dryRun=["All"] if dry else None,
        )
        pending = PendingWrite() if dry or self._writes is None else self._writes.begin(codec.resource, key)
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
        request = _deletion(collection_path(resource, namespace), propagationPolicy=propagation)
        request.query = {"labelSelector": label_selector} if label_selector else {}
        await self.send(request)

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
        path: str,
        obj: AnyObject,
        options: WriteOptions,
        content_type: str = _JSON,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> T:
        """Send a whole object. `more`: further parameters of the query."""
        document = {**wire(obj), "apiVersion": codec.resource.api_version, "kind": codec.resource.kind}
        dry_run, manager = options.get("dry_run"), options.get("field_manager", "")
        query = {**self._options(dry_run, manager, validation=content_type == _JSON), **more}
        headers = {"Accept": codec.accept, "Content-Type": content_type}
        request = Request(method, path, query, headers, _ENCODER.encode(document))
        return await self._send_write(codec, request, _key(codec.resource, name_of(obj), namespace_of(obj)))

    async def _send_write(self, codec: Codec[T], request: Request, key: Key) -> T:
        pending = PendingWrite()
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


def _key(resource: Resource, name: str, namespace: str) -> Key:
    return Key(namespace if resource.namespaced else "", name)


def _deletion(path: str, **options: Any) -> Request:
    """The request with DeleteOptions; those that are None are left out."""
    given = {name: value for name, value in options.items() if value is not None}
    body = _ENCODER.encode({"apiVersion": "v1", "kind": "DeleteOptions", **given})
    return Request("DELETE", path, {}, {"Accept": _JSON, "Content-Type": _JSON}, body)
