# SPDX-License-Identifier: Apache-2.0
"""Watches: what changes, as a stream of frames.

An object that begins to match the selectors is ADDED, one that stops matching is DELETED with its previous content and
the new version. https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from trainwright.api.objects import Document
from trainwright.api.surroundings import fraction
from trainwright.api.times import wall_clock
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.info import RequestInfo, ServerResponse, encode, negotiate
from trainwright.controller.local.apiserver.request.lists import (
    ListOptions,
    ObjectSelection,
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
from trainwright.controller.local.apiserver.views.negotiation import MediaTypeOptions
from trainwright.controller.local.apiserver.views.tables import include_of

SECONDS = 1800
"""How long a watch lasts at least that does not say it; up to twice as long, so that not all end together."""
BOOKMARK_SECONDS = 60.0
BOOKMARK_BEFORE_END = 2.0
_LAST_INITIAL = {"annotations": {"k8s.io/initial-events-end": "true"}}


class Watches:
    """Serves watches of any kind."""

    def __init__(self, store: ObjectStore, reads: ResourceReads) -> None:
        self._store = store
        self._reads = reads
        self._open: set[asyncio.Event] = set()

    async def watch(self, call: RequestInfo, options: ListOptions) -> ServerResponse:
        """Begin a watch. Raises StatusError."""
        wanted = negotiate(call)
        selection = selection_of(call)
        version = parsed_version(options.version, errors.plain_internal)
        seconds = float(options.seconds or SECONDS * (1 + fraction()))
        include_of(call.request.param("includeObject"))
        frames = _Frames(call, selection, wanted)
        if wanted.form == "metadata" and wanted.as_list:
            # The real server finds out with the first event that no object is a list, and ends the stream.
            return ServerResponse(stream=self._nothing(), content_type="application/json")
        stream = self._stream(call, options, version, frames, seconds)
        # What the watch begins with is settled before the client is answered, so that it misses no change after that.
        await anext(stream)
        return ServerResponse(stream=stream, content_type="application/json")

    async def _nothing(self) -> AsyncGenerator[bytes, None]:
        for _ in ():
            yield b""

    async def _stream(
        self, call: RequestInfo, options: ListOptions, version: int, frames: "_Frames", seconds: float
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        collection = call.resource.stored_in
        initial = options.initial if options.initial is not None else version == 0
        if not initial and version == 0:
            version = self._store.version
        try:
            # What changes after a version of the future is waited for: the real server sends nothing until then.
            start = self._store.version if initial else version
            existing = list(self._store.collection(collection).listed(call.namespace)) if initial else []
            watch = self._store.watch(collection, start)
        except Expired as error:
            yield b""
            yield _error(errors.expired(str(error)))
            return
        try:
            yield b""
            if initial:
                try:
                    await self._reads.reach(version)
                    await self._store.committed(start)
                    await self._reads.conversions.prepare(call.resource, existing)
                except errors.StatusError as error:
                    yield _error(error)
                    return
                for one in existing:
                    if (frame := frames.initial(one)) is not None:
                        yield frame
            if options.initial and options.bookmarks:
                yield frames.bookmark(start, _LAST_INITIAL)
            async for frame in self._changes(call, watch, frames, start, end, bookmarks=options.bookmarks):
                yield frame
        except errors.StatusError as error:
            yield _error(error)
        finally:
            self._store.unwatch(collection, watch)

    async def _changes(
        self, call: RequestInfo, watch: StoreWatch, frames: "_Frames", start: int, end: float, *, bookmarks: bool
    ) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        marked = loop.time()
        last = False
        while not watch.closed:
            now = loop.time()
            if now >= end:
                return
            due = end
            if bookmarks:
                before_end = end - BOOKMARK_BEFORE_END
                due = min(end, marked + BOOKMARK_SECONDS, before_end if not last else end)
            told = self._store.notified_revision
            try:
                changes = await watch.take(max(0.0, due - now))
            except Overflow:
                return
            if watch.ended and not changes:
                return
            if changes:
                if call.resource.conversion is not None:
                    shown = [one for change in changes for one in (change.object, change.before) if one is not None]
                    await self._reads.conversions.prepare(call.resource, shown)
                for change in changes:
                    if (frame := frames.of(change)) is not None:
                        yield frame
            elif bookmarks and loop.time() >= due and due < end:
                marked, last = loop.time(), due >= end - BOOKMARK_BEFORE_END
                if told > start:
                    yield frames.bookmark(told)


class _Frames:
    """The frames of one watch."""

    def __init__(self, call: RequestInfo, selection: ObjectSelection, wanted: MediaTypeOptions) -> None:
        self._call = call
        self._served = call.resource
        self._selection = selection
        self._wanted = wanted
        self._columns_sent = False

    def initial(self, one: StoredObject) -> bytes | None:
        """An object that is there when the watch begins."""
        return self._frame("ADDED", one) if self._matches(one) else None

    def of(self, change: StoreChange) -> bytes | None:
        """A change, as this watch sees it."""
        if change.type == "DELETED":
            return self._frame("DELETED", change.object) if self._matches(change.object) else None
        now = self._matches(change.object)
        before = change.before is not None and self._matches(change.before)
        if now:
            return self._frame("MODIFIED" if before else "ADDED", change.object)
        if before and change.before is not None:
            document = self._served.named(change.before.document())
            document["metadata"]["resourceVersion"] = str(change.version)
            return self._framed("DELETED", document)
        return None

    def bookmark(self, version: int, metadata: Document | None = None) -> bytes:
        """Says how far the watch has come."""
        document = {
            "kind": self._served.kind,
            "apiVersion": self._served.api_version,
            "metadata": {"resourceVersion": str(version), **(metadata or {})},
        }
        if self._wanted.form == "metadata":
            document["kind"], document["apiVersion"] = "PartialObjectMetadata", f"meta.k8s.io/{self._wanted.version}"
        return reads.event_bytes("BOOKMARK", encode(document))

    def _matches(self, one: StoredObject) -> bool:
        return self._selection.stored(one)

    def _frame(self, type_: str, one: StoredObject) -> bytes:
        if self._wanted.form == "object":
            return reads.event_bytes(type_, reads.object_bytes(self._served, one))
        return self._framed(type_, self._served.named(one.document()))

    def _framed(self, type_: str, document: Document) -> bytes:
        if self._wanted.form != "object":
            headers = not self._columns_sent
            document = formed(self._call, [document], self._wanted, now=wall_clock(), headers=headers)
            self._columns_sent = True
        return reads.event_bytes(type_, encode(document))


def _error(error: errors.StatusError) -> bytes:
    return reads.event_bytes("ERROR", encode(error.document()))
