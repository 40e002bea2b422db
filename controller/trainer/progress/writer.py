# SPDX-License-Identifier: Apache-2.0
"""From accepted reports to the status: the newest value of each TrainJob, at a bounded rate.

A value is written when it is due (`JobReports.due`): the first three of a TrainJob, 100 % and a loss that becomes
infinite at once, others once each interval; an older one that was not written is dropped. Over all TrainJobs there are
at most `rate` writes a second; 100 % goes first, then the TrainJob that was written longest ago.

Guarantees: arrival order wins within a process, whatever the clocks of the reporters say. A value is lost only when a
newer one is stored, when its TrainJob is gone, when the API server refuses it, or when the process is killed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.objects import AnyObject, Document, Key, resource_version_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Client, Conflict, Event, KubernetesError, NotFound
from trainwright.controller.runtime.errors import BadRequest, Invalid, TooManyRequests
from trainwright.controller.runtime.tasks import TaskScope, together
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.runtime.workqueue.queue import WorkQueue
from trainwright.controller.trainer.job.records import JobRecord, JobRecords
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.report import (
    BURST,
    INSTANT,
    REPORTS_A_SECOND,
    REPORTS_AT_ONCE,
    InvalidReport,
    JobReports,
    ProgressReport,
    TooManyReports,
    UnknownJob,
    is_newer,
    load_schema,
)

log = logging.getLogger(__name__)

ANSWER_SECONDS = 3.0
"""How long a report of 100 % waits for its write. Clients give up after five seconds."""
IN_FLIGHT = 64
"""Writes at the same time."""
WRITE_SECONDS = 30.0
"""Limit of one write. An answer that does not come must not keep a place."""
LONGEST_RETRY_SECONDS = 60.0
FLUSH_SECONDS = 15.0
"""For the values that are left when the process stops."""
FLUSH_RETRY_SECONDS = 0.5
COUNT_SECONDS = 5.0
"""How often the TrainJobs that report are counted, and those that are silent are forgotten."""
ACTIVE_SECONDS = 60.0
"""A TrainJob that reported within this time counts as one that reports."""
FORGET_FINISHED_SECONDS = 600.0
FORGET_SECONDS = 86400.0
"""When a TrainJob that is silent is forgotten; one that is deleted is forgotten at once."""
_URGENT, _NEVER_WRITTEN = 1 << 41, 1 << 40
"""Priorities in the queue. A TrainJob that was written has a lower one, the lower the later that was."""
FIELD_MANAGER = "trainer-status"
ATTEMPTS = 5
"""How often a value is sent while others change the TrainJob."""
RULES = (Rule.on(TrainJob.RESOURCE, "get"), Rule.on(TrainJob.RESOURCE, "patch", subresource="status"))
"""To find a TrainJob that the cache does not hold yet, and to write."""

Write = Callable[[Key, str, TrainerStatus], Awaitable[None]]
"""Stores a value in a TrainJob with this uid. Raises KubernetesError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    interval: float = 10.0
    """Seconds between two writes of a TrainJob."""
    rate: float | None = 20.0
    """Writes a second over all TrainJobs; None: no limit."""
    burst: int = 40


class Budget:
    """The writes that may begin now, of values and histories. Retry-After of the API server stops them all."""

    def __init__(self, pace: Pace, time: Callable[[], float]) -> None:
        """`time`: seconds on a clock that never goes back."""
        self._time = time
        self._bucket = TokenBucket(pace.rate, pace.burst, time=time) if pace.rate is not None else None
        self._silent_until = float("-inf")

    def take(self) -> None:
        if self._bucket is not None:
            self._bucket.take()

    def be_silent(self, seconds: float) -> None:
        self._silent_until = max(self._silent_until, self._time() + seconds)

    def each(self, jobs: int) -> float:
        """Seconds between two writes of each of so many TrainJobs, if all are written in turn."""
        return 0.0 if self._bucket is None else jobs / self._bucket.rate

    def wait(self) -> float:
        """Seconds until both the rate and the API server allow a write; 0: they do now."""
        pause = 0.0 if self._bucket is None else self._bucket.wait()
        return max(pause, self._silent_until - self._time())

    async def allows(self, stop: asyncio.Event) -> bool:
        """Wait until a write may begin. False: `stop` was set before."""
        while not stop.is_set():
            pause = self.wait()
            if pause <= 0:
                return True
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()
        return False


class Coalescer:
    """A runnable that can finish its work: `request_stop` lets it write what is left."""

    def __init__(
        self,
        write: Write,
        pace: Pace,
        metrics: ProgressMetrics,
        records: JobRecords,
        *,
        time: Callable[[], float] | None = None,
    ) -> None:
        """Create it inside a running event loop, whose clock `time` replaces. `write` stores one value."""
        self._store = write
        self._pace = pace
        self.metrics = metrics
        """Counts of reports and writes."""
        self._records = records
        self._time = time or asyncio.get_running_loop().time
        self._queue: WorkQueue[JobReports] = WorkQueue("progress", fairness=0)
        self._choosing = asyncio.Lock()
        self.budget = Budget(pace, self._time)
        """Of all writes of this replica; shared with the histories."""
        self._active = 0
        self._counted = float("-inf")
        self._stop = asyncio.Event()
        load_schema()
        records.follow(self._changed, self._gone)
        metrics.pending.set_function(lambda: len(self._left()))

    # ------------------------------------------------------------------ in

    def admit(self, job: TrainJob) -> None:
        """Count a request of a TrainJob. Raises TooManyReports."""
        inbound = self._reports_of(job).inbound
        if inbound.wait() > 0:
            raise TooManyReports
        inbound.take()

    async def accept(self, job: TrainJob, report: ProgressReport) -> None:
        """Take a checked value. One with the first 100 % is written before this returns, or three seconds have passed.

        Raises:
            UnknownJob: the TrainJob of this uid was gone when 100 % was written.
            InvalidReport: the API server refused 100 %.
        """
        reports, report.arrived = self._reports_of(job), self._time()
        reports.learn(job)
        reports.came(report)
        if reports.lowers(report):
            self.metrics.reports.inc(report.source, "ignored")
            return
        self.metrics.reports.inc(report.source, "accepted")
        if reports.put(report):
            self.metrics.coalesced.inc()
        self._plan(reports)
        if report.is_complete and reports.is_urgent():
            await self._stored(reports)

    def _reports_of(self, job: TrainJob) -> JobReports:
        key, uid = Key(job.namespace, job.name), uid_of(job)

        def begin() -> JobReports:
            writes = TokenBucket(1.0 / self._pace.interval, BURST, time=self._time)
            inbound = TokenBucket(REPORTS_A_SECOND, REPORTS_AT_ONCE, time=self._time)
            found = JobReports(key, uid, writes, inbound)
            found.stored = job.status_or_empty.trainer_status
            return found

        # The write of a value finds out whether the job is gone.
        return self._records.of(key, uid, may_be_new=True).part(JobReports, begin)

    def _changed(self, event: Event[AnyObject]) -> None:
        """The cache shows a change: an end, or what others wrote."""
        job = event.new
        reports = self._records.find(event.key, uid_of(job), JobReports) if isinstance(job, TrainJob) else None
        if reports is None or not isinstance(job, TrainJob):
            return
        had_ended = reports.is_finished
        reports.learn(job)
        stored = job.status_or_empty.trainer_status
        if stored == reports.stored:
            if reports.is_finished and not had_ended:
                self._plan(reports)  # the last values do not wait
            return
        reports.stored = stored
        if stored is not None and stored not in reports.own:
            # Another replica wrote. Its value replaces the pending one if it is newer, and it counts as a write.
            reports.wrote(self._time(), self._interval())
            while reports.pending is not None and is_newer(stored, reports.pending.status):
                reports.drop()
                self.metrics.writes.inc("superseded")
                reports.answer(None)
        self._plan(reports)

    def _gone(self, record: JobRecord) -> None:
        reports = record.get(JobReports)
        if reports is not None:
            self._drop(reports)

    def _drop(self, reports: JobReports) -> None:
        if self._records.find(reports.key, reports.uid, JobReports) is reports:
            self._records.drop(reports.key, JobReports)
        while reports.pending is not None:
            reports.drop()
            self.metrics.writes.inc("gone")
        reports.answer(UnknownJob())

    async def _stored(self, reports: JobReports) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reports.waiters.append(waiter)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await waiter
        except TimeoutError:
            log.debug("TrainJob %s: 100 %% is not stored after %g s, and kept", reports.key, ANSWER_SECONDS)
        finally:
            if waiter in reports.waiters:
                reports.waiters.remove(waiter)

    # ------------------------------------------------------------------ when

    def _interval(self) -> float:
        """Seconds between two writes of a TrainJob: as wanted, or longer if too many report."""
        now = self._time()
        if now - self._counted > COUNT_SECONDS:
            self._counted = now
            known = list(self._records.each(JobReports))
            self._active = sum(1 for one in known if now - one.last_report < ACTIVE_SECONDS)
            for one in known:
                limit = FORGET_FINISHED_SECONDS if one.is_finished else FORGET_SECONDS
                is_silent = one.is_idle and now - one.last_report > limit
                # One that sends only what is refused must not begin with a full bucket again.
                if is_silent and one.inbound.is_full():
                    self._records.drop(one.key, JobReports)
        return max(self._pace.interval, self.budget.each(self._active))

    def _plan(self, reports: JobReports) -> None:
        """Queue the pending value for when it is due. One that is being written is planned again afterwards."""
        if reports.pending is None or reports.writing is not None:
            return
        if reports.is_urgent():
            priority = _URGENT
        else:
            priority = _NEVER_WRITTEN - (1 + int(reports.last_write) if reports.last_write >= 0 else 0)
        now = self._time()
        self._queue.add(reports, priority=priority, after=reports.due(now, self._interval()) - now)

    # ------------------------------------------------------------------ out

    async def run(self) -> None:
        """Write until `request_stop`, then write what is left. What cannot be written is logged and counted."""
        try:
            async with TaskScope("progress/writes") as tasks:
                for number in range(IN_FLIGHT):
                    tasks.start(f"progress/writes/{number}", self._work())
                await self._stop.wait()
                await self._flush()
        finally:
            if left := self._left():
                self.metrics.lost.inc(len(left))
                names = ", ".join(str(one.key) for one in left[:10])
                log.warning("%d values of progress are lost; the first are of TrainJobs %s", len(left), names)

    def request_stop(self) -> None:
        """Write what is left, then return from `run`. Nothing may be accepted any more."""
        self._stop.set()
        self._queue.shut_down()

    async def _work(self) -> None:
        """Write what is due until a stop. One of several, of which one at a time waits for the next value."""
        while True:
            async with self._choosing:
                reports = await self._next()
            if reports is None:
                return
            await self._write(reports)
            self._plan(reports)
            self._queue.done(reports)

    async def _next(self) -> JobReports | None:
        """Wait for a value that is due and may be written. None: a stop was asked for."""
        while await self.budget.allows(self._stop):
            item = await self._queue.get()
            if item is None:
                return None
            reports, now = item.key, self._time()
            if reports.pending is not None:
                is_due = reports.due(now, self._interval()) <= now + INSTANT
                if is_due and self.budget.wait() <= 0:
                    self.budget.take()
                    return reports
                self._plan(reports)  # others wrote it, or a history was written, while the queue was waited for
            self._queue.done(reports)
        return None

    async def _write(self, reports: JobReports) -> None:
        report, since, known = reports.pending, reports.waiting_since, reports.stored
        assert report is not None
        reports.wrote(self._time(), self._interval())
        reports.drop()
        reports.writing = report
        reports.own.append(report.status)
        try:
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._store(reports.key, reports.uid, report.status)
            except BaseException as error:
                is_foreign = isinstance(error, Superseded) and error.stored not in reports.own
                if is_foreign or reports.is_overtaken(report, known):
                    self.metrics.writes.inc("superseded")
                    reports.answer(None)
                else:
                    reports.put_back(report, since)
                raise
        except Superseded as error:
            if error.stored in reports.own:  # its answer was lost; ours came later, whatever the clocks say
                self._fail(reports, error, "failed")
        except (NotFound, Conflict) as error:
            log.debug("TrainJob %s is gone: %s", reports.key, error)
            self._drop(reports)
        except (Invalid, BadRequest) as error:
            self._refuse(reports, report, error)
        except TooManyRequests as error:
            self.budget.be_silent(error.retry_after or 0.0)
            self._fail(reports, error, "throttled")
        except (KubernetesError, TimeoutError) as error:
            self._fail(reports, error, "failed")
        except Exception as error:
            log.exception("TrainJob %s: writing its progress failed", reports.key)
            self._fail(reports, error, "failed")
        else:
            self.metrics.writes.inc("stored")
            self.metrics.delay.observe(self._time() - report.arrived)
            reports.stored, reports.failures, reports.not_before = report.status, 0, float("-inf")
            reports.has_diverged = report.diverged
            reports.answer(None)
        finally:
            reports.writing = None

    def _fail(self, reports: JobReports, error: Exception, result: str) -> None:
        self.metrics.writes.inc(result)
        reports.failures += 1
        reports.not_before = self._time() + min(LONGEST_RETRY_SECONDS, 2.0 ** (reports.failures - 1))
        if reports.failures == 1:
            said = str(error) or f"no answer within {WRITE_SECONDS:.0f} s"
            log.warning("TrainJob %s: its progress is not stored yet: %s", reports.key, said)

    def _refuse(self, reports: JobReports, report: ProgressReport, error: Invalid | BadRequest) -> None:
        self.metrics.writes.inc("refused")
        if reports.pending is report:
            reports.drop()
        if not reports.was_refused:
            reports.was_refused = True
            log.warning("TrainJob %s: the API server refuses its progress, which is dropped: %s", reports.key, error)
        reports.answer(InvalidReport(error.message))

    # ------------------------------------------------------------------ the end

    def _left(self) -> list[JobReports]:
        return [one for one in self._records.each(JobReports) if one.pending is not None]

    async def _flush(self) -> None:
        """Write all pending values without the limit of the rate, 100 % first."""
        left = sorted(
            (one for one in self._records.each(JobReports) if not one.is_idle),
            key=lambda one: (one.writing is not None, not one.is_urgent(), one.last_write),
        )
        rest = deque(left)
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await together("progress/flush", *(self._flush_some(rest) for _ in left[:IN_FLIGHT]))
        except TimeoutError:
            log.warning("not all progress could be written within %g s", FLUSH_SECONDS)

    async def _flush_some(self, rest: deque[JobReports]) -> None:
        """Write one after the other. One that cannot be written goes to the end, so that it holds up no other."""
        while rest:
            reports = rest.popleft()
            if reports.pending is not None and reports.writing is None:
                await self._write(reports)
            if not reports.is_idle:
                rest.append(reports)
                await asyncio.sleep(FLUSH_RETRY_SECONDS)


class Superseded(KubernetesError):  # noqa: N818 - what happened to the value, not a failure
    """The API server holds a newer value, which the cache did not show when the write began."""

    def __init__(self, key: Key, stored: TrainerStatus) -> None:
        """`stored`: the newer value."""
        super().__init__(f"TrainJob {key} holds a newer value of its progress")
        self.stored = stored


Known = Callable[[Key], TrainJob | None]
"""The TrainJob of this name, as far as it is known."""


class StatusWriter:
    """Stores values by server-side apply, as the field manager of Kubeflow Trainer's status server.

    The document holds the whole progress and nothing else: what a report leaves out is removed, and conditions and
    counters stay. A caller paces the writes and repeats them; only a change by others is answered here.

    The uid of a TrainJob cannot be a condition of the write: for the status of a custom resource the API server takes
    all metadata but the version from the stored object (`customresource/status_strategy.go`). So the document names the
    version of the TrainJob with the right uid, and one that was recreated under the same name is never written.
    """

    def __init__(self, client: Client, known: Known) -> None:
        """`client`: of the manager, whose cache shows the writes at once. `known`: the cache."""
        self._client = client.with_defaults(retries=0)
        self._known = known

    async def __call__(self, key: Key, uid: str, status: TrainerStatus) -> None:
        """Store one value.

        Raises:
            NotFound: there is no TrainJob with this name and uid.
            Invalid: the API server refuses the value.
            Superseded: a newer one was stored meanwhile.
            KubernetesError: others; try again later.
        """
        job: TrainJob | Document | None = self._known(key)
        if job is None or uid_of(job) != uid or not resource_version_of(job):
            job = await self._look(key, uid)
        base, version = _value_of(job), resource_version_of(job)
        for _ in range(ATTEMPTS):
            document: dict[str, Any] = {
                "metadata": {"name": key.name, "namespace": key.namespace, "resourceVersion": version},
                "status": {"trainerStatus": msgspec.to_builtins(status)},
            }
            try:
                await self._client.apply(
                    document, kind=TrainJob, field_manager=FIELD_MANAGER, force=True, subresource="status"
                )
            except Conflict:
                job = await self._look(key, uid)
                found, version = _value_of(job), resource_version_of(job)
                # A value that was there before is older than ours, whatever its clock says.
                if found is not None and found != base and is_newer(found, status):
                    raise Superseded(key, found) from None
            else:
                return
        raise KubernetesError(f"TrainJob {key} changes too often to write its progress")

    async def _look(self, key: Key, uid: str) -> Document:
        """What the API server holds. Undecoded: the progress of a job is written whatever else is wrong with it."""
        job = await self._client.get(TrainJob.RESOURCE, key.name, key.namespace)
        if uid_of(job) != uid:
            raise NotFound(f"TrainJob {key} was recreated")
        return job


def _value_of(job: TrainJob | Document) -> TrainerStatus | None:
    if isinstance(job, TrainJob):
        return job.status_or_empty.trainer_status
    try:
        return msgspec.convert((job.get("status") or {}).get("trainerStatus"), TrainerStatus | None)
    except msgspec.ValidationError:
        return None
