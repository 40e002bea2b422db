# SPDX-License-Identifier: Apache-2.0
"""The conditions `Stuck`, `Restarting` and `Waiting`: the first cause that keeps a TrainJob from training.

A job has one of them at most; its type is the word that every view shows.

A controller of the leader, with the gate `Explain`. A job whose pods all run costs nothing but a look at its JobSet in
the cache, which also removes the condition at once. Any other is read and explained once it has been so for ten
seconds, then every half a minute. At most three jobs are read each second, so a cluster full of waiting jobs costs the
API server no more; fewer where the event loop runs late, because explaining is the least urgent work of a manager that
has too little of a processor. Reads are a task of their own: a reconcile only looks at the cache and writes, so it
waits neither for the turn of a read nor for its answers.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trainwright.api.conditions import is_true
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import Key, deletion_timestamp_of, is_controlled_by, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Done, KubernetesError, Manager, NotFound, Result, RetryAfter, Trigger
from trainwright.controller.runtime.context import current_reconcile
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.trainer.job.pods import POD, calm_in, keys_of_jobset, pods_of
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.controller.trainer.job.status import CONDITION_BLOCKED, EXPLAINING, is_ours, new_condition, state_of
from trainwright.controller.trainer.why import kinds
from trainwright.controller.trainer.why.job.judgement import Explanation, state_from
from trainwright.controller.trainer.why.reader import Reader
from trainwright.plugins.contract import Explains, JobState
from trainwright.plugins.contract.picture import BATCH_JOB, EVENT, Cause, Severity

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""How long a job is left alone before it is looked at: most are on their way within that time."""
AGAIN_SECONDS = 30.0
WRITE_SECONDS = 10.0
"""Between two writes for one job."""
RATE = 3.0
"""Jobs that are read each second."""
AT_ONCE = 8
"""Jobs that are read at the same time, so that one that is slow to read holds up no other."""
LATE_TIMES = 20.0
"""A read waits so many times as long as the event loop was late with its turn, but at most READ_SECONDS."""
READ_SECONDS = 30.0
"""Limit of one read. It asks for much, and a node that does not answer must not keep a place."""
AGAIN_EACH = 4
"""One of this many turns belongs to a job that was explained before, however many new jobs there are."""
EXPLAINED = "explained"
"""The reason of a reconcile that shows what a read found."""
_READS = (
    *(POD, BATCH_JOB, EVENT, kinds.NODE, kinds.CLAIM, kinds.SERVICE, kinds.QUOTA, kinds.LIMIT_RANGE),
    *(kinds.SERVICE_ACCOUNT, kinds.WORKLOAD, kinds.LOCAL_QUEUE, kinds.CLUSTER_QUEUE),
)
_GETS = (
    *(kinds.PRIORITY_CLASS, kinds.RUNTIME_CLASS, kinds.STORAGE_CLASS, kinds.LEASE),
    *(TrainJob.RESOURCE, JobSet.RESOURCE),
)
_REASON_LIMIT = 1024
_UNFIT = re.compile(r"^[^A-Za-z]+|[^A-Za-z0-9_]")
"""What the reason of a condition must not have. Some reasons are words of plugins, or of kubelets."""


@dataclass(slots=True, eq=False)
class _Watched:
    """A job that does not train yet, as this process knows it."""

    uid: str
    since: float
    written: float = float("-inf")
    is_read: bool = False
    is_asked: bool = False
    """Whether it waits for its turn to be read, or is being read."""
    has_changed: bool = False
    """Whether something changed since the last read began, which the explanation may not hold yet."""
    explanation: Explanation | None = None
    """What the last read says, until it is written."""


class ReadQueue:
    """Jobs whose turn has not come yet.

    Jobs that were never explained go first, so a cluster full of jobs that wait for long does not hide why a new one
    waits. In each group the one that has waited longest goes first.
    """

    def __init__(self) -> None:
        self._new: dict[Key, _Watched] = {}
        self._again: dict[Key, _Watched] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._again)

    def ask(self, key: Key, about: _Watched, *, is_new: bool) -> None:
        """Give the job a turn. One that has asked already keeps its place; `about` replaces what it came with."""
        home = self._new if is_new else self._again
        (self._again if is_new else self._new).pop(key, None)
        home[key] = about

    def drop(self, key: Key) -> None:
        self._new.pop(key, None)
        self._again.pop(key, None)

    def next(self) -> tuple[Key, _Watched] | None:
        """Take the job whose turn it is; None: no job has asked."""
        if not self:
            return None
        self._turns += 1
        first, second = self._new, self._again
        if self._turns % AGAIN_EACH == 0:
            first, second = second, first
        home = first or second
        key = next(iter(home))
        return key, home.pop(key)


class WaitingConditions:
    """Shows why jobs wait. The constructor declares its controller, and the task that reads, on the manager."""

    USES = Uses(
        kind=TrainJob,
        watches=(JobSet, POD),
        more=(
            *(Rule.on(resource, "get", "list") for resource in _READS),
            *(Rule.on(resource, "get") for resource in _GETS),
        ),
    )

    def __init__(
        self,
        manager: Manager,
        jobsets: Any,
        plugins: Sequence[Explains],
        records: JobRecords,
        findings: JobFindings,
        *,
        now: Now = wall_clock,
    ) -> None:
        """Declare everything; `manager.run` starts it. Pods must be declared in the cache."""
        self._cache, self._jobsets, self._now = manager.cache, jobsets, now
        self._found = findings.source(EXPLAINING)
        self._time = asyncio.get_running_loop().time
        self._reader = Reader(manager.client, plugins, now=now)
        self._bucket = TokenBucket(RATE, 1, time=self._time)
        self._records = records
        records.follow(gone=lambda record: self._reads.drop(record.key))
        self._reads = ReadQueue()
        self._running = 0
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._explained = Trigger(EXPLAINED)
        builder = manager.controller("waiting_controller", self.USES).for_(TrainJob)
        # The counters of a TrainJob may skip a moment in which its pods were ready, as between two crashes.
        builder.owns(jobsets)
        builder.watches(POD, keys_of_jobset, label_selector=LABEL_JOBSET)
        builder.source(self._explained)
        builder.reconcile(self.reconcile, workers=4)
        manager.add(self, Group.LEADER, "waiting-reads")

    async def run(self) -> None:
        """Read the jobs that ask for it until `request_stop`."""
        async with TaskScope("waiting") as tasks:
            while not self._stop.is_set():
                self._wake.clear()
                if not self._reads or self._running >= AT_ONCE:
                    await self._wake.wait()
                    continue
                pause = self._bucket.delay()
                due = self._time() + pause
                await self._sleep(pause)
                await self._sleep(min(LATE_TIMES * (self._time() - due), READ_SECONDS))
                # Chosen now: a job that waits no longer has left, and a new one may have come.
                turn = self._reads.next()
                if turn is None or self._stop.is_set():
                    self._bucket.give_back()
                    continue
                self._running += 1
                key, watched = turn
                tasks.start(f"waiting/{key}", self._read(key, watched))

    def request_stop(self) -> None:
        """Read no more; `run` returns, and what is being read is given up."""
        self._stop.set()
        self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep so long, or until `request_stop`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    async def _read(self, key: Key, watched: _Watched) -> None:
        watched.has_changed = False
        try:
            async with asyncio.timeout(READ_SECONDS):
                watched.explanation = await self._reader.explain(key.namespace, key.name)
        except NotFound:
            pass  # the cache shows it in a moment
        except (KubernetesError, TimeoutError) as error:
            log.warning(
                "%s: not explained, the next attempt is in %.0f s: %s", key, AGAIN_SECONDS, str(error) or "no answer"
            )
        except Exception:
            log.exception("%s: not explained, the next attempt is in %.0f s", key, AGAIN_SECONDS)
        finally:
            self._running -= 1
            self._wake.set()
        watched.is_read, watched.is_asked = True, False
        if self._records.find(key, watched.uid, _Watched) is watched:
            if watched.explanation is not None:
                self._explained(key)
            else:
                self._explained(key, after=AGAIN_SECONDS)

    async def reconcile(self, key: Key) -> Result:
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None or not is_ours(job) or deletion_timestamp_of(job) is not None:
            self._forget(key)
            return Done()
        if self._is_fine(job):
            self._forget(key)
            self._found.say(job, None)
            return Done()
        watched = self._records.of(key, uid_of(job)).part(_Watched, lambda: _Watched(uid_of(job), self._time()))
        call = current_reconcile.get()
        if call is None or any(reason != EXPLAINED for reason in call.reasons):
            watched.has_changed = True
        if watched.explanation is not None:
            return self._show(job, watched)
        if watched.is_asked:
            return Done()
        early = max(watched.since + PATIENCE_SECONDS, watched.written + WRITE_SECONDS) - self._time()
        if early > 0:
            return RetryAfter(early, reason="patience")
        watched.is_asked = True
        self._reads.ask(key, watched, is_new=not watched.is_read)
        self._wake.set()
        return Done()

    def _show(self, job: TrainJob, watched: _Watched) -> Result:
        explanation, watched.explanation = watched.explanation, None
        assert explanation is not None
        if self._found.say(job, condition_of(told(job, explanation))):
            watched.written = self._time()
        return RetryAfter(WRITE_SECONDS if watched.has_changed else AGAIN_SECONDS, reason="look again")

    def _forget(self, key: Key) -> None:
        """The job does not wait: what is being read of it is not shown."""
        self._records.drop(key, _Watched)
        self._reads.drop(key)

    def _is_fine(self, job: TrainJob) -> bool:
        """Whether there is nothing to explain: it is over, or all its pods run or have run.

        Not those that have failed again and again, and run for a moment.
        """
        if state_of(job).state.is_over:
            return True
        jobset = self._cache.get(self._jobsets, job.name, job.namespace)
        if not isinstance(jobset, JobSet) or not is_controlled_by(jobset, job):
            return False
        statuses = jobset.status_or_empty.replicated_jobs_status or ()
        counts = {one.name: (one.ready or 0) + (one.succeeded or 0) for one in statuses}
        jobs = jobset.spec_or_empty.replicated_jobs or ()
        wanted = {one.name: 1 if one.replicas is None else one.replicas for one in jobs}
        suspended = bool(job.spec_or_empty.suspend)
        if not wanted or suspended or not all(counts.get(name, 0) >= n for name, n in wanted.items()):
            return False
        return calm_in(pods_of(self._cache, job), self._now()) is None


def condition_of(cause: Cause | None) -> Condition | None:
    """The condition for the cause, whose type is the state of the job.

    Its reason is one that the API server takes: a refusal would keep all other changes of the status unwritten, too.
    """
    kind = state_from(cause) if cause is not None else None
    if cause is None or kind is None:
        return None
    return new_condition(kind, "True", _UNFIT.sub("", cause.reason)[:_REASON_LIMIT] or kind, cause.message)


def told(job: TrainJob, explanation: Explanation) -> Cause | None:
    """The cause to show: one that keeps the job from training and that no other condition shows."""
    first = explanation.cause
    if first.severity not in (Severity.STUCK, Severity.TEMPORARY) or explanation.outcome is JobState.STALLED:
        return None
    blocked = is_true(job.status_or_empty.conditions, CONDITION_BLOCKED)
    return None if blocked else first
