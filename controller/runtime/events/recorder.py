# SPDX-License-Identifier: Apache-2.0
"""Records events without ever blocking a reconciler.

They are written as core/v1, with the times and counts of that API and of events.k8s.io/v1: the API server stores both
as one kind, but refuses `firstTimestamp` through events.k8s.io/v1, and many programs read it.

`event` puts at most one write into a queue; a full queue drops it. One task writes, in order. A failed connection is
retried for a few minutes, a refusal is not. When the process ends, queued and unwritten events are flushed within a
time limit; events after that are dropped.

Notes, names and reasons are never interpreted as formats.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from prometheus_client.core import CounterMetricFamily, Metric

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject
from trainwright.api.rights import Rule
from trainwright.api.surroundings import fraction, host
from trainwright.api.times import Now, wall_clock
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import AlreadyExists, ApiError, KubernetesError, NotFound, ServerError
from trainwright.controller.runtime.events.correlator import (
    FORGET_SECONDS,
    NOTE_BYTES,
    REFRESH_SECONDS,
    TYPES,
    WORD_BYTES,
    Correlator,
    EventKind,
    NormalOrWarning,
    SeriesCount,
    cut,
    event_object,
)
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

EVENT = Resource(group="", version="v1", kind="Event", plural="events", namespaced=True)
QUEUE = 1000
TRIES = 12
PAUSE_SECONDS = 10.0
FLUSH_SECONDS = 5.0


@dataclass
class RecorderStatistics:
    """Counts of events since the start."""

    recorded: int = 0
    created: int = 0
    patched: int = 0
    dropped: int = 0
    """Dropped because the queue was full, or after the end."""
    refused: int = 0
    """Refused by the limit per object."""
    failed: int = 0
    """Not written: refused by the API server, or it was unreachable for too long."""


class EventRecorder:
    """Events of one controller. A runnable; add it to the group that ends last, so that all others can still record."""

    RULES = (Rule.on(EVENT, "create", "patch"),)
    """Rights in the namespaces of the objects of events."""

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str = "",
        now: Now = wall_clock,
        chance: Callable[[], float] = fraction,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        """`controller`: the reporting controller, such as `example.com/web`."""
        self._client = client
        self._now = now
        self._chance = chance
        self._flush_seconds = flush_seconds
        instance = instance or f"{controller.rpartition('/')[2]}-{host()}"
        self._correlator = Correlator(controller, cut(instance, WORD_BYTES))
        self._queue: deque[SeriesCount] = deque()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = False
        self._statistics = RecorderStatistics()

    def event(
        self,
        regarding: AnyObject,
        type: NormalOrWarning,  # noqa: A002 - the name in the API
        reason: str,
        note: str,
        *,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record an event about `regarding`. Never blocks, and never raises for errors of the API server.

        `reason` is a word in CamelCase, `action` what was done (default: the reason), `note` a sentence. Raises
        ConfigurationError for an object without apiVersion and kind. Call it only from the thread of the event loop.
        """
        kind = EventKind(
            event_object(regarding),
            event_object(related) if related is not None else None,
            type,
            cut(reason, WORD_BYTES),
            cut(action or reason, WORD_BYTES),
        )
        if type not in TYPES:
            log.error("event %s dropped: its type %r is not Normal or Warning", reason, type)
            return
        self._statistics.recorded += 1
        if self._ended:
            self._statistics.dropped += 1
            return
        loop = asyncio.get_running_loop()
        for series in self._correlator.take(kind, cut(note, NOTE_BYTES), loop.time(), self._now()):
            self._put(series)

    def statistics(self) -> RecorderStatistics:
        return replace(self._statistics, refused=self._correlator.refused)

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Write until `request_stop`, then flush."""
        try:
            async with TaskScope("events") as tasks:
                writer = tasks.start("events/writer", self._write_all())
                tasks.start("events/refresh", self._refresh())
                await tasks.first(writer, self._stopping)
        finally:
            self._ended = True
        await self._flush()

    def request_stop(self) -> None:
        """Flush, then end."""
        self._stopping.set()

    def _put(self, series: SeriesCount) -> None:
        if len(self._queue) >= QUEUE:
            self._statistics.dropped += 1
            if not series.written:
                self._correlator.forget(series)
            return
        self._queue.append(series)
        self._wake.set()

    async def _write_all(self) -> None:
        while True:
            while self._queue:
                await self._write_patiently(self._queue[0])
                self._queue.popleft()
            self._wake.clear()
            await self._wake.wait()

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        refreshed = loop.time()
        while True:
            await asyncio.sleep(FORGET_SECONDS)
            refresh = loop.time() - refreshed >= REFRESH_SECONDS
            refreshed = loop.time() if refresh else refreshed
            for series in self._correlator.due(loop.time(), refresh=refresh):
                self._put(series)

    async def _flush(self) -> None:
        final = self._correlator.due(asyncio.get_running_loop().time(), final=True)
        left = dict.fromkeys([*self._queue, *final])
        self._queue.clear()
        cause: Exception | None = None
        try:
            async with asyncio.timeout(self._flush_seconds):
                for series in list(left):
                    try:
                        await self._write(series)
                    except KubernetesError as error:
                        cause = error
                    else:
                        del left[series]
        except TimeoutError as error:
            cause = error
        if left:
            self._statistics.failed += len(left)
            log.warning("events: %d not written before the process ended: %s", len(left), str(cause) or "out of time")

    # ------------------------------------------------------------------ writing

    async def _write_patiently(self, series: SeriesCount) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._write(series)
            except KubernetesError as error:
                if attempt == TRIES:
                    self._give_up(series, error)
                    return
                # Jitter: replicas that lost the connection together must not return together.
                await asyncio.sleep(PAUSE_SECONDS * (self._chance() if attempt == 1 else 1 + self._chance() / 4))
            else:
                return

    async def _write(self, series: SeriesCount) -> None:
        """Write the current state. Raises KubernetesError if a retry can help."""
        if series.count == series.written:
            return
        count = series.count
        try:
            if series.written and await self._patch(series):
                self._statistics.patched += 1
            else:
                await self._create(series)
                self._statistics.created += 1
        except ServerError:
            raise
        except ApiError as error:
            self._give_up(series, error)
            return
        series.written = count

    async def _patch(self, series: SeriesCount) -> bool:
        """False if the event no longer exists and must be created."""
        try:
            await self._client.patch(EVENT, series.name, series.namespace, series.progress)
        except NotFound:
            return False
        return True

    async def _create(self, series: SeriesCount) -> None:
        try:
            await self._client.create(series.full, kind=EVENT)
        except AlreadyExists:  # an earlier attempt succeeded
            if series.count > 1:
                await self._patch(series)

    def _give_up(self, series: SeriesCount, error: KubernetesError) -> None:
        self._statistics.failed += 1
        self._correlator.forget(series)
        log.warning("event %s/%s was not written: %s", series.namespace, series.name, error)


def event_metrics(now: RecorderStatistics) -> Iterator[Metric]:
    yield CounterMetricFamily("event_recorder_events", "Events recorded.", value=now.recorded)
    writes = CounterMetricFamily("event_recorder_writes", "Events written.", labels=["verb"])
    writes.add_metric(["create"], now.created)
    writes.add_metric(["patch"], now.patched)
    yield writes
    lost = CounterMetricFamily("event_recorder_lost", "Events not written, by cause.", labels=["cause"])
    lost.add_metric(["queue"], now.dropped)
    lost.add_metric(["limit"], now.refused)
    lost.add_metric(["failed"], now.failed)
    yield lost
