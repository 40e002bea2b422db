# SPDX-License-Identifier: Apache-2.0
"""Lists and watches for ever, and so keeps one informer equal to the server.

The first fill is a streaming list if the server supports it, otherwise a paged list. Then watches follow one another
from the last version seen. A gap (410) leads to a new list; any other end of a watch leads to another watch from the
same version. A `Sink` receives the objects and decides what they mean.

Differences from client-go: the streaming list has a deadline, and its failure is remembered for ten minutes. A stream
without a byte for `IDLE_SECONDS` counts as dead. A watch that was silent from its begin may ask for changes since a
version that the server has not reached, because its storage was replaced or went back: the server would be silent for
ever. So it is asked whether it has the version.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import msgspec

from trainwright.api.objects import AnyObject, labels_of, namespace_of
from trainwright.api.selectors import LabelMatcher
from trainwright.api.surroundings import fraction
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.reads import PAGE
from trainwright.controller.runtime.client.session import error_of
from trainwright.controller.runtime.client.watch import Frame, StreamSilent
from trainwright.controller.runtime.errors import (
    ApiError,
    ConnectionLost,
    Forbidden,
    Gone,
    KubernetesError,
    NotFound,
    RequestTimeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from trainwright.controller.runtime.kinds import Kind, decoded
from trainwright.controller.runtime.lag import Pacer
from trainwright.controller.runtime.selectors import parse_label_selector


@dataclass(frozen=True)
class CacheScope:
    """Which objects of a kind a cache holds: a namespace (empty: all) and selectors in string form (empty: no limit).

    The server filters by them. The same filter is applied here to the answers of own writes, which do not come through
    the watch.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @cached_property
    def _labels(self) -> LabelMatcher:
        return parse_label_selector(self.label_selector)

    def admits(self, obj: AnyObject) -> bool | None:
        """Whether the object is in scope; None if only the server knows (field selectors)."""
        if self.namespace and namespace_of(obj) != self.namespace:
            return False
        if not self._labels.matches(labels_of(obj)):
            return False
        return None if self.field_selector else True

    def __str__(self) -> str:
        parts = [f"namespace {self.namespace}" if self.namespace else "all namespaces"]
        parts += [selector for selector in (self.label_selector, self.field_selector) if selector]
        return ", ".join(parts)


FIRST_SECONDS = 0.8
CAP_SECONDS = 30.0
RESET_SECONDS = 120.0


class RetryDelays:
    """Growing delays. `rand` returns numbers in [0, 1)."""

    def __init__(self, rand: Callable[[], float] = fraction) -> None:
        self._rand = rand
        self._next = FIRST_SECONDS
        self._reset_at: float | None = None

    def step(self, now: float) -> float:
        """The next delay in seconds. `now` is the time of the event loop."""
        if self._reset_at is None:
            self._reset_at = now
        elif now - self._reset_at > RESET_SECONDS:
            self._reset_at = now
            self._next = FIRST_SECONDS
        delay = self._next
        self._next = min(CAP_SECONDS, self._next * 2)
        return delay * (1.0 + self._rand())

    async def sleep(self, most: float = float("inf")) -> float:
        """Sleep for the next delay, at most `most` seconds; returns the seconds."""
        delay = min(most, self.step(asyncio.get_running_loop().time()))
        await asyncio.sleep(delay)
        return delay


WATCH_SECONDS = 300
"""Requested length of a watch: a random time between this and twice this."""
IDLE_SECONDS = 150.0
"""A stream without a byte for this long is dead; bookmarks come about once a minute."""
OVERTIME_SECONDS = 30.0
"""A watch that outlasts its requested length by this much is closed."""
STREAM_LIST_SILENCE_SECONDS = 30.0
STREAM_LIST_SECONDS = 300.0
STREAM_LIST_MEMORY_SECONDS = 600.0
MISSING_SECONDS = 10.0
"""Longest pause while the server does not know the kind: its CRD may be installed soon."""
SHORT_SECONDS = 1.0
"""A watch that ends earlier without an event has failed."""

END_OF_LIST = "k8s.io/initial-events-end"


class ShortWatch(ConnectionLost):
    """The server ended a watch at once, without an event."""


class StreamListFailed(ConnectionLost):
    """The server did not finish the initial events: it does not support them, or not now."""


class StreamListCut(ConnectionLost):
    """The connection broke during the initial events."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class Filling(Protocol):
    """A list that is arriving; dropped if it is not completed."""

    def add(self, frame: Frame) -> None:
        """Add an object, or a change of an earlier one."""
        ...

    async def finish(self, version: str) -> None:
        """The list is complete as of `version`: replace the content."""
        ...


class ReflectorSink(Protocol):
    """Receives what a reflector reads."""

    def fill(self) -> Filling:
        """A list begins."""
        ...

    def apply(self, frame: Frame) -> str:
        """Apply one change; returns its version, empty if the frame was skipped."""
        ...

    def bookmark(self, version: str) -> None:
        """The watch is complete up to `version`."""
        ...

    def connected(self) -> None:
        """The server answered."""
        ...

    def failed(self, error: KubernetesError) -> None:
        """A list or watch failed; it is retried."""
        ...


class Reflector:
    """Runs until cancelled."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        scope: CacheScope,
        sink: ReflectorSink,
        *,
        streaming: bool = True,
    ) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._sink = sink
        self._streaming = streaming
        self._delays = RetryDelays()
        self._version = ""
        self._version_unavailable = False
        self._no_stream_list_until = float("-inf")

    async def run(self) -> None:
        """List and watch, with a pause after each end. Never returns."""
        while True:
            try:
                await self._fill_and_follow()
            except KubernetesError as error:
                self._sink.failed(error)
                await self._pause(error)
            else:
                await self._delays.sleep()

    async def _pause(self, error: KubernetesError) -> None:
        if isinstance(error, ApiError) and error.retry_after is not None:
            await asyncio.sleep(error.retry_after)
        else:
            most = MISSING_SECONDS if isinstance(error, NotFound) else float("inf")
            await self._delays.sleep(most)

    async def _fill_and_follow(self) -> None:
        loop = asyncio.get_running_loop()
        if self._streaming and loop.time() >= self._no_stream_list_until:
            try:
                await self._stream_list()
            except (TooManyRequests, Unreachable, Forbidden, Unauthorized, NotFound, StreamListCut):
                raise  # a paged list would fail too
            except KubernetesError as error:
                self._sink.failed(error)
                self._no_stream_list_until = loop.time() + STREAM_LIST_MEMORY_SECONDS
                await self._list()
        else:
            await self._list()
        while True:
            try:
                if await self._watch():
                    await self._ask_for_version()
            except (TooManyRequests, Unreachable) as error:
                self._sink.failed(error)
                await self._pause(error)

    # ------------------------------------------------------------------ lists

    async def _stream_list(self) -> None:
        """One stream that starts with the existing objects and continues as a watch. Returns when the watch ends."""
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

    async def _ask_for_version(self) -> None:
        """Raises Gone, which leads to a list, if the server has not reached the version of the watches.

        One object is enough: the server compares the versions for a list of any length. Without the match it would ask
        for exactly this version, which may have been compacted.
        """
        try:
            await self._client.list_page(
                self._kind,
                self._scope.namespace,
                limit=1,
                resource_version=self._version,
                resource_version_match="NotOlderThan",
            )
        except Gone:
            self._version_unavailable = True
            raise
        except (TooManyRequests, Unreachable):
            raise
        except KubernetesError as error:
            self._sink.failed(error)

    async def _list_from(self, version: str) -> None:
        limit = PAGE if version in {"", "0"} else 0
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
                # the snapshot of the first pages has expired: list again in one piece
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

    async def _watch(self, *, initial: bool = False, version: str | None = None) -> bool:
        """One watch; with `initial` it starts with the existing objects. Returns when the server or silence ends it.

        True: the server answered, and then sent nothing for the idle limit.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        seconds = int(WATCH_SECONDS * (1.0 + fraction()))
        follow = _Follow(self, self._sink.fill() if initial else None)
        lost: KubernetesError | None = None
        answered = False
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
                    idle=lambda: IDLE_SECONDS if follow.filling is None else STREAM_LIST_SILENCE_SECONDS,
                    initial_events=initial,
                ) as batches,
            ):
                self._sink.connected()
                answered = True
                async for batch in batches:
                    await follow.take(batch)
                    if follow.filling is not None and loop.time() - started > STREAM_LIST_SECONDS:
                        raise StreamListFailed(f"streaming list: not complete after {STREAM_LIST_SECONDS:.0f} s")
        except TimeoutError:
            lost = RequestTimeout(f"watch: the server did not end it {OVERTIME_SECONDS:.0f} s after the requested time")
        except (StreamSilent, ConnectionLost) as error:
            if isinstance(error, StreamListFailed):
                raise
            lost = error
        if follow.filling is not None:
            why = f"streaming list: ended before it was complete: {lost or 'closed by the server'}"
            raise (StreamListCut if follow.seen and not isinstance(lost, StreamSilent) else StreamListFailed)(why)
        if lost is not None:
            self._sink.failed(lost)
        if follow.seen == 0 and loop.time() - started < SHORT_SECONDS:
            raise ShortWatch(f"watch ended after {loop.time() - started:.2f} s without an event")
        return answered and follow.seen == 0 and isinstance(lost, StreamSilent)


class _Follow:
    """Handles the frames of one stream: collects a list up to its end marker, then applies changes."""

    def __init__(self, reflector: Reflector, filling: Filling | None) -> None:
        self._reflector = reflector
        self._sink = reflector._sink  # noqa: SLF001 - one class in two parts
        self._pacer = Pacer()
        self.filling = filling
        self.seen = 0

    async def take(self, batch: list[Frame]) -> None:
        self._pacer.restart()
        for frame in batch:
            self.seen += 1
            if frame.type == "ERROR":
                raise error_of(0, {}, frame.object, request="watch")
            if frame.type == "BOOKMARK":
                await self._bookmark(decoded(_BOOKMARK, frame.object, "watch: not a bookmark").metadata)
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
