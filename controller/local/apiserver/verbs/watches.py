# SPDX-License-Identifier: Apache-2.0
"""Watches: what changes, as a stream of frames.

An object that begins to match the selectors is ADDED, one that stops matching is DELETED with its previous content and
the new version. https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from trainwright.api.objects import Document
from trainwright.api.surroundings import fraction
from trainwright.api.times import wall_clock
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.request.info import RequestInfo, ServerResponse, encode
from trainwright.controller.local.apiserver.request.lists import (
    ListOptions,
    parsed_version,
    selection_of,
)
from trainwright.controller.local.apiserver.store import (
    Expired,
    ObjectStore,
    Overflow,
    StoreChange,
    StoredObject,
    StoreWatch,
)
from trainwright.controller.local.apiserver.verbs import reads
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads, formed
from trainwright.controller.local.apiserver.views.negotiation import META
from trainwright.controller.local.apiserver.views.tables import check_include

SECONDS = 1800
"""How long a watch lasts at least that does not say it; up to twice as long, so that not all end together."""
BOOKMARK_SECONDS = 60.0
BOOKMARK_BEFORE_END = 2.0
_LAST_INITIAL = {"annotations": {"k8s.io/initial-events-end": "true"}}


class Watches:
    def __init__(self, store: ObjectStore, reads: ResourceReads, registry: ResourceRegistry) -> None:
        self._store = store
        self._reads = reads
        self._registry = registry

    async def watch(self, call: RequestInfo, options: ListOptions) -> ServerResponse:
        check_include(call.request.param("includeObject"))
        frames = _Frames(call)
        version = parsed_version(options.version, errors.plain_internal)
        if call.form.endswith("List"):
            # The real server finds out with the first event that no object is a list, and ends the stream.
            return ServerResponse(content_type="application/json")
        stream = self._stream(options, version, frames)
        # What the watch begins with is settled before the client is answered, so that it misses no change after that.
        await anext(stream)
        return ServerResponse(stream=stream, content_type="application/json")

    async def _stream(self, options: ListOptions, version: int, frames: "_Frames") -> AsyncGenerator[bytes, None]:
        end = asyncio.get_running_loop().time() + float(options.seconds or SECONDS * (1 + fraction()))
        served, namespace = frames.call.resource, frames.call.namespace
        initial = options.initial if options.initial is not None else version == 0
        if not initial and version == 0:
            version = self._store.version
        try:
            # What changes after a version of the future is waited for: the real server sends nothing until then.
            start = self._store.version if initial else version
            existing = list(self._store.collection(served.stored_in).listed(namespace)) if initial else []
            watch = self._store.watch(served.stored_in, start)
        except Expired as error:
            yield b""
            yield _error(errors.expired(str(error)))
            return
        try:
            yield b""
            if initial:
                await self._reads.reach(version)
                await self._store.committed(start)
                await self._reads.conversions.prepare(served, existing)
                for one in existing:
                    if (frame := frames.initial(one)) is not None:
                        yield frame
            if options.initial and options.bookmarks:
                yield frames.bookmark(start, _LAST_INITIAL)
            async for frame in self._changes(watch, frames, start, end, bookmarks=options.bookmarks):
                yield frame
        except errors.StatusError as error:
            yield _error(error)
        finally:
            self._store.unwatch(served.stored_in, watch)

    async def _changes(
        self, watch: StoreWatch, frames: "_Frames", start: int, end: float, *, bookmarks: bool
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        marked, last = loop.time(), False
        while not watch.closed and (now := loop.time()) < end:
            due = end
            if bookmarks:
                due = min(end, marked + BOOKMARK_SECONDS, end if last else end - BOOKMARK_BEFORE_END)
            told = self._store.notified_revision
            try:
                changes = await watch.take(max(0.0, due - now))
            except Overflow:
                return
            if watch.ended and not changes:
                return
            if changes:
                served = frames.call.resource
                # The definition of a custom resource may have changed: its schema, its columns, its conversion.
                current = self._registry.find(served.group, served.version, served.plural)
                if current is not None and current is not served:
                    frames = _Frames(replace(frames.call, resource=current))
                if frames.call.resource.conversion is not None:
                    shown = [one for change in changes for one in (change.object, change.before) if one is not None]
                    await self._reads.conversions.prepare(frames.call.resource, shown)
                for change in changes:
                    if (frame := frames.of(change)) is not None:
                        yield frame
            elif bookmarks and loop.time() >= due and due < end:
                marked, last = loop.time(), due >= end - BOOKMARK_BEFORE_END
                if told > start:
                    yield frames.bookmark(told)


class _Frames:
    """The frames of one watch, in one state of its resource. Raises StatusError where a selector does not fit."""

    def __init__(self, call: RequestInfo) -> None:
        self.call = call
        self._served = call.resource
        self._matches = selection_of(call).stored
        self._columns_sent = False

    def initial(self, one: StoredObject) -> bytes | None:
        return self._frame("ADDED", one) if self._matches(one) else None

    def of(self, change: StoreChange) -> bytes | None:
        now = self._matches(change.object)
        if change.type == "DELETED":
            return self._frame("DELETED", change.object) if now else None
        before = change.before if change.before is not None and self._matches(change.before) else None
        if now:
            return self._frame("ADDED" if before is None else "MODIFIED", change.object)
        if before is None:
            return None
        document = self._served.named(before.document())
        document["metadata"]["resourceVersion"] = str(change.version)
        return self._framed("DELETED", document)

    def bookmark(self, version: int, metadata: Document | None = None) -> bytes:
        kind, api_version = self._served.kind, self._served.api_version
        if self.call.form == "PartialObjectMetadata":
            kind, api_version = self.call.form, f"{META}/v1"
        about = {"resourceVersion": str(version), **(metadata or {})}
        return reads.event_bytes("BOOKMARK", encode({"kind": kind, "apiVersion": api_version, "metadata": about}))

    def _frame(self, type_: str, one: StoredObject) -> bytes:
        if not self.call.form:
            return reads.event_bytes(type_, reads.object_bytes(self._served, one))
        return self._framed(type_, self._served.named(one.document()))

    def _framed(self, type_: str, document: Document) -> bytes:
        if self.call.form:
            document = formed(self.call, [document], now=wall_clock(), headers=not self._columns_sent)
            self._columns_sent = True
        return reads.event_bytes(type_, encode(document))


def _error(error: errors.StatusError) -> bytes:
    return reads.event_bytes("ERROR", encode(error.document()))
