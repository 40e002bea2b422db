# SPDX-License-Identifier: Apache-2.0
"""The events of the dashboard's streams. Each is an endless generator that the server writes out as it is read.

A reader that is slow is not asked for more, so what it has missed becomes one event when it reads again.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TypeAlias

import msgspec

from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.cli.dashboard.curves import Marker, points_of
from trainwright.controller.cli.dashboard.looking import Looking
from trainwright.controller.cli.dashboard.watching import Subscriber, WatchedJobs
from trainwright.controller.runtime import KubernetesError

PAUSE_SECONDS = 0.25
"""Between two events with changes."""

Events: TypeAlias = AsyncGenerator[tuple[str, contract.PageAnswer], None]
_Event: TypeAlias = tuple[str, contract.PageAnswer] | None


async def list_events(watched: WatchedJobs) -> Events:
    """The list of jobs: a snapshot, then changes."""
    subscriber = watched.subscribe()
    try:
        subscriber.everything = True
        while not watched.is_closing:
            changed, deleted = subscriber.take()
            if subscriber.everything:
                subscriber.everything = subscriber.connection = False
                yield "snapshot", watched.snapshot()
            elif changed or deleted:
                yield "rows", watched.rows(changed, deleted)
            if subscriber.connection:
                subscriber.connection = False
                yield "connection", watched.connection
            await asyncio.sleep(PAUSE_SECONDS)
            if not await _woken(subscriber, contract.HEARTBEAT_SECONDS):
                yield "heartbeat", _now(watched)
        yield "bye", _now(watched)
    finally:
        watched.unsubscribe(subscriber)


async def job_events(watched: WatchedJobs, looking: Looking, key: Key) -> Events:
    """One job: everything about it when it changes, and its reports as they come."""
    subscriber = watched.subscribe(key)
    told = _Told(watched, looking, subscriber, key)
    is_lost = False
    try:
        while not watched.is_closing:
            subscriber.take()
            if (points := told.points()) is not None:
                yield "points", points
            reading = asyncio.ensure_future(told.job())
            try:
                # An API server that hangs must not silence the stream: the page would take the dashboard for lost.
                while not await _is_done(reading, subscriber, watched):
                    yield ("connection", watched.connection) if subscriber.connection else ("heartbeat", _now(watched))
                    subscriber.connection = False
                if not reading.done():
                    break
                event_of_job = reading.result()
            except KubernetesError:
                # Nothing is known of the job. Why is a matter of the connection, which says so.
                subscriber.connection, event_of_job = subscriber.connection or not is_lost, None
                is_lost = True
            else:
                is_lost = False
            finally:
                await _ended(reading)
            if event_of_job is not None:
                yield event_of_job
            if subscriber.connection:
                subscriber.connection = False
                yield "connection", watched.connection
            await asyncio.sleep(PAUSE_SECONDS)
            if not await _woken(subscriber, told.seconds):
                yield "heartbeat", _now(watched)
        yield "bye", _now(watched)
    finally:
        watched.unsubscribe(subscriber)


class _Told:
    def __init__(self, watched: WatchedJobs, looking: Looking, subscriber: Subscriber, key: Key) -> None:
        self._watched, self._looking, self._subscriber, self._key = watched, looking, subscriber, key
        self._sent: contract.Job | None = None
        self._is_gone = False
        self._is_new = True
        self._uid = ""
        self._marker = Marker()

    @property
    def seconds(self) -> float:
        """How long to wait before the job is read again."""
        return min(contract.HEARTBEAT_SECONDS, self._looking.pause(self._key))

    def points(self) -> contract.Points | None:
        """The reports since the last call; None: there were none."""
        held, subscriber = self._watched.held(self._key), self._subscriber
        reports, subscriber.reports = subscriber.reports, []
        is_new, self._is_new = self._is_new, False
        if held is None:
            return None
        if self._uid != held.uid or subscriber.again:
            self._uid, subscriber.again = held.uid, False
            self._marker = Marker(held.starts)
            points_of(held.uid, held.seen(), self._marker)
            # What was there before the stream is in the series, where the page reads it. It may have read too early
            # where the job is seen later, as by a stream that began before the dashboard's first list.
            return None if is_new else contract.Points(uid=held.uid, number=0, replace=True)
        return points_of(held.uid, reports, self._marker, number=held.number) if reports else None

    async def job(self) -> "_Event":
        """The job, if it is not as it was sent last; or that it is gone."""
        found = await self._looking.job(self._key)
        if found is None:
            was_gone, self._is_gone, self._sent = self._is_gone, True, None
            if was_gone:
                return None
            now = format_time(self._watched.now())
            return "gone", contract.JobGone(now=now, namespace=self._key.namespace, name=self._key.name)
        self._is_gone = False
        if self._sent is not None and _timeless(found) == _timeless(self._sent):
            return None
        self._sent = found
        return "job", found


def _timeless(job: contract.Job) -> contract.Job:
    """The job without what changes as time passes, which pages count themselves."""
    row = msgspec.structs.replace(job.row, age_seconds=None, remaining=None)
    connection = msgspec.structs.replace(job.connection, last_contact=None)
    return msgspec.structs.replace(job, now="", row=row, connection=connection)


async def _ended(reading: "asyncio.Task[_Event]") -> None:
    if not reading.done():
        reading.cancel()
        await asyncio.wait({reading})
    if not reading.cancelled():
        reading.exception()  # or the loop logs that nobody took it


async def _is_done(reading: "asyncio.Task[_Event]", subscriber: Subscriber, watched: WatchedJobs) -> bool:
    """Wait for the end of the reading or of the dashboard; returns False when something is to be said meanwhile."""
    clock = asyncio.get_running_loop().time
    limit = clock() + contract.HEARTBEAT_SECONDS
    while not reading.done() and not watched.is_closing:
        await asyncio.wait({reading}, timeout=PAUSE_SECONDS)
        if not reading.done() and (subscriber.connection or clock() >= limit):
            return False
    return True


async def _woken(subscriber: Subscriber, seconds: float) -> bool:
    """Wait for a change, for so long; returns whether there is one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await subscriber.wake.wait()
            return True
    return False


def _now(watched: WatchedJobs) -> contract.Heartbeat:
    return contract.Heartbeat(now=format_time(watched.now()))
