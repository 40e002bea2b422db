# SPDX-License-Identifier: Apache-2.0
"""One reconcile of a TrainJob: from a key to applied objects and a written status.

The sequence is always the same: make the job's objects, observe their state, decide, carry the decision out. Each step
has a module of its own: `build.objects`, the pipeline's status, `job.decision`, `job.obstacles`. docs/architecture.md
shows where these steps belong between the watch and the status.
"""

import asyncio
from dataclasses import dataclass, field

from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, Runtime
from trainwright.controller.runtime import Backoff, Done, Event, KubernetesError, Manager, NotFound, Result, RetryAfter
from trainwright.controller.runtime.context import current_reconcile
from trainwright.controller.runtime.controller.sources import WAITED
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.workqueue.limiters import ExponentialLimiter
from trainwright.controller.runtime.workqueue.queue import LOW_PRIORITY
from trainwright.controller.trainer.build.kinds import COUNTERS_SECONDS, CachedFacts, differs_in
from trainwright.controller.trainer.build.objects import BuildMemory, EndUnknown, JobObjects, NameTaken
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.job.decision import BuildOutcome, Decision, RecoveryDecision, decide
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason, obstacle_of
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.controller.trainer.job.status import is_ours
from trainwright.controller.trainer.recovery.recorder import Recoveries
from trainwright.plugins.contract import RecoveryFacts, Reference
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

NAME = "trainjob_controller"
WORKERS = 16
PATIENCE_SECONDS = 5.0
"""How long a cause must last before it is shown as `Blocked`."""
CLOCK = "clock"
"""The reason of a reconcile that a timer starts: an obstacle has lasted, a deadline is due, counters have waited."""
RETRY_SECONDS = 60.0
"""Upper bound of the delay between two attempts at a blocked job, so that a removed cause shows within a minute."""


@dataclass(slots=True)
class JobMemory:
    build: BuildMemory = field(default_factory=BuildMemory)
    obstacle: Obstacle | None = None
    obstacle_since: float = 0.0
    """On a clock that never goes back, in seconds."""
    is_reported: bool = False
    """Whether the event and the log line of the obstacle were written."""
    counters_since: float | None = None
    """Since when counters differ from the written status, on the same clock; None: they do not."""

    def meet(self, obstacle: Obstacle, now: float) -> float:
        """Note that the job has met the obstacle. Returns the seconds until it is to be shown; 0: show it now.

        An obstacle with the same reason counts as the same obstacle; another reason restarts the time.
        """
        if not self.has(obstacle.reason):
            self.obstacle_since, self.is_reported = now, False
        self.obstacle = obstacle
        return max(0.0, self.obstacle_since + PATIENCE_SECONDS - now)

    def has(self, reason: Reason) -> bool:
        return self.obstacle is not None and self.obstacle.reason is reason

    def reports(self) -> bool:
        """Whether to report the obstacle now: True once for each."""
        if self.obstacle is None or self.is_reported:
            return False
        self.is_reported = True
        return True


class TrainJobController:
    """Reconciles TrainJobs. The constructor declares its watches on the manager."""

    @staticmethod
    def uses(registry: Registry) -> Uses:
        """The kinds that it uses with these plugins."""
        # Where OwnerReferencesPermissionEnforcement is on, for owner references that block the owner's deletion.
        owner = Rule.on(TrainJob.RESOURCE, "update", subresource="finalizers")
        return Uses(
            kind=TrainJob,
            watches=(*RUNTIMES, *(watch.resource for watch in registry.watches() if not watch.name)),
            status=True,
            events=True,
            more=(owner, *Snapshots.RULES, *registry.rules()),
        )

    def __init__(
        self,
        manager: Manager,
        pipeline: Pipeline,
        facts: CachedFacts,
        snapshots: Snapshots,
        events: JobEvents,
        records: JobRecords,
        findings: JobFindings,
        *,
        recoveries: Recoveries | None = None,
        workers: int = WORKERS,
        created_condition: bool = False,
        now: Now = wall_clock,
    ) -> None:
        """Declare everything; `manager.run` starts it.

        Without `recoveries` no job recovers. `now` is for deadlines and transition times.
        """
        self._recoveries = recoveries
        self._client = manager.client
        self._cache = manager.cache
        self._pipeline = pipeline
        self._facts = facts
        self._runtimes = snapshots.runtimes
        self._created_condition, self._findings, self._now = created_condition, findings, now
        self._events = events
        self._objects = JobObjects(manager.client, manager.applier, pipeline, facts, snapshots, kept=events.kept)
        self._records, self._time = records, asyncio.get_running_loop().time
        builder = manager.controller(NAME, self.uses(pipeline.registry))
        builder.for_(TrainJob, predicates=[_is_more_than_progress])
        for runtime in RUNTIMES:
            builder.watches(runtime, self._waiting_for)
        facts.kinds.declare(builder, self._cache, self._runtimes)
        if recoveries is not None:
            builder.source(recoveries.changed)
        builder.source(findings.changed)
        limiter = ExponentialLimiter(maximum=RETRY_SECONDS)
        builder.reconcile(self.reconcile, workers=workers, limiter=limiter)
        # After `reconcile`, which declares the kinds: an index is added to a declared kind.
        self._runtimes.index()

    async def reconcile(self, key: Key) -> Result:
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None or not is_ours(job):
            self._records.drop(key, JobMemory)
            return Done()
        memory = self._records.of(key, uid_of(job)).part(JobMemory)
        recovery, facts = RecoveryDecision(), None
        if self._recoveries is not None and _is_built(job):
            try:
                recovery, facts = await self._recoveries.plan(job)
            except KubernetesError as error:
                # Without the record, neither the next JobSet nor the end of the job is known.
                return Backoff("the record of attempts", at_most=RETRY_SECONDS, error=error)
        replacing_jobset = recovery.replaces_jobset and recovery.ignore_failure
        failure = await self._make(job, memory, recovery, facts) if _is_built(job) and not replacing_jobset else None
        # After the objects are applied, since the cache shows own writes at once.
        references, observed, unseen = await self._observe(job)
        failure = failure or unseen
        end_unknown = str(failure) if isinstance(failure, EndUnknown) else ""
        failure = None if end_unknown else failure
        obstacle = obstacle_of(failure) if failure is not None else None
        outcome = self._outcome(job, memory, obstacle, failure, end_unknown, recovery)
        decision = decide(job, observed, outcome, self._now())
        if outcome.obstacle is not None and not decision.end and memory.reports():
            self._events.blocked(job, outcome.obstacle)
        try:
            await self._carry_out(key, job, memory, decision, references, replacing_jobset=replacing_jobset)
        except NotFound:
            # The job was deleted a moment ago: its event ends the retries.
            return Backoff("the TrainJob is gone", at_most=decision.requeue_after)
        except Exception as error:
            return Backoff(CLOCK, at_most=decision.requeue_after, error=error)
        return _result(failure, obstacle, decision)

    async def _make(
        self, job: TrainJob, memory: JobMemory, recovery: RecoveryDecision, facts: RecoveryFacts | None
    ) -> Exception | None:
        try:
            await self._objects.make(job, memory.build, end_is_known=recovery.replaces_jobset, recovery=facts)
        except Exception as error:
            return error
        return None

    async def _observe(self, job: TrainJob) -> tuple[tuple[Reference, ...], TrainJobStatus | None, Exception | None]:
        """The objects that the status is read from, the status that they give, and the error, if there is one."""
        references: tuple[Reference, ...] = ()
        run = self._pipeline.begin_status(job)
        try:
            references = run.references()
            return references, run.status(await self._facts.read(references)), None
        except Exception as error:
            return references, None, error

    def _outcome(
        self,
        job: TrainJob,
        memory: JobMemory,
        obstacle: Obstacle | None,
        failure: Exception | None,
        end_unknown: str,
        recovery: RecoveryDecision,
    ) -> BuildOutcome:
        now, since = self._time(), memory.counters_since
        if since is None and _has_waited():
            since = now - COUNTERS_SECONDS
        snapshot_in = memory.build.snapshot_in(now) if _is_built(job) and failure is None else 0.0
        unsettled = failure is not None or snapshot_in > 0
        shown_in = 0.0
        if obstacle is not None:
            shown_in = memory.meet(obstacle, now)
        elif not unsettled:
            memory.obstacle = None
        return BuildOutcome(
            failed=unsettled,
            obstacle=obstacle if shown_in <= 0 else None,
            shown_in=shown_in,
            created=self._created_condition and not unsettled and not end_unknown and _is_built(job),
            findings=self._findings.of(job),
            end_unknown=end_unknown,
            recovery=recovery,
            counters_in=COUNTERS_SECONDS if since is None else since + COUNTERS_SECONDS - now,
            snapshot_in=snapshot_in,
            foreign_in=RETRY_SECONDS if memory.build.foreign and _is_built(job) else 0.0,
        )

    async def _carry_out(
        self,
        key: Key,
        job: TrainJob,
        memory: JobMemory,
        decision: Decision,
        references: tuple[Reference, ...],
        *,
        replacing_jobset: bool,
    ) -> None:
        if decision.counters_wait and memory.counters_since is None:
            memory.counters_since = self._time()
        if decision.status is not None:
            # Due until it is written: if counters waited again after a failure, that wait would end the backoff.
            memory.counters_since = self._time() - COUNTERS_SECONDS
            await self._client.patch(
                TrainJob, job.name, job.namespace, decision.status, type="merge", subresource="status"
            )
        if not decision.counters_wait:
            memory.counters_since = None
        if decision.end:
            await self._objects.delete(job, references)
        elif replacing_jobset:
            # Foreground: it stays until its pods are gone, so that no host name is there twice.
            await self._objects.delete(job, references, propagation="Foreground")
        if decision.over:
            self._records.drop(key, JobMemory)

    def _waiting_for(self, runtime: Runtime) -> list[Key]:
        """The jobs to reconcile when a runtime appears or changes: those that were blocked because it was missing."""
        waiting = self._records.keys(JobMemory, lambda memory: memory.has(Reason.RUNTIME_MISSING))
        if not waiting:
            # This includes the time before the first lists have arrived, when TrainJobs cannot be looked up.
            return []
        keys = (Key(job.namespace, job.name) for job in self._runtimes.jobs_of(runtime))
        return [key for key in keys if key in waiting]


def _result(failure: Exception | None, obstacle: Obstacle | None, decision: Decision) -> Result:
    if failure is None or decision.end or (obstacle is not None and obstacle.final):
        # Counters yield to other jobs; while none is due, they are written in time.
        priority = LOW_PRIORITY if decision.counters_wait else None
        return Done() if decision.requeue_after is None else RetryAfter(decision.requeue_after, priority, CLOCK)
    if obstacle is not None:
        return Backoff(obstacle.reason, at_most=decision.requeue_after)
    again = decision.requeue_after
    if isinstance(failure, NameTaken):
        again = 1.0 if again is None else min(again, 1.0)
    return Backoff(type(failure).__name__, at_most=again, error=failure)


def _has_waited() -> bool:
    """Whether the event that started this reconcile has waited for company already."""
    reconcile = current_reconcile.get()
    return reconcile is not None and WAITED in reconcile.reasons


def _is_built(job: TrainJob) -> bool:
    return not is_finished(job) and deletion_timestamp_of(job) is None


def _is_more_than_progress(event: Event[AnyObject]) -> bool:
    """Whether an event shows more than new progress, which reconciles neither read nor write."""
    old, new = event.old, event.new
    if not isinstance(old, TrainJob) or not isinstance(new, TrainJob):
        return True
    is_new = old.status_or_empty.trainer_status != new.status_or_empty.trainer_status
    return not is_new or not differs_in(old, new, ["trainer_status"])
