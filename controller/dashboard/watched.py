# SPDX-License-Identifier: Apache-2.0
"""The TrainJobs that the dashboard shows: one watch for all pages, and what each page has not been sent yet.

A subscriber holds keys of changed jobs and no rows, so one that reads slowly costs no more memory than there are jobs,
and is sent each job as it is when it reads.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from trainwright import __version__
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import AnyObject, Document, Key, controller_of, uid_of
from trainwright.api.times import format_time, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.curves import attempt_at
from trainwright.controller.dashboard.details import reference, row_of
from trainwright.controller.runtime import Client, Event
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.job.pods import attempts_begun
from trainwright.controller.trainer.progress.curve import POINTS, Ring, Sample
from trainwright.controller.views.ended import Ended
from trainwright.controller.views.job import History, extremes_of, report_of
from trainwright.controller.views.reports import KeptReports
from trainwright.progress import Extremes

REPORTS = 100
"""More reports than that are not kept for a stream."""
ENDS_SECONDS = 10.0
"""Until records of failures are read again that could not be read, or were not there yet."""
PENDING = 20_000
"""More keys than that are not kept for a subscriber: it gets a snapshot instead."""


@dataclass(slots=True)
class HeldJob:
    job: TrainJob
    history: History
    since: datetime
    """When this process saw the job first."""
    number: int = 0
    """Of the last report; see `curves.Points`."""
    starts: dict[int, datetime] = field(default_factory=dict)
    """When attempts began, of those of which it is known; 1 is the first."""
    extremes: Mapping[str, Extremes] = field(default_factory=dict)
    """As the last report said them."""
    record: "HistoryRead | None" = None
    """What the manager recorded before that time; None: not asked for yet."""

    @property
    def uid(self) -> str:
        return uid_of(self.job)

    def remember(self, run: Iterable[Sample]) -> None:
        """Begin with what was kept of the job before this process started."""
        for sample in run:
            self.history.add(sample)
            if sample.attempt is not None:
                self.starts.setdefault(sample.attempt, datetime.fromtimestamp(sample.at, UTC))

    def take(self) -> Sample | None:
        """Take in the report of the job; None if it is not new."""
        before, sample = self.history.last, report_of(self.job)
        if sample is None or not self.history.add(sample):
            return None
        last = self.history.last
        assert last is not None
        self.number += 1
        first = before.step if before is not None and before.segment == last.segment else None
        lows, highs = self._passed(first)
        attempt = attempt_at(self.starts, sample.at)
        return replace(sample, segment=last.segment, attempt=attempt, lows=lows, highs=highs)

    def _passed(self, first: float | None) -> tuple[dict[str, float], dict[str, float]]:
        """The extremes that the training has passed since the report before, at step `first` of the same segment."""
        was, self.extremes = self.extremes, extremes_of(self.job)

        def is_new(step: float | None) -> bool:
            return first is None or step is None or step > first

        lows, highs = dict[str, float](), dict[str, float]()
        for name, known in self.extremes.items():
            last = was.get(name, Extremes())
            if known.lowest is not None and known[:2] != last[:2] and is_new(known.lowest_step):
                lows[name] = known.lowest
            if known.highest is not None and known[2:] != last[2:] and is_new(known.highest_step):
                highs[name] = known.highest
        return lows, highs


@dataclass(frozen=True, slots=True)
class HistoryRead:
    read: bool
    """There was one, and it is in the job's history."""
    unread: str = ""
    at: float = 0.0
    """When it was asked for, by the clock of the event loop."""


@dataclass(slots=True, eq=False)
class Subscriber:
    only: Key | None = None
    """Changes of this job alone."""
    changed: set[Key] = field(default_factory=set)
    deleted: set[Key] = field(default_factory=set)
    everything: bool = False
    """Too much has changed: send a snapshot."""
    connection: bool = False
    """The state of the connection to the API server has changed."""
    reports: list[Sample] = field(default_factory=list)
    """Of a stream about one job: those that it has not sent."""
    again: bool = False
    """There were too many of them, or the past has changed: the page has to read the series again."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def touch(self, key: Key, *, deleted: bool) -> None:
        if self.only is not None and key != self.only:
            return
        (self.changed, self.deleted)[not deleted].discard(key)
        (self.changed, self.deleted)[deleted].add(key)
        if len(self.changed) + len(self.deleted) > PENDING:
            self.changed.clear()
            self.deleted.clear()
            self.everything = True
        self.wake.set()

    def report(self, seen: Sample) -> None:
        self.reports.append(seen)
        if len(self.reports) > REPORTS:
            self.read_again()

    def read_again(self) -> None:
        self.reports.clear()
        self.again = True
        self.wake.set()

    def take(self) -> tuple[set[Key], set[Key]]:
        """The keys that changed and those that are gone, since the last call."""
        taken = self.changed, self.deleted
        self.changed, self.deleted = set(), set()
        self.wake.clear()
        return taken


class WatchedJobs:
    """The jobs of one namespace, or of all (empty)."""

    def __init__(self, client: Client, cluster: contract.Cluster, reports: KeptReports) -> None:
        self.cluster = cluster
        self.reports = reports
        self._kept: dict[str, list[Sample]] = {}
        """The runs from before this process started, by uid, until their jobs are seen."""
        self._attempts: dict[str, int] = {}
        """How many attempts have begun, by uid of the job, of JobSets that may be listed."""
        self.now = wall_clock
        self._jobs: dict[Key, HeldJob] = {}
        self._undecodable: dict[Key, None] = {}
        self._subscribers: set[Subscriber] = set()
        self._again = asyncio.Event()
        self.is_closing = False
        """The dashboard stops: streams say so and end."""
        self.connection = contract.Connection(
            state="connecting", message="", since=format_time(wall_clock()), last_contact=None
        )
        self._ended = Ended(client)
        self._has_ended = asyncio.Event()
        self._cache = Cache(client, namespace=cluster.namespace)
        self.informer = self._cache.informer(TrainJob)
        self.informer.add_handler(self._take, undecodable=True)
        self._jobsets = self._cache.informer(JobSet)
        self._jobsets.add_handler(self._take_jobset)

    async def run(self) -> None:
        self._kept = await self.reports.all(POINTS)
        while True:
            async with TaskScope("dashboard/watch") as tasks:
                tasks.start("dashboard/cache", self._cache.run())
                tasks.start("dashboard/kept runs", self._forget_deleted())
                tasks.start("dashboard/ends", self._read_ends())
                await self._again.wait()
            self._again.clear()

    async def _read_ends(self) -> None:
        """While a page is open: read why jobs failed, which the list tells in place of JobSet's general sentence."""
        while True:
            await self._has_ended.wait()
            self._has_ended.clear()
            while self.streams:
                unread = {key: held.job for key, held in self._jobs.items() if self._ended.is_unread(held.job)}
                await self._ended.read(unread.values())
                for key, job in unread.items():
                    if self._ended.sentence(job):
                        self._tell(key, deleted=False)
                if not any(map(self._ended.is_unread, unread.values())):
                    break
                await asyncio.sleep(ENDS_SECONDS)

    def watch_again(self) -> None:
        """Drop the watch and list at once: the server is back, and the watch may wait long before it tries again."""
        self._again.set()

    def close(self) -> None:
        """Let all streams end."""
        self.is_closing = True
        for subscriber in self._subscribers:
            subscriber.wake.set()

    # ------------------------------------------------------------------ reading

    def held(self, key: Key) -> HeldJob | None:
        return self._jobs.get(key)

    def jobs(self) -> list[TrainJob]:
        """All jobs that are shown."""
        return [held.job for held in self._jobs.values()]

    def row_of(self, held: HeldJob) -> contract.JobRow:
        attempt = self._ended.attempts(held.job) or self._attempts.get(held.uid)
        return row_of(held.job, held.history, self.now(), self._ended.sentence(held.job), attempt=attempt)

    async def jobsets_listed(self) -> None:
        """Wait for the first list of JobSets, unless the user may not list them."""
        if self._jobsets.last_error is None:
            await self._jobsets.wait_synced()

    def jobset(self, key: Key, uid: str) -> Document | None:
        """What a job became; None: it was not built yet, its JobSet is gone, or the user may not list JobSets."""
        found = self._jobsets.store.get(key)
        owner = controller_of(found) if found is not None else None
        return msgspec.to_builtins(found) if owner is not None and owner.uid == uid else None

    def snapshot(self) -> contract.JobList:
        now = self.now()
        return contract.JobList(
            contract=contract.VERSION,
            program=__version__,
            now=format_time(now),
            cluster=self.cluster,
            connection=self.connection,
            jobs=[self.row_of(held) for held in self._jobs.values()],
            undecodable=[reference(key) for key in self._undecodable],
        )

    def rows(self, changed: set[Key], deleted: set[Key]) -> contract.Rows:
        found = [self.row_of(held) for key in changed if (held := self._jobs.get(key)) is not None]
        return contract.Rows(
            now=format_time(self.now()), changed=found, deleted=[reference(key) for key in sorted(deleted)]
        )

    # ------------------------------------------------------------------ telling

    @property
    def streams(self) -> int:
        """How many there are: pages that are open."""
        return len(self._subscribers)

    def subscribe(self, only: Key | None = None) -> Subscriber:
        """From now on keep what changes for a stream. End it with `unsubscribe`."""
        made = Subscriber(only)
        self._subscribers.add(made)
        self._has_ended.set()
        return made

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    def set_connection(self, connection: contract.Connection) -> None:
        is_news = (connection.state, connection.message) != (self.connection.state, self.connection.message)
        self.connection = connection
        if is_news:
            for subscriber in self._subscribers:
                subscriber.connection = True
                subscriber.wake.set()

    def _take(self, event: Event[AnyObject]) -> None:
        key, job = event.key, event.obj
        held = self._jobs.get(key)
        self._undecodable.pop(key, None)
        if event.type is EventType.DELETED or not isinstance(job, TrainJob):
            if event.type is not EventType.DELETED:
                self._undecodable[key] = None
            self._jobs.pop(key, None)
            if held is not None and event.type is EventType.DELETED:
                self._forget(held.uid)
            self._tell(key, deleted=True)
            return
        if held is None or held.uid != uid_of(job):
            if held is not None:
                self._forget(held.uid)
            held = self._jobs[key] = HeldJob(job, History(), self.now())
            held.remember(self._kept.pop(held.uid, ()))
            self._begin_attempt(held)
        held.job = job
        if self._ended.is_unread(job):
            self._has_ended.set()
        seen = held.take()
        self._tell(key, deleted=False)
        if seen is not None:
            self.reports.append(held.uid, seen)
            for subscriber in self._of(key):
                subscriber.report(seen)

    def _take_jobset(self, event: Event[AnyObject]) -> None:
        """The number of its restarts tells the attempt."""
        jobset = event.obj
        owner = controller_of(jobset)
        if event.type is EventType.DELETED or owner is None or not isinstance(jobset, JobSet):
            return
        attempt = attempts_begun(jobset)
        if self._attempts.get(owner.uid) == attempt:
            return
        self._attempts[owner.uid] = attempt
        held = self._jobs.get(event.key)
        if held is not None and held.uid == owner.uid:
            self._begin_attempt(held)
            self._tell(event.key, deleted=False)

    def _begin_attempt(self, held: HeldJob) -> None:
        attempt = self._attempts.get(held.uid)
        if attempt is not None and attempt not in held.starts:
            created = held.job.metadata_or_empty.creation_timestamp
            held.starts[attempt] = parse(created) if attempt == 1 and created else self.now()

    def _forget(self, uid: str) -> None:
        self._ended.forget(uid)
        self._attempts.pop(uid, None)
        self.reports.forget(uid)

    async def _forget_deleted(self) -> None:
        """Forget the runs of jobs that were deleted while this process did not run."""
        await self.informer.wait_synced()
        if not self._undecodable:  # their uids are not known
            await self.reports.keep_only([held.uid for held in self._jobs.values()])
        self._kept.clear()

    async def begin_with(self, key: Key, recorded: Ring) -> None:
        """Put the reports that a manager recorded before those that were seen."""
        held = self._jobs.get(key)
        if held is not None:
            await self.reports.begin_with(held.uid, recorded.samples())
            held.history.begin_with(recorded)
            for subscriber in self._of(key):
                subscriber.read_again()

    def _of(self, key: Key) -> list[Subscriber]:
        return [one for one in self._subscribers if one.only == key]

    def _tell(self, key: Key, *, deleted: bool) -> None:
        for subscriber in self._subscribers:
            subscriber.touch(key, deleted=deleted)
