# SPDX-License-Identifier: Apache-2.0
"""List and watch, for ever: what keeps one informer equal to the server (R-1 to R-34).

The first fill is a streaming list where the server can do it, a paged list otherwise; then watches follow one another
from the last version seen. A gap (410) leads to a list; everything else that ends a watch leads to another watch from
the same version. What arrives goes to a `Sink`; what it means is not decided here.

Differences from client-go, on purpose: the streaming list has a deadline (R-22) and its failure is remembered for ten
minutes; a stream without a byte for `IDLE_SECONDS` is dead (H-19).
"""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from trainwright.controller.runtime.cache.backoff import Backoff
from trainwright.controller.runtime.cache.scope import Scope
from trainwright.controller.runtime.client.answers import error_of
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.reads import PAGE
from trainwright.controller.runtime.client.watch import Frame, StreamSilent
from trainwright.controller.runtime.errors import (
    ApiError,
    ConnectionLost,
    DecodeError,
    Forbidden,
    Gone,
    KubernetesError,
    NotFound,
    RequestTimeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from trainwright.controller.runtime.kinds import Kind
from trainwright.controller.runtime.pacing import Pacer

WATCH_SECONDS = 300
"""The server is asked to end a watch after a random time between this and twice this."""
IDLE_SECONDS = 150.0
"""Bookmarks come about once a minute; no byte for this long means that the stream is dead."""
OVERTIME_SECONDS = 30.0
"""A watch that the server did not end this long after the time asked for is ended by us."""
STREAM_LIST_SILENCE_SECONDS = 30.0
STREAM_LIST_SECONDS = 300.0
STREAM_LIST_MEMORY_SECONDS = 600.0
MISSING_SECONDS = 10.0
"""A kind that the server does not have is asked for at least this often: its CRD may be on its way."""
SHORT_SECONDS = 1.0
"""A watch that ends earlier without an event is a failure, not an end."""

END_OF_LIST = "k8s.io/initial-events-end"


class ShortWatch(ConnectionLost):
    """The server ended a watch at once and without an event."""


class StreamListFailed(ConnectionLost):
    """The server gave no end of the initial events, so it cannot do this, or not now."""


class StreamListCut(ConnectionLost):
    """The connection ended in the middle of the initial events."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class Filling(Protocol):
    """A list on its way in; dropped if it does not arrive whole."""

    def add(self, frame: Frame) -> None:
        """One object more, or a change of one that came before."""
        ...

    async def finish(self, version: str) -> None:
        """These were all objects, as of `version`: replace the content."""
        ...


class Sink(Protocol):
    """Where a reflector puts what it reads."""

    def fill(self) -> Filling:
        """A list begins."""
        ...

    def apply(self, frame: Frame) -> str:
        """One change; gives the version it was at, empty if the frame was skipped (R-32)."""
        ...

    def bookmark(self, version: str) -> None:
        """Nothing changed up to `version`."""
        ...

    def connected(self) -> None:
        """The server answered."""
        ...

    def failed(self, error: KubernetesError) -> None:
        """A step failed; it will be tried again."""
        ...


class Reflector:
    """Runs until cancelled. `idle` in seconds, None means IDLE_SECONDS. `rand` gives numbers in [0, 1)."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        scope: Scope,
        sink: Sink,
        *,
        streaming: bool = True,
        page: int = PAGE,
        idle: float | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._sink = sink
        self._streaming = streaming
        self._page = page
        self._idle = IDLE_SECONDS if idle is None else idle
        self._rand = rand
        self._backoff = Backoff(rand)
        self._version = ""
        self._version_unavailable = False
        self._no_stream_list_until = float("-inf")

    async def run(self) -> None:
        """Fill and follow, with a pause after each end; never returns."""
        while True:
            try:
                await self._fill_and_follow()
            except KubernetesError as error:
                self._sink.failed(error)
                await self._pause(error)
            else:
                await self._backoff.sleep()

    async def _pause(self, error: KubernetesError) -> None:
        if isinstance(error, ApiError) and error.retry_after is not None:
            await asyncio.sleep(error.retry_after)
        else:
            most = MISSING_SECONDS if isinstance(error, NotFound) else float("inf")
            await self._backoff.sleep(most)

    async def _fill_and_follow(self) -> None:
        loop = asyncio.get_running_loop()
        if self._streaming and loop.time() >= self._no_stream_list_until:
            try:
                await self._stream_list()
            except (TooManyRequests, Unreachable, Forbidden, Unauthorized, NotFound, StreamListCut):
                raise  # a list would fare no better
            except KubernetesError as error:
                self._sink.failed(error)
                self._no_stream_list_until = loop.time() + STREAM_LIST_MEMORY_SECONDS
                await self._list()
        else:
            await self._list()
        while True:
            try:
                await self._watch()
            except (TooManyRequests, Unreachable) as error:
                self._sink.failed(error)
                await self._pause(error)

    # ------------------------------------------------------------------ lists

    async def _stream_list(self) -> None:
        """One stream that begins with what exists and goes on as a watch; returns when it ends after its list."""
        try:
            await self._watch(initial=True, version="" if self._version_unavailable else self._version)
        except Gone:
            await self._watch(initial=True, version="")
        self._version_unavailable = False

    async def _list(self) -> None:
        version = "" if self._version_unavailable else self._version or "0"
        try:
            await self._list_from(version)
        except Gone:
            if not version:
                raise
            self._version_unavailable = True
            await self._list_from("")
        self._version_unavailable = False

    async def _list_from(self, version: str) -> None:
        limit = self._page if version in {"", "0"} else 0
        filling = self._sink.fill()
        pacer = Pacer()
        listed, token = "", ""
        while True:
            try:
                page = await self._client.list_page(
                    self._kind,
                    self._scope.namespace,
                    label_selector=self._scope.label_selector,
                    field_selector=self._scope.field_selector,
                    limit=limit,
                    continue_token=token,
                    resource_version=version,
                )
            except Gone:
                if not token:
                    raise
                # the snapshot of the first pages is gone: once more, in one piece
                limit, listed, token, filling = 0, "", "", self._sink.fill()
                continue
            self._sink.connected()
            for raw in page.items:
                filling.add(Frame("ADDED", raw))
                await pacer.pause()
            listed = listed or page.resource_version
            token = page.continue_token
            if not token:
                break
        await filling.finish(listed)
        self._version = listed

    # ------------------------------------------------------------------ watches

    async def _watch(self, *, initial: bool = False, version: str | None = None) -> None:
        """One watch. With `initial` it first collects what exists. Ends normally if the server or silence ended it."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        seconds = int(WATCH_SECONDS * (1.0 + self._rand()))
        follow = _Follow(self, self._sink.fill() if initial else None)
        lost: KubernetesError | None = None
        try:
            async with (
                asyncio.timeout(seconds + OVERTIME_SECONDS),
                self._client.watch(
                    self._kind,
                    self._scope.namespace,
                    resource_version=self._version if version is None else version,
                    label_selector=self._scope.label_selector,
                    field_selector=self._scope.field_selector,
                    seconds=seconds,
                    idle=lambda: self._idle if follow.filling is None else STREAM_LIST_SILENCE_SECONDS,
                    initial_events=initial,
                ) as batches,
            ):
                self._sink.connected()
                async for batch in batches:
                    await follow.take(batch)
                    if follow.filling is not None and loop.time() - started > STREAM_LIST_SECONDS:
                        raise StreamListFailed(f"no end of the initial events after {STREAM_LIST_SECONDS:.0f} s")
        except TimeoutError:
            lost = RequestTimeout(f"watch: not ended {OVERTIME_SECONDS:.0f} s after its time")
        except (StreamSilent, ConnectionLost) as error:
            if isinstance(error, StreamListFailed):
                raise
            lost = error
        if follow.filling is not None:
            why = f"stream ended within the initial events: {lost or 'closed by the server'}"
            raise (StreamListCut if follow.seen and not isinstance(lost, StreamSilent) else StreamListFailed)(why)
        if lost is not None:
            self._sink.failed(lost)
        if follow.seen == 0 and loop.time() - started < SHORT_SECONDS:
            raise ShortWatch(f"watch ended after {loop.time() - started:.2f} s without an event")


def _bookmark_of(frame: Frame) -> _Meta:
    try:
        return _BOOKMARK.decode(frame.object).metadata
    except msgspec.MsgspecError as error:
        raise DecodeError(f"watch: not a bookmark: {error}") from error


class _Follow:
    """The frames of one stream: into a list until the end marker, then one by one."""

    def __init__(self, reflector: Reflector, filling: Filling | None) -> None:
        self._reflector = reflector
        self._sink = reflector._sink  # noqa: SLF001 - one class in two parts
        self._pacer = Pacer()
        self.filling = filling
        self.seen = 0

    async def take(self, batch: list[Frame]) -> None:
        """All frames that came in one piece."""
        for frame in batch:
            self.seen += 1
            if frame.type == "ERROR":
                raise error_of(0, {}, frame.object, request="watch")
            if frame.type == "BOOKMARK":
                await self._bookmark(_bookmark_of(frame))
            elif self.filling is not None:
                self.filling.add(frame)
            else:
                self._reach(self._sink.apply(frame))
            await self._pacer.pause()

    async def _bookmark(self, metadata: _Meta) -> None:
        if self.filling is None:
            self._sink.bookmark(metadata.resource_version)
        elif (metadata.annotations or {}).get(END_OF_LIST) == "true":
            filling, self.filling = self.filling, None
            await filling.finish(metadata.resource_version)
        else:
            return
        self._reach(metadata.resource_version)

    def _reach(self, version: str) -> None:
        if version:
            self._reflector._version = version  # noqa: SLF001 - one class in two parts
