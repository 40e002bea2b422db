# SPDX-License-Identifier: Apache-2.0
"""The condition `Stalled`, and the events about progress: a controller of the leader, from what the cache shows.

So there is one event and one condition, whatever way a report came and whichever replica took it. What is remembered of
a job is a part of its record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from trainwright.api.conditions import find
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import Document, Key, annotations_of, deletion_timestamp_of, name_of, uid_of
from trainwright.api.times import Now, format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import Done, Manager, Result, RetryAfter
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import NotSynced
from trainwright.controller.trainer.build.runtimes import SnapshotInvalid
from trainwright.controller.trainer.job.events import EVENT_LOSS_NOT_FINITE, EVENT_STALLED, JobEvents
from trainwright.controller.trainer.job.pods import POD, keys_of_jobset, rank_of
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.controller.trainer.job.stall import (
    Stall,
    StallClock,
    StalledAttempt,
    StallReason,
    ended_ranks,
    ended_ranks_message,
    is_running,
    runs,
    stall_after,
    stall_of,
)
from trainwright.controller.trainer.job.status import CONDITION_STALLED, is_ours, new_condition
from trainwright.controller.trainer.progress.report import JobReports, infinite_loss

RUNTIME_SECONDS = 60.0
"""Pause before the runtime of a job is looked for again. Nothing wakes this controller when it can be read."""


@dataclass(slots=True)
class _Memory:
    clock: StallClock
    diverged: bool = False
    """Whether it was told that a loss is not finite."""
    is_stalled: bool = False
    seen: bool = False
    percent: int | None = None
    silent: tuple[str, float, str] = ("", 0.0, "")
    """A silent pod, when it reported last, and that time of day: told alike each time, whatever the clocks do."""


class StallController:
    """Follows the reports of all jobs. The constructor declares its controller on the manager."""

    USES = Uses(kind=TrainJob, watches=(POD,))

    def __init__(
        self,
        manager: Manager,
        events: JobEvents,
        runtime_of: Callable[[TrainJob], Awaitable[Runtime | None]],
        default: float | None,
        records: JobRecords,
        findings: JobFindings,
        *,
        pods_of: Callable[[TrainJob], Sequence[Document]] | None = None,
        attempt_of: Callable[[TrainJob], Hashable] = lambda _: None,
        is_alone: bool = False,
        now: Now = wall_clock,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """Declare everything; `manager.run` starts it.

        `runtime_of` gives the runtime of a job, whose annotations count where the job has none. `default` are the
        seconds without progress after which a job without the annotation counts as stalled; None: never.

        `pods_of` gives the pods of a job, where the cache holds them; without it, ranks that end are not seen.
        `attempt_of` tells the lives of all ranks of a job apart; None: none is there, or all are held back. `is_alone`:
        all reports come to this process, so that it can tell which rank is silent. `monotonic` replaces the clock of
        the event loop.
        """
        self._cache, self._events, self._default = manager.cache, events, default
        self._found = findings.source({CONDITION_STALLED})
        self._runtime_of, self._pods_of, self._is_alone = runtime_of, pods_of, is_alone
        self._attempt_of = attempt_of
        self._now, self._monotonic = now, monotonic or asyncio.get_running_loop().time
        self._records = records
        builder = manager.controller("stall_controller", self.USES).for_(TrainJob)
        if pods_of is not None:
            builder.watches(POD, keys_of_jobset, label_selector=LABEL_JOBSET)
        builder.reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Look at one job: tell what is new, and whether it stands still."""
        try:
            return await self._look(key)
        except NotSynced:
            # JobSets and snapshots are not watched here, so nothing wakes it when the first list of them has arrived.
            return RetryAfter(1.0, reason="start")

    async def _look(self, key: Key) -> Result:
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None or not is_ours(job) or deletion_timestamp_of(job) is not None:
            self._records.drop(key, _Memory)
            return Done()
        memory = self._records.of(key, uid_of(job)).part(_Memory, lambda: _Memory(StallClock.begin(self._monotonic())))
        self._tell(job, memory)
        running, now = is_running(job), self._monotonic()
        memory.clock.see(job, now, running=running, attempt=self._attempt_of(job) if running else None)
        if not running:
            self._records.drop(key, StalledAttempt)
            # Without asking for the runtime first, which may have to be read: that it does not stand still is known.
            self._found.say(job, None)
            return Done()
        reports = self._records.find(key, uid_of(job), JobReports)
        if reports is not None:
            memory.clock.heard(reports.last_report, now, is_stuck=reports.is_stuck)
        runtime = await self._runtime_annotations(job)
        after = stall_after(job, runtime or {}, self._default)
        if after is None:
            self._records.drop(key, StalledAttempt)
            self._found.say(job, None)
            return RetryAfter(RUNTIME_SECONDS, reason="stall") if runtime is None else Done()
        of_ranks, left = self._of_ranks(job, memory, after, reports)
        pods = self._reporters(job, reports)
        promised = stall_after(job, runtime or {}, None) is not None
        stall, of_job = stall_of(memory.clock, after, now, pods=pods, promised=promised)
        left = min(left, of_job)
        if of_ranks is not None:
            stall = _with_ranks(stall, of_ranks)
        if stall is None:
            self._records.drop(key, StalledAttempt)
        else:
            self._records.of(key, uid_of(job)).keep(StalledAttempt(memory.clock.attempt, stall))
        self._found.say(job, _condition(stall))
        is_shown = find(job.status_or_empty.conditions, CONDITION_STALLED) is not None
        if stall is not None and not memory.is_stalled and not is_shown:
            self._events.warn(job, EVENT_STALLED, stall.message)
        memory.is_stalled = stall is not None
        return RetryAfter(max(left, 1.0), reason="stall")

    def _of_ranks(
        self, job: TrainJob, memory: _Memory, after: float, reports: JobReports | None
    ) -> tuple[Stall | None, float]:
        """How single ranks stand still while others go on; and the seconds until that may change."""
        pods = self._pods_of(job) if self._pods_of is not None else ()
        ended = ended_ranks(pods)
        text, left = ended_ranks_message(ended, after, self._now())
        if text:
            return Stall(reason=StallReason.RANK_ENDED, message=text), after
        if reports is None or not self._is_alone:
            return None, min(after, left or after)
        # A pod that has ended is silent, and so is one of an earlier attempt.
        over = {one.pod for one in ended}
        running = {name_of(pod): pod for pod in pods if runs(pod) and name_of(pod) not in over}
        limit = self._monotonic() - after
        known = {name: at for name, at in reports.pods.items() if name in running}
        silent = sorted((at, name) for name, at in known.items() if at <= limit and name in reports.again)
        if not silent or len(silent) == len(known):
            return None, min(after, left or after, *(at - limit for at in known.values() if at > limit))
        at, first = silent[0]
        if memory.silent[:2] != (first, at):
            memory.silent = first, at, format_time(self._now() - timedelta(seconds=self._monotonic() - at))
        more = f" ({len(silent) - 1} more are silent, too)" if silent[1:] else ""
        others = len(known) - len(silent)
        go_on = "1 other reports" if others == 1 else f"{others} others report"
        text = (
            f"{rank_of(running[first])} has sent no report since {memory.silent[2]}, and {go_on} on{more}; "
            "look at its log, it may hang"
        )
        return Stall(reason=StallReason.RANK_SILENT, message=text), after

    def _reporters(self, job: TrainJob, reports: JobReports | None) -> list[str]:
        """The ranks that reported, or their pods where the cache does not have all of them."""
        names = list(reports.pods) if reports is not None else []
        known = {name_of(pod): rank_of(pod) for pod in (self._pods_of(job) if self._pods_of is not None else ())}
        # Pods of earlier attempts are gone.
        ranks = [known[name] for name in names if name in known]
        return ranks if ranks and all(rank.startswith(("rank ", "node ")) for rank in ranks) else names

    async def _runtime_annotations(self, job: TrainJob) -> Mapping[str, str] | None:
        """Those of the job's runtime; None: its snapshot is missing, or cannot be used."""
        try:
            runtime = await self._runtime_of(job)
        except SnapshotInvalid:
            return None  # the TrainJob's controller shows it
        return annotations_of(runtime) if runtime is not None else None

    def _tell(self, job: TrainJob, memory: _Memory) -> None:
        """One event for each thing that goes wrong for the first time in an attempt, as far as this process saw it.

        That a training begins or reports 100 % is no event: the status shows it, and recordings of Kubeflow Trainer
        have none.
        """
        status = job.status_or_empty.trainer_status_or_empty
        percent = status.progress_percentage
        if percent is not None and memory.percent is not None and percent < memory.percent:
            memory.diverged = False  # the training began again, from a checkpoint or from the start
        memory.percent = percent
        is_first, memory.seen = not memory.seen, True
        loss = infinite_loss(status)
        # What was there before this process looked was told by the one before it.
        if loss is not None and not memory.diverged and not is_first:
            note = f"metric {loss.name} is {loss.value}: the training has diverged"
            self._events.warn(job, EVENT_LOSS_NOT_FINITE, note)
        memory.diverged = memory.diverged or loss is not None


def _condition(stall: Stall | None) -> Condition | None:
    return new_condition(CONDITION_STALLED, "True", stall.reason, stall.message) if stall is not None else None


def _with_ranks(of_job: Stall | None, of_ranks: Stall) -> Stall:
    """How single ranks stand still; first of all, if the job does not go on without them, that it stands still."""
    if of_job is None or of_job.reason == StallReason.NEVER_REPORTED:
        return of_ranks
    return Stall(reason=of_job.reason, message=f"{of_job.message.partition(';')[0]}; {of_ranks.message}")
