# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API.

Each verb is one request (a list: one per page), decoded straight into the model of the kind that was asked for. Reads
here always go to the server; cached reads are the cache's. The client never changes the object it is given: what the
server answered is the return value.

Guarantees: a write is sent once, except that the server itself asked for a repetition (429 or 5xx with Retry-After),
and except for a 401, which refused it unread (H-8, H-10). Errors are those of `errors`, with the verb and path in the
message.

Caveats: ConnectionLost and RequestTimeout leave the outcome of a write unknown. A decoded object may lack fields that a
newer server knows, so never write one back whole: apply or patch what you own.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Self, TypeVar, overload

import msgspec

import trainwright
from trainwright.api.base import Object, Resource
from trainwright.controller.runtime.client.answers import error_of
from trainwright.controller.runtime.client.observer import IgnoredWrite, RequestObserver, WriteObserver
from trainwright.controller.runtime.client.permission import READS, permission
from trainwright.controller.runtime.client.retry import send_with_retries
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport
from trainwright.controller.runtime.client.watch import Batch, frames
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError
from trainwright.controller.runtime.kinds import Codec, Kind, MetadataOnly, codec_of, kind_of
from trainwright.controller.runtime.objects import AnyObject, Document, Key, PartialObject, name_of, namespace_of, wire

log = logging.getLogger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as everywhere in this module
PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]

PAGE = 500
"""Objects per page of a list."""

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_ENCODER = msgspec.json.Encoder()


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _ListBody(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_ListBody)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, its objects still encoded, so that one bad object does not cost the others."""

    items: Sequence[msgspec.Raw]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[O]):
    """All objects of a list, and the version of the collection they were read at."""

    items: list[O]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the client adds to each write unless the call says otherwise (C-7, C-9, C-10)."""

    field_manager: str | None = None
    field_validation: Literal["Ignore", "Warn", "Strict"] | None = None
    dry_run: bool = False


class Client:
    """Talks to one API server through a transport. Cheap to copy with other defaults; see `with_defaults`."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "",
        defaults: WriteOptions | None = None,
        timeout: float = 60.0,
        requests: RequestObserver | None = None,
    ) -> None:
        """`timeout` is in seconds and covers one attempt of anything but a watch or a log stream."""
        self.transport = transport
        self._agent = user_agent
        self._defaults = defaults or WriteOptions()
        self._timeout = timeout
        self._requests = requests
        self._writes: WriteObserver | None = None
        self._kinds: dict[tuple[str, str], Kind] = {}

    # ------------------------------------------------------------------ variants

    def with_defaults(
        self,
        *,
        user_agent: str | None = None,
        field_manager: str | None = None,
        field_validation: Literal["Ignore", "Warn", "Strict"] | None = None,
        dry_run: bool | None = None,
    ) -> Self:
        """A client on the same transport that differs in what is given here."""
        defaults = replace(
            self._defaults,
            field_manager=field_manager or self._defaults.field_manager,
            field_validation=field_validation or self._defaults.field_validation,
            dry_run=self._defaults.dry_run if dry_run is None else dry_run,
        )
        other = copy(self)
        vars(other).update(_defaults=defaults, _agent=self._agent if user_agent is None else user_agent)
        return other

    def observe_writes(self, observer: WriteObserver) -> None:
        """Tell `observer` of every write from now on; clients made by `with_defaults` before do not."""
        self._writes = observer

    def register(self, *kinds: Kind) -> None:
        """Make kinds known, so that dictionaries of theirs can be written without naming the kind each time."""
        for kind in kinds:
            resource = codec_of(kind).resource
            self._kinds.setdefault((resource.api_version, resource.kind), resource)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    # ------------------------------------------------------------------ reads

    @overload
    async def get(self, kind: type[O], name: str, namespace: str = "", *, resource_version: str = "") -> O: ...
    @overload
    async def get(self, kind: Resource, name: str, namespace: str = "", *, resource_version: str = "") -> Document: ...
    @overload
    async def get(
        self, kind: MetadataOnly, name: str, namespace: str = "", *, resource_version: str = ""
    ) -> PartialObject: ...

    async def get(self, kind: Kind, name: str, namespace: str = "", *, resource_version: str = "") -> AnyObject:
        """Read one object. Empty `resource_version` is a quorum read, "0" may come from the server's cache.

        Raises NotFound, Forbidden, TransportError, DecodeError.
        """
        codec = codec_of(kind)
        query = {"resourceVersion": resource_version} if resource_version else {}
        request = Request("GET", codec.resource.path(namespace or None, name), query, {"Accept": codec.accept})
        obj: AnyObject = codec.decode((await self.send(request)).body)
        return obj

    async def list_page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Page:
        """One page, undecoded. `limit` 0 asks for everything. A continuation carries no version (R-10). Raises Gone."""
        codec = codec_of(kind)
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
            "resourceVersionMatch": "" if continue_token else resource_version_match,
        }
        request = Request(
            "GET",
            codec.resource.path(namespace or None),
            {name: value for name, value in query.items() if value},
            {"Accept": codec.accept_list},
        )
        response = await self.send(request)
        try:
            body = _LIST.decode(response.body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"{request}: not a list: {error}") from error
        return Page(body.items or (), body.metadata.resource_version, body.metadata.continue_)

    @overload
    async def list(
        self,
        kind: type[O],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> ObjectList[O]: ...
    @overload
    async def list(
        self,
        kind: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> ObjectList[Any]: ...
    @overload
    async def list(
        self,
        kind: MetadataOnly,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> ObjectList[PartialObject]: ...

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> ObjectList[Any]:
        """Read all objects, page by page. An empty namespace means all.

        Raises Gone when the list took so long that its snapshot was compacted, Forbidden, TransportError, DecodeError.
        """
        codec = codec_of(kind)
        items: list[Any] = []
        token, version = "", ""
        while True:
            page = await self.list_page(
                kind,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=token,
            )
            items.extend(codec.decode(raw) for raw in page.items)
            version = version or page.resource_version
            token = page.continue_token
            if not token:
                return ObjectList(items, version)

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        seconds: int = 300,
        idle: float | Callable[[], float | None] | None = 180.0,
        initial_events: bool = False,
    ) -> AsyncIterator[AsyncIterator[Batch]]:
        """One watch, as an iterator over batches of frames that ends when the server ends the stream.

        `seconds` is asked of the server; `idle` (s, or what gives it) is how long silence is believed. With
        `initial_events` the stream starts with the objects that exist. Raises Gone, Forbidden, NotFound,
        TooManyRequests, TransportError.
        """
        codec = codec_of(kind)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        accept = codec.accept.replace("PartialObjectMetadataList", "PartialObjectMetadata")
        async with self.stream(
            Request(
                "GET",
                codec.resource.path(namespace or None),
                {name: value for name, value in query.items() if value},
                {"Accept": accept},
                timeout=None,
            )
        ) as stream:
            yield frames(stream, idle=idle if callable(idle) else lambda: idle)

    async def logs(
        self, pod: str, namespace: str, *, container: str = "", follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        """A container's log as it arrives, cut anywhere. Raises NotFound, BadRequest (not started), TransportError."""
        query = {
            "container": container,
            "follow": "true" if follow else "",
            "tailLines": "" if tail is None else str(tail),
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        request = Request("GET", path, {name: value for name, value in query.items() if value}, timeout=None)
        async with self.stream(request) as stream:
            async for chunk in stream.chunks():
                yield chunk

    # ------------------------------------------------------------------ writes

    @overload
    async def create(self, obj: O, *, dry_run: bool | None = None, field_manager: str = "") -> O: ...
    @overload
    async def create(
        self, obj: Document, *, kind: Resource | None = None, dry_run: bool | None = None, field_manager: str = ""
    ) -> Document: ...

    async def create(
        self,
        obj: AnyObject,
        *,
        kind: Kind | None = None,
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> AnyObject:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden, NotFound (namespace or kind), TransportError."""
        codec = self._codec(obj, kind)
        return await self._write(
            codec, "POST", obj, name_of(obj), path_name=None, dry_run=dry_run, field_manager=field_manager
        )

    @overload
    async def update(
        self, obj: O, *, subresource: str = "", dry_run: bool | None = None, field_manager: str = ""
    ) -> O: ...
    @overload
    async def update(
        self,
        obj: Document,
        *,
        kind: Resource | None = None,
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> Document: ...

    async def update(
        self,
        obj: AnyObject,
        *,
        kind: Kind | None = None,
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> AnyObject:
        """Replace an object whole; fields that the model does not know are lost, so prefer apply and patch.

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

    @overload
    async def patch(
        self,
        kind: type[O],
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> O: ...
    @overload
    async def patch(
        self,
        kind: Resource,
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> Document: ...
    @overload
    async def patch(
        self,
        kind: MetadataOnly,
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> PartialObject: ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        type: PatchType = "merge",  # noqa: A002 - the API's own word
        subresource: str = "",
        dry_run: bool | None = None,
        field_manager: str = "",
    ) -> AnyObject:
        """Change the named fields only. A list is a JSON patch (`type="json"`); put resourceVersion in for a lock.

        Raises NotFound, Conflict, Invalid, BadRequest (strategic patch on a custom resource), TransportError.
        """
        codec = codec_of(kind)
        return await self._send_write(
            codec,
            Request(
                "PATCH",
                codec.resource.path(namespace or None, name, subresource or None),
                self._options(dry_run, field_manager, validation=True),
                {"Accept": codec.accept, "Content-Type": _PATCH_TYPES[type]},
                _ENCODER.encode(patch),
            ),
            Key(namespace if codec.resource.namespaced else "", name),
        )

    @overload
    async def apply(
        self,
        obj: O,
        *,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> O: ...
    @overload
    async def apply(
        self,
        obj: Document,
        *,
        kind: Resource | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> Document: ...
    @overload
    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: Kind | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> Any: ...

    async def apply(
        self,
        obj: AnyObject,
        *,
        kind: Kind | None = None,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool | None = None,
    ) -> AnyObject:
        """Server-side apply: the object holds exactly the fields that `field_manager` wants to own.

        Raises Conflict (`causes` name the fields and their owners) unless `force`, Invalid, NotFound (a status of an
        object that does not exist), ConfigurationError without a field manager, TransportError.
        """
        codec = self._codec(obj, kind)
        name = name_of(obj)
        namespace = namespace_of(obj)
        query = self._options(dry_run, field_manager, validation=False)
        if "fieldManager" not in query:
            raise ConfigurationError(f"apply {codec.resource.kind} {name}: a field manager is needed")
        if force:
            query["force"] = "true"
        document = {**wire(obj), "apiVersion": codec.resource.api_version, "kind": codec.resource.kind}
        return await self._send_write(
            codec,
            Request(
                "PATCH",
                codec.resource.path(namespace or None, name, subresource or None),
                query,
                {"Accept": codec.accept, "Content-Type": _APPLY},
                _ENCODER.encode(document),
            ),
            Key(namespace if codec.resource.namespaced else "", name),
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool | None = None,
    ) -> AnyObject | None:
        """Delete one object; gives the object if it still exists with a deletion timestamp, None if it is gone.

        `uid` and `resource_version` are preconditions. Raises NotFound, Conflict (a precondition), TransportError.
        """
        codec = codec_of(kind)
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
            codec.resource.path(namespace or None, name),
            {},
            {"Accept": _JSON, "Content-Type": _JSON},
            _ENCODER.encode(options),
        )
        pending = IgnoredWrite() if dry or self._writes is None else self._writes.begin(codec.resource, key)
        try:
            response = await self.send(request)
            answer = _DELETED.decode(response.body)
            if answer.kind != "Status" and answer.metadata and answer.metadata.deletion_timestamp:
                obj: AnyObject = codec.decode(response.body)
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
        """Delete everything that matches; caches learn of it by their watches only. Needs the verb deletecollection."""
        resource = codec_of(kind).resource
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        query = {"labelSelector": label_selector} if label_selector else {}
        await self.send(
            Request(
                "DELETE",
                resource.path(namespace or None),
                query,
                {"Accept": _JSON, "Content-Type": _JSON},
                _ENCODER.encode(options),
            )
        )

    # ------------------------------------------------------------------ status and other sub-resources

    async def post_subresource(
        self, kind: Kind, name: str, namespace: str, subresource: str, body: Document
    ) -> Document:
        """Create through a sub-resource (eviction, token, binding); gives the answer as it is. Raises ApiError."""
        path = codec_of(kind).resource.path(namespace or None, name, subresource)
        request = Request("POST", path, {}, {"Accept": _JSON, "Content-Type": _JSON}, _ENCODER.encode(body))
        answer: Document = msgspec.json.decode((await self.send(request)).body)
        return answer

    async def get_scale(self, kind: Kind, name: str, namespace: str = "") -> int:
        """The wanted replicas, through the scale sub-resource. Raises NotFound if the kind has none."""
        path = codec_of(kind).resource.path(namespace or None, name, "scale")
        answer: Document = msgspec.json.decode((await self.send(Request("GET", path, {}, {"Accept": _JSON}))).body)
        return int((answer.get("spec") or {}).get("replicas") or 0)

    async def set_scale(self, kind: Kind, name: str, namespace: str, replicas: int) -> None:
        """Set the wanted replicas, through the scale sub-resource. Raises NotFound, Invalid, TransportError."""
        path = codec_of(kind).resource.path(namespace or None, name, "scale")
        headers = {"Accept": _JSON, "Content-Type": _PATCH_TYPES["merge"]}
        await self.send(Request("PATCH", path, {}, headers, _ENCODER.encode({"spec": {"replicas": replicas}})))

    # ------------------------------------------------------------------ the wire

    async def send(self, request: Request) -> Response:
        """Send a request of the caller's own making, with this client's credentials, retries, warnings and errors.

        Raises NotLeading for a write of leader-elected work whose replica does not lead.
        """
        request.headers.setdefault("User-Agent", self._user_agent())
        if request.timeout is not None:
            request.timeout = self._timeout
        if request.method not in READS and (allowed := permission.get()) is not None:
            allowed.check()
            request.permission = allowed
        response, attempts = await send_with_retries(
            self.transport.send, request, on_attempt=self._requests.attempt if self._requests else None
        )
        for warning in response.warnings:
            log.warning("%s: the API server warns: %s", request, warning)
        if response.status >= 400:
            raise error_of(response.status, response.headers, response.body, request=str(request), attempts=attempts)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream of the caller's own making; an error status is raised. Nothing is repeated here."""
        request.headers.setdefault("User-Agent", self._user_agent())
        request.timeout = None
        async with self.transport.open(request) as stream:
            if self._requests:
                self._requests.attempt(request, stream.status)
            if stream.status >= 400:
                raise error_of(stream.status, stream.headers, await stream.read(), request=str(request))
            yield stream

    def _user_agent(self) -> str:
        product = f"trainwright/{trainwright.__version__}"
        return f"{product} {self._agent}" if self._agent else product

    def _codec(self, obj: AnyObject, kind: Kind | None) -> Codec[Any]:
        return codec_of(kind if kind is not None else kind_of(obj, self._kinds))

    def _options(self, dry_run: bool | None, field_manager: str, *, validation: bool) -> dict[str, str]:
        query: dict[str, str] = {}
        if manager := field_manager or self._defaults.field_manager:
            query["fieldManager"] = manager
        if validation and self._defaults.field_validation:
            query["fieldValidation"] = self._defaults.field_validation
        if self._defaults.dry_run if dry_run is None else dry_run:
            query["dryRun"] = "All"
        return query

    async def _write(
        self,
        codec: Codec[Any],
        method: str,
        obj: AnyObject,
        name: str,
        *,
        path_name: str | None,
        dry_run: bool | None,
        field_manager: str,
        subresource: str = "",
    ) -> AnyObject:
        document = {**wire(obj), "apiVersion": codec.resource.api_version, "kind": codec.resource.kind}
        namespace = namespace_of(obj)
        request = Request(
            method,
            codec.resource.path(namespace or None, path_name, subresource or None),
            self._options(dry_run, field_manager, validation=True),
            {"Accept": codec.accept, "Content-Type": _JSON},
            _ENCODER.encode(document),
        )
        return await self._send_write(codec, request, Key(namespace if codec.resource.namespaced else "", name))

    async def _send_write(self, codec: Codec[Any], request: Request, key: Key) -> AnyObject:
        silent = "dryRun" in request.query or self._writes is None or not key.name
        pending = IgnoredWrite() if silent or self._writes is None else self._writes.begin(codec.resource, key)
        try:
            response = await self.send(request)
            obj: AnyObject = codec.decode(response.body)
        except BaseException:
            pending.failed()
            raise
        pending.written(codec, obj)
        return obj


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
