# SPDX-License-Identifier: Apache-2.0
"""The TrainJobs that commands and pages show: one watch, what was seen of each job, and what is new for each reader.

A subscriber holds keys of changed jobs and no rows, so one that reads slowly costs no more memory than there are jobs,
and is sent each job as it is when it reads.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import (
    AnyObject,
    Document,
    Key,
    controller_of,
    key_of,
    labels_of,
    resource_version_of,
    uid_of,
)
from trainwright.api.times import Now, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.optimization.names import LABEL_JOB, is_paused
from trainwright.controller.runtime import Client, Event, Forbidden, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.job.pods import attempts_begun
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import POINTS, Ring
from trainwright.controller.views.ended import Ended
from trainwright.controller.views.job import History, JobView, extremes_of, report_of, view_of
from trainwright.controller.views.reports import KeptReports, recorded
from trainwright.progress import Extreme, Extremes

ENDS_SECONDS = 10.0
"""Until records of failures are read again that could not be read, or were not there yet."""
RECORD_SECONDS = 60.0
"""Until the manager's record of a job is read again: it is written minutes after the first report."""
PENDING = 20_000
"""More keys than that are not kept for a subscriber: it gets a snapshot instead."""


OutputOf: TypeAlias = Callable[[Document], Path | None]
"""Where the training of a TrainJob may keep each value; None: nowhere on this machine."""


def attempt_at(starts: Mapping[int, datetime], moment: float) -> int | None:
    """The attempt that had begun last; None: not known. `moment`: in seconds since 1970."""
    return max((number for number, start in starts.items() if start.timestamp() <= moment), default=None)


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """What came of reading the manager's record of a job."""

    read: bool
    """There was one, and it is in the job's history."""
    unread: str = ""
    """Why it could not be read; empty: it was, or there is none."""
    at: float = 0.0
    """When it was asked for, by the clock of the event loop."""


@dataclass(slots=True)
class HeldJob:
    job: TrainJob
    history: History
    since: datetime
    """When this process saw the job first."""
    starts: dict[int, datetime] = field(default_factory=dict)
    """When attempts began, of those of which it is known; 1 is the first."""
    extremes: Extreme = field(default_factory=lambda: Extreme({}, {}, {}))
    """As the last report said them."""
    record: HistoryRead | None = None
    """What the manager recorded before `since`; None: not asked for yet."""

    @property
    def uid(self) -> str:
        return uid_of(self.job)

    def remember(self, run: Iterable[Sample]) -> None:
        """Put what was kept of the job before this process started before what was seen since."""
        before = Ring()
        for sample in run:
            before.add(sample)
            if sample.attempt is not None:
                self.starts.setdefault(sample.attempt, datetime.fromtimestamp(sample.at, UTC))
        self.history.begin_with(before)

    def take(self) -> Sample | None:
        """Take in the report of the job; None if it is not new."""
        before, sample = self.history.last, report_of(self.job)
        if sample is None or not self.history.add(sample):
            return None
        last = self.history.last
        assert last is not None
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
        # What was passed lately says more of one point than what was passed ever.
        for said, told in ((was.run, self.extremes.run), (was.recent, self.extremes.recent)):
            for name, known in told.items():
                last = said.get(name, Extremes())
                if known.lowest is not None and known[:2] != last[:2] and is_new(known.lowest_step):
                    lows[name] = min(known.lowest, lows.get(name, known.lowest))
                if known.highest is not None and known[2:] != last[2:] and is_new(known.highest_step):
                    highs[name] = max(known.highest, highs.get(name, known.highest))
        return lows, highs


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

    def take(self) -> tuple[set[Key], set[Key]]:
        """The keys that changed and those that are gone, since the last call."""
        taken = self.changed, self.deleted
        self.changed, self.deleted = set(), set()
        self.wake.clear()
        return taken

    async def woken(self, seconds: float | None) -> bool:
        """Wait for a change, for so long; returns whether there is one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()
                return True
        return False


class WatchedJobs:
    """The jobs of one namespace, or of all (empty); or one job alone."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str = "",
        *,
        reports: KeptReports | None = None,
        output_of: OutputOf | None = None,
        now: Now = wall_clock,
    ) -> None:
        """`reports`: where the runs are kept that are seen. `output_of`: None where jobs have no output here."""
        self.now = now
        self._client, self._namespace, self._name = client, namespace, name
        self._reports, self._output_of = reports, output_of
        self._attempts: dict[str, int] = {}
        """How many attempts have begun, by uid of the job, of JobSets that may be listed."""
        self._jobs: dict[Key, HeldJob] = {}
        self.stopped: set[Key] = set()
        """Searches that somebody has stopped; see `read_searches`."""
        self._undecodable: dict[Key, None] = {}
        self._subscribers: set[Subscriber] = set()
        self._again = asyncio.Event()
        self._ended = Ended(client, now=now)
        self._has_ended = asyncio.Event()
        self._cache = Cache(client, namespace=namespace)
        selector = f"metadata.name={name}" if name else ""
        self.informer = self._cache.informer(TrainJob, field_selector=selector)
        self.informer.add_handler(self._take, undecodable=True)
        self._jobsets = self._cache.informer(JobSet, field_selector=selector)
        self._jobsets.add_handler(lambda event: self._take_jobset(event.obj, gone=event.type is EventType.DELETED))

    async def read(self) -> None:
        """Read all of it once, without a watch. Raises KubernetesError; NotFound for a job that does not exist."""
        if self._name:
            jobs = [await self._client.get(TrainJob, self._name, self._namespace)]
        else:
            jobs = list((await self._client.list(TrainJob, self._namespace)).items)
        for job in jobs:
            self._put(key_of(job), job)
        with suppress(NotFound, Forbidden):  # the attempt is not shown then
            if self._name:
                found = [await self._client.get(JobSet, self._name, self._namespace)]
            else:
                found = list((await self._client.list(JobSet, self._namespace)).items)
            for one in found:
                self._take_jobset(one)

    async def run(self) -> None:
        while True:
            async with TaskScope("watched jobs") as tasks:
                tasks.start("watched jobs/cache", self._cache.run())
                tasks.start("watched jobs/deleted", self._forget_deleted())
                await self._again.wait()
            self._again.clear()

    async def read_ends(self) -> bool:
        """Read why jobs failed, which replaces JobSet's general sentence; returns whether all of them are known."""
        unread = {key: held.job for key, held in self._jobs.items() if self._ended.is_unread(held.job)}
        await self._ended.read(unread.values())
        for key, job in unread.items():
            if self._ended.sentence(job):
                self._tell(key, deleted=False)
        return not any(map(self._ended.is_unread, unread.values()))

    async def read_searches(self) -> None:
        """Read which searches of these jobs are stopped. What may not be read is not known."""
        if not self._name and any(LABEL_JOB in labels_of(held.job) for held in self._jobs.values()):
            with suppress(NotFound, Forbidden):
                found = await self._client.list(OptimizationJob, self._namespace)
                self.stopped = {key_of(one) for one in found.items if is_paused(one)}

    async def keep_reading_ends(self) -> None:
        """Read them whenever a job has failed, while somebody looks."""
        while True:
            await self._has_ended.wait()
            self._has_ended.clear()
            if self.streams and not await self.read_ends():  # records are written after the end
                asyncio.get_running_loop().call_later(ENDS_SECONDS, self._has_ended.set)

    def watch_again(self) -> None:
        """Drop the watch and list at once: the server is back, and the watch may wait long before it tries again."""
        self._again.set()

    # ------------------------------------------------------------------ reading

    def held(self, key: Key) -> HeldJob | None:
        return self._jobs.get(key)

    def jobs(self) -> list[TrainJob]:
        """All jobs that are shown."""
        return [held.job for held in self._jobs.values()]

    def views(self) -> list[JobView]:
        """All of them as of now, in no order."""
        now = self.now()
        return [self.view(held, now) for held in self._jobs.values()]

    def view(self, held: HeldJob, now: datetime) -> JobView:
        job = held.job
        attempt = self._ended.attempts(job) or self._attempts.get(held.uid)
        why, brief = self._ended.sentence(job), self._ended.brief(job)
        return view_of(job, held.history, now, attempt=attempt, failure=why, brief=brief)

    async def jobsets_listed(self) -> None:
        """Wait for the first list of JobSets, unless the user may not list them."""
        if self._jobsets.last_error is None:
            await self._jobsets.wait_synced()

    def jobset(self, key: Key, uid: str) -> Document | None:
        """What a job became; None: it was not built yet, its JobSet is gone, or the user may not list JobSets."""
        found = self._jobsets.store.get(key)
        owner = controller_of(found) if found is not None else None
        return msgspec.to_builtins(found) if owner is not None and owner.uid == uid else None

    async def record(self, key: Key) -> HistoryRead:
        """Read what the manager recorded of a job before this process saw it, if it keeps a record."""
        now = asyncio.get_running_loop().time()
        held = self._jobs.get(key)
        if held is None:
            return HistoryRead(read=False)
        if held.record is None or (not held.record.read and now - held.record.at > RECORD_SECONDS):
            held.record = HistoryRead(read=False, at=now)  # another reader need not ask at the same time
            try:
                ring, why = await recorded(self._client, held.job)
                if ring is not None and self._jobs.get(key) is held:
                    if self._reports is not None:
                        await self._reports.begin_with(held.uid, ring.samples())
                    held.history.begin_with(ring)
                    self._tell(key, deleted=False)
                held.record = HistoryRead(read=ring is not None, unread=why, at=now)
            except BaseException:
                held.record = None  # the reader has gone, and the next one must not be told that there is none
                raise
        return held.record

    # ------------------------------------------------------------------ telling

    @property
    def streams(self) -> int:
        """How many subscribers there are."""
        return len(self._subscribers)

    def subscribe(self, only: Key | None = None) -> Subscriber:
        """From now on keep what changes for a reader. End it with `unsubscribe`."""
        made = Subscriber(only)
        self._subscribers.add(made)
        self._has_ended.set()
        return made

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)

    def _take(self, event: Event[AnyObject]) -> None:
        self._undecodable.pop(event.key, None)
        if event.type is not EventType.DELETED and isinstance(event.obj, TrainJob):
            self._put(event.key, event.obj)
            return
        if event.type is not EventType.DELETED:
            self._undecodable[event.key] = None
        self._drop(event.key, forget=event.type is EventType.DELETED)

    def _put(self, key: Key, job: TrainJob) -> None:
        held = self._jobs.get(key)
        if held is not None and resource_version_of(held.job) == resource_version_of(job) != "":
            return  # the first list of the watch has again what was read before
        if held is None or held.uid != uid_of(job):
            if held is not None:
                self._forget(held.uid)
            held = self._jobs[key] = HeldJob(job, History(), self.now())
            self._find_output(job)
            self._begin_attempt(held)
        held.job = job
        if self._ended.is_unread(job):
            self._has_ended.set()
        seen = held.take()
        self._tell(key, deleted=False)
        if seen is not None and self._reports is not None:
            self._reports.append(held.uid, seen)

    def _find_output(self, job: TrainJob) -> None:
        output = self._output_of(msgspec.to_builtins(job)) if self._output_of is not None else None
        if output is not None and self._reports is not None:
            created = job.metadata_or_empty.creation_timestamp
            self._reports.has_output(uid_of(job), output, parse(created).timestamp() if created else 0.0)

    def _drop(self, key: Key, *, forget: bool = True) -> None:
        held = self._jobs.pop(key, None)
        if held is not None and forget:
            self._forget(held.uid)
        self._tell(key, deleted=True)

    def _take_jobset(self, jobset: AnyObject, *, gone: bool = False) -> None:
        """The number of its restarts tells the attempt."""
        owner = controller_of(jobset)
        if gone or owner is None or not isinstance(jobset, JobSet):
            return
        key, attempt = key_of(jobset), attempts_begun(jobset)
        if self._attempts.get(owner.uid) == attempt:
            return
        self._attempts[owner.uid] = attempt
        held = self._jobs.get(key)
        if held is not None and held.uid == owner.uid:
            self._begin_attempt(held)
            self._tell(key, deleted=False)

    def _begin_attempt(self, held: HeldJob) -> None:
        attempt = self._attempts.get(held.uid)
        if attempt is not None and attempt not in held.starts:
            created = held.job.metadata_or_empty.creation_timestamp
            held.starts[attempt] = parse(created) if attempt == 1 and created else self.now()

    def _forget(self, uid: str) -> None:
        self._ended.forget(uid)
        self._attempts.pop(uid, None)
        if self._reports is not None:
            self._reports.forget(uid)

    async def _forget_deleted(self) -> None:
        """Forget jobs that were deleted before the watch began, and the runs of those deleted before this process.

        Then read the runs of the others from before it.
        """
        await self.informer.wait_synced()
        for key in [key for key in self._jobs if not self.informer.store.holds(key)]:
            self._drop(key)
        if self._reports is not None and not self._undecodable:  # their uids are not known
            await self._reports.keep_only([held.uid for held in self._jobs.values()])
        if self._reports is None or self._output_of is None:
            return
        for key, held in [*self._jobs.items()]:
            run, _ = await self._reports.read(held.uid, most=POINTS)
            if run:
                held.remember(run)
                self._tell(key, deleted=False)

    def _tell(self, key: Key, *, deleted: bool) -> None:
        for subscriber in self._subscribers:
            subscriber.touch(key, deleted=deleted)
