# SPDX-License-Identifier: Apache-2.0
"""The jobs that pages look at: each is read for all of them at once, and not more often than it can change.

The events of the streams are endless generators that the server writes out as they are read. A reader that is slow is
not asked for more, so what it has missed becomes one event when it reads again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from trainwright.api.objects import Key
from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.curves import Marker, Points, points_of
from trainwright.controller.dashboard.details import Details, last_metrics, starts_of
from trainwright.controller.dashboard.watched import ShownJobs
from trainwright.controller.runtime import Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.errors import RequestTimeout
from trainwright.controller.views.job import History
from trainwright.controller.views.watch import HeldJob, Subscriber

FRESH_SECONDS = 2.0
"""A job that was read so short a time ago is not read again."""
AGAIN_SECONDS = 5.0
"""Pods and events change without the job, so it is read again after so long a time."""
OVER_SECONDS = 30.0
"""The same for a job that has ended."""
KEPT_SECONDS = 60.0
READ_SECONDS = 30.0
"""All reads of one job together: an API server may take requests and answer none."""
PAUSE_SECONDS = 0.25
"""Between two events with changes."""

Events: TypeAlias = AsyncGenerator[tuple[str, contract.PageAnswer], None]
_Event: TypeAlias = tuple[str, contract.PageAnswer] | None


@dataclass(slots=True)
class _Read:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at: float = float("-inf")
    """Time of the event loop."""
    used: float = float("-inf")
    """When a page asked last, by the same clock."""
    job: contract.Job | None = None


class JobReader:
    def __init__(self, watched: ShownJobs, details: Details) -> None:
        self._watched, self._details = watched, details
        self._reads: dict[Key, _Read] = {}

    def pause(self, key: Key) -> float:
        """How long to wait before a job is read again though nothing seems to have changed, in seconds."""
        read = self._reads.get(key)
        is_over = read is not None and read.job is not None and read.job.row.state in ("Complete", "Failed")
        return OVER_SECONDS if is_over else AGAIN_SECONDS

    async def job(self, key: Key) -> contract.Job | None:
        """The job, at most FRESH_SECONDS old; what could not be read is said in it. None: it does not exist.

        Raises KubernetesError if nothing at all is known of it.
        """
        clock = asyncio.get_running_loop().time
        read = self._reads.setdefault(key, _Read())
        read.used = clock()
        self._forget(read.used)
        async with read.lock:
            held = self._watched.held(key)
            if read.job is not None and clock() - read.at < FRESH_SECONDS and self._is_same(read.job, held):
                return self._renewed(read.job, held)
            try:
                history = held.history if held is not None else History()
                async with asyncio.timeout(READ_SECONDS):
                    found = await self._details.read(key.namespace, key.name, history, self._watched.connection)
            except NotFound:
                read.job = None
                if held is None:
                    return None
                return self._bare(held, "the job was deleted a moment ago, or TrainJobs are no longer installed")
            except TimeoutError as error:
                why = f"the API server did not answer within {READ_SECONDS:.0f} s"
                if held is None:
                    raise RequestTimeout(why) from error
                return self._old(read.job, held, why)
            except KubernetesError as error:
                if held is None:
                    raise
                why = error.message
                if isinstance(error, Forbidden):
                    read.job = None
                    resource = f"{TrainJob.RESOURCE.plural}.{TrainJob.RESOURCE.group}"
                    why = f"no right to get {resource} in namespace {key.namespace}"
                return self._old(read.job, held, why)
            read.job, read.at = found, clock()
            self._learn(found, held)
            return found

    def _is_same(self, job: contract.Job, held: HeldJob | None) -> bool:
        """Whether the job that was read was not deleted since, as far as the watch knows."""
        return held.uid == job.row.uid if held is not None else not self._watched.informer.synced

    def _renewed(self, job: contract.Job, held: HeldJob | None) -> contract.Job:
        """A job that was read before, with what the watch knows as of now."""
        now = self._watched.now()
        row = self._watched.row_of(held) if held is not None else job.row
        metrics = last_metrics(held.job) if held is not None else job.metrics
        return msgspec.structs.replace(
            job, now=format_time(now), row=row, metrics=metrics, connection=self._watched.connection
        )

    def _old(self, job: contract.Job | None, held: HeldJob, why: str) -> contract.Job:
        """A job that cannot be read now: as it was read last, if it was."""
        if job is None or job.row.uid != held.uid:
            return self._bare(held, why)
        unread = contract.UnreadPart(
            part="job", message=f"{why}; pods, events and reasons are as of {parse(job.now):%H:%M:%S} UTC"
        )
        shown = self._renewed(job, held)
        return msgspec.structs.replace(shown, unread=[unread, *shown.unread])

    def _bare(self, held: HeldJob, why: str) -> contract.Job:
        now = self._watched.now()
        return contract.Job(
            now=format_time(now),
            cluster=self._watched.cluster,
            connection=self._watched.connection,
            row=self._watched.row_of(held),
            attempt=None,
            most_attempts=None,
            suspended=bool(held.job.spec_or_empty.suspend),
            metrics=last_metrics(held.job),
            unread=[contract.UnreadPart(part="job", message=why)],
        )

    def _learn(self, job: contract.Job, held: HeldJob | None) -> None:
        """When attempts began: from pods that are there, and from the ends of attempts that failed."""
        if held is None or held.uid != job.row.uid:
            return
        if job.row.created:
            held.starts.setdefault(1, parse(job.row.created))
        for number, moment in starts_of(job.pods).items():
            if number > 1:
                held.starts[number] = moment
        for attempt in job.attempts:
            if attempt.failure is not None and attempt.failure.finished:
                held.starts.setdefault(attempt.number + 1, parse(attempt.failure.finished))

    def _forget(self, now: float) -> None:
        old = [key for key, read in self._reads.items() if now - read.used > KEPT_SECONDS and not read.lock.locked()]
        for key in old:
            del self._reads[key]


async def list_events(watched: ShownJobs) -> Events:
    """The list of jobs: a snapshot, then changes."""
    subscriber = watched.subscribe()
    subscriber.everything = True

    async def news() -> Events:
        changed, deleted = subscriber.take()
        if subscriber.everything:
            subscriber.everything = subscriber.connection = False
            yield "snapshot", watched.snapshot()
        elif changed or deleted:
            yield "rows", watched.rows(changed, deleted)

    async with aclosing(_events(watched, subscriber, news, lambda: contract.HEARTBEAT_SECONDS)) as events:
        async for event in events:
            yield event


async def job_events(watched: ShownJobs, reader: JobReader, key: Key) -> Events:
    """One job: everything about it when it changes, and its reports as they come."""
    subscriber = watched.subscribe(key)
    told = _Told(watched, reader, subscriber, key)
    async with aclosing(_events(watched, subscriber, told.news, lambda: told.seconds)) as events:
        async for event in events:
            yield event


async def _events(
    watched: ShownJobs, subscriber: Subscriber, news: Callable[[], Events], pause: Callable[[], float]
) -> Events:
    """What is new, whenever the subscriber is woken and after each pause; the connection, heartbeats, the end."""
    try:
        while not watched.is_closing:
            async with aclosing(news()) as found:
                async for event in found:
                    yield event
            if subscriber.connection:
                subscriber.connection = False
                yield "connection", watched.connection
            await asyncio.sleep(PAUSE_SECONDS)
            if not await subscriber.woken(pause()):
                yield "heartbeat", _now(watched)
        yield "bye", _now(watched)
    finally:
        watched.unsubscribe(subscriber)


class _Told:
    def __init__(self, watched: ShownJobs, reader: JobReader, subscriber: Subscriber, key: Key) -> None:
        self._watched, self._reader, self._subscriber, self._key = watched, reader, subscriber, key
        self._sent: contract.Job | None = None
        self._is_gone = False
        self._is_new = True
        self._uid, self._place = "", (0, 0)
        self._marker = Marker()
        self._is_lost = False

    @property
    def seconds(self) -> float:
        """How long to wait before the job is read again."""
        return min(contract.HEARTBEAT_SECONDS, self._reader.pause(self._key))

    async def news(self) -> Events:
        watched, subscriber = self._watched, self._subscriber
        subscriber.take()
        if (points := await self._points()) is not None:
            yield "points", points
        reading = asyncio.ensure_future(self._read())
        try:
            # An API server that hangs must not silence the stream: the page would take the dashboard for lost.
            while not await _is_done(reading, subscriber, watched):
                yield ("connection", watched.connection) if subscriber.connection else ("heartbeat", _now(watched))
                subscriber.connection = False
            event = reading.result() if reading.done() else None
            self._is_lost = False
        except KubernetesError:
            # Nothing is known of the job. Why is a matter of the connection, which says so.
            subscriber.connection, event = subscriber.connection or not self._is_lost, None
            self._is_lost = True
        finally:
            await _ended(reading)
        if event is not None:
            yield event

    async def _points(self) -> Points | None:
        """The values since the last call; None: there were none."""
        held, reports = self._watched.held(self._key), self._watched.reports
        is_new, self._is_new = self._is_new, False
        if held is None:
            return None
        found, place = await reports.news(held.uid, self._place if self._uid == held.uid else (-1, 0))
        if found is not None:
            self._place = place
            return points_of(held.uid, found, self._marker, number=place[1]) if found else None
        self._uid, self._marker = held.uid, Marker(held.starts)
        run, self._place = await reports.read(held.uid)
        points_of(held.uid, run, self._marker)
        # What was there before the stream is in the series, where the page reads it. It may have read too early
        # where the job is seen later, as by a stream that began before the dashboard's first list.
        return None if is_new else Points(uid=held.uid, number=0, replace=True)

    async def _read(self) -> "_Event":
        """The job, if it is not as it was sent last; or that it is gone."""
        found = await self._reader.job(self._key)
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
    row = msgspec.structs.replace(job.row, remaining=None)
    connection = msgspec.structs.replace(job.connection, last_contact=None)
    return msgspec.structs.replace(job, now="", row=row, connection=connection)


async def _ended(reading: "asyncio.Task[_Event]") -> None:
    if not reading.done():
        reading.cancel()
        await asyncio.wait({reading})
    if not reading.cancelled():
        reading.exception()  # else the event loop logs an exception that was never retrieved


async def _is_done(reading: "asyncio.Task[_Event]", subscriber: Subscriber, watched: ShownJobs) -> bool:
    """Wait for the end of the reading or of the dashboard; returns False when something is to be said meanwhile."""
    clock = asyncio.get_running_loop().time
    limit = clock() + contract.HEARTBEAT_SECONDS
    while not reading.done() and not watched.is_closing:
        await asyncio.wait({reading}, timeout=PAUSE_SECONDS)
        if not reading.done() and (subscriber.connection or clock() >= limit):
            return False
    return True


def _now(watched: ShownJobs) -> contract.Heartbeat:
    return contract.Heartbeat(now=format_time(watched.now()))
