# SPDX-License-Identifier: Apache-2.0
"""Records events of events.k8s.io/v1 without ever making a reconciler wait (E-6, E-7, E-10 to E-18).

`event` decides at once and puts at most one write into a queue; a full queue drops. One task writes, in order. A
connection that fails is tried again for a few minutes, a refusal is not. When the process ends, what is queued and what
only memory knows is written, within a limit; after that events are dropped.

Text is only ever data: nothing in a note, a name or a reason is looked at as a format.
"""

import asyncio
import logging
import random
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.errors import AlreadyExists, ApiError, KubernetesError, NotFound, ServerError
from trainwright.controller.runtime.events.correlator import FORGET_SECONDS, REFRESH_SECONDS, Correlator, Series
from trainwright.controller.runtime.events.occurrence import (
    NOTE_BYTES,
    TYPES,
    WORD_BYTES,
    EventType,
    Occurrence,
    cut,
    reference_to,
)
from trainwright.controller.runtime.objects import AnyObject
from trainwright.controller.runtime.rights import Rule
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

QUEUE = 1000
TRIES = 12
PAUSE_SECONDS = 10.0
FLUSH_SECONDS = 5.0


@dataclass
class RecorderStatistics:
    """What became of events since the start."""

    recorded: int = 0
    created: int = 0
    patched: int = 0
    dropped: int = 0
    """Because the queue was full, or after the end."""
    refused: int = 0
    """By the limit per object."""
    failed: int = 0
    """Not written: refused by the API server, or not reachable for too long."""


class EventRecorder:
    """Events of one controller. A runnable; add it to the group that ends last, so that everybody can still record."""

    RULES = (Rule.on(Event.RESOURCE, "create", "patch"),)
    """What it needs in the namespaces of the objects that events are about."""

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str = "",
        now: Now = wall_clock,
        chance: Callable[[], float] = random.random,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        """`controller`: the reporting controller, such as `example.com/web`."""
        self._client = client
        self._now = now
        self._chance = chance
        self._flush_seconds = flush_seconds
        instance = instance or f"{controller.rpartition('/')[2]}-{socket.gethostname()}"
        self._correlator = Correlator(controller, cut(instance, WORD_BYTES))
        self._queue: deque[Series] = deque()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = False
        self._statistics = RecorderStatistics()

    def event(
        self,
        regarding: AnyObject,
        type: EventType,  # noqa: A002 - the API's own word
        reason: str,
        note: str,
        *,
        action: str = "",
        related: AnyObject | None = None,
    ) -> None:
        """Record that something happened to `regarding`. Never waits, never raises for what the API server might say.

        `reason` is a word in CamelCase, `action` what was done (the reason, if not given), `note` a sentence. Raises
        ConfigurationError for an object that cannot be named. From the event loop's thread only.
        """
        occurrence = Occurrence(
            reference_to(regarding),
            reference_to(related) if related is not None else None,
            type,
            cut(reason, WORD_BYTES),
            cut(action or reason, WORD_BYTES),
            cut(note, NOTE_BYTES),
        )
        if type not in TYPES:
            log.error("event %s dropped: the type %r is neither Normal nor Warning", reason, type)
            return
        self._statistics.recorded += 1
        if self._ended:
            self._statistics.dropped += 1
            return
        loop = asyncio.get_running_loop()
        for series in self._correlator.take(occurrence, loop.time(), self._now()):
            self._put(series)

    def statistics(self) -> RecorderStatistics:
        """A snapshot."""
        return replace(self._statistics, refused=self._correlator.refused)

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Write until `request_stop`, then flush."""
        try:
            async with TaskScope("events") as tasks:
                writer = tasks.start("events/writer", self._write_all())
                tasks.start("events/refresh", self._refresh())
                stop = tasks.start("events/stop", _wait(self._stopping))
                await asyncio.wait({writer, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ended = True
        await self._flush()

    def request_stop(self) -> None:
        """End after a flush."""
        self._stopping.set()

    def _put(self, series: Series) -> None:
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
            log.warning("events: %d were not written before the end: %s", len(left), str(cause) or "no time")

    # ------------------------------------------------------------------ writing

    async def _write_patiently(self, series: Series) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._write(series)
            except KubernetesError as error:
                if attempt == TRIES:
                    self._give_up(series, error)
                    return
                # Replicas that were cut off together come back apart.
                await asyncio.sleep(PAUSE_SECONDS * (self._chance() if attempt == 1 else 1 + self._chance() / 4))
            else:
                return

    async def _write(self, series: Series) -> None:
        """Write the state of now. Raises KubernetesError where another try makes sense."""
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

    async def _patch(self, series: Series) -> bool:
        """False if the event is gone: it has to be created anew."""
        try:
            await self._client.patch(Event.RESOURCE, series.name, series.namespace, series.progress)
        except NotFound:
            return False
        return True

    async def _create(self, series: Series) -> None:
        try:
            await self._client.create(series.full, kind=Event.RESOURCE)
        except AlreadyExists:  # an earlier try arrived after all
            if series.count > 1:
                await self._patch(series)

    def _give_up(self, series: Series, error: KubernetesError) -> None:
        self._statistics.failed += 1
        self._correlator.forget(series)
        log.warning("event %s/%s was not written: %s", series.namespace, series.name, error)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
