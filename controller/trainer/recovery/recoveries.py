# SPDX-License-Identifier: Apache-2.0
"""What this process knows of the recovery of each job, for those that build it and that write its status.

It is read from the record once, and follows what the Part of recovery writes there. So nothing is done to a job that
the record does not say.
"""

from collections.abc import Callable
from dataclasses import replace

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Key, annotations_of, deletion_timestamp_of, uid_of
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods
from trainwright.api.trainer.v1alpha1.recovery import (
    Allowed,
    Declaration,
    declared,
)
from trainwright.controller.optimization.names import ANNOTATION_TRIAL
from trainwright.controller.runtime import Manager, Trigger
from trainwright.controller.runtime.errors import CacheError
from trainwright.controller.trainer.build.runtimes import SnapshotInvalid, Snapshots
from trainwright.controller.trainer.failures.record import HANG_KEY, name_of_record
from trainwright.controller.trainer.failures.recorder import RECORDS, read_record
from trainwright.controller.trainer.job.decision import RecoveryDecision
from trainwright.controller.trainer.job.pods import attempt_of, jobset_of_job, pods_of
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.recovery.attempts import (
    VERDICT_SECONDS,
    Glance,
    KnownAttempts,
    held_for,
    is_partial,
)
from trainwright.controller.trainer.recovery.nodes import still_avoided
from trainwright.controller.trainer.recovery.verdict import Summary, retries_left, summary_of
from trainwright.plugins.contract import RecoveryFacts


class Recoveries:
    """Knows the attempts of all jobs that recover."""

    def __init__(
        self,
        manager: Manager,
        snapshots: Snapshots,
        records: JobRecords,
        allowed: Allowed,
        *,
        newest: Callable[[TrainJob], TrainerStatus | None] = lambda _: None,
        now: Now = wall_clock,
    ) -> None:
        """Create it before the controllers that use it.

        `snapshots` give the runtime of a job, whose annotations count where the job has none. `newest` gives the newest
        report of a job that this process took, also before it is written.
        """
        self._client, self._cache = manager.client, manager.cache
        self._snapshots, self._allowed, self._now = snapshots, allowed, now
        self._records, self._newest = records, newest
        self.changed = Trigger("recovery")
        """Starts a reconcile of a job of which the record says something new."""

    async def wanted(self, job: TrainJob) -> Declaration | None:
        """How a job recovers, if the manager judges its attempts.

        None: it does not recover, nothing was made for it yet, or its runtime has a failure policy of its own, which is
        kept. Raises KubernetesError.
        """
        try:
            runtime = await self._snapshots.existing(job)
        except SnapshotInvalid:
            return None  # the controller of the TrainJob shows it
        if runtime is None:
            return None
        found, _ = declared(annotations_of(job), annotations_of(runtime), self._allowed)
        has_policy = runtime.spec_or_empty.template_or_empty.spec_or_empty.failure_policy is not None
        found = replace(found, is_trial=ANNOTATION_TRIAL in annotations_of(job))
        return found if found.is_gang and not has_policy else None

    async def known(self, job: TrainJob) -> KnownAttempts:
        """What is known of the job's attempts; the record is read once. Raises KubernetesError."""
        key, uid = Key(job.namespace, job.name), uid_of(job)
        known = self._records.find(key, uid, KnownAttempts)
        if known is not None:
            return known
        found = KnownAttempts()
        if self._may_have_record(job):
            data = await read_record(self._client, job)
            found.summary = summary_of(data) or Summary()
            found.evidence = {key: text for key, text in data.items() if key.endswith(HANG_KEY)}
        if had_pods(job):
            found.begun = found.summary.judged + 1
        # Another reconcile may have read it meanwhile.
        return self._records.of(key, uid).part(KnownAttempts, lambda: found)

    def glance(self, job: TrainJob) -> Glance | None:
        """What the cache shows of the job now; None: it has no JobSet."""
        jobset = jobset_of_job(self._cache, job)
        if jobset is None:
            return None
        pods = pods_of(self._cache, job)
        return Glance(job=job, jobset=jobset, pods=pods, now=self._now(), report=self._newest(job))

    async def decision(self, job: TrainJob) -> RecoveryDecision:
        """What the record says of the end of a job; nothing if the job does not recover. Raises KubernetesError."""
        wanted = await self.wanted(job)
        if wanted is None:
            return RecoveryDecision()
        known = await self.known(job)
        found = known.summary
        known.retries_left = retries_left(found.counts, wanted)
        if found.end_reason:
            return RecoveryDecision(reason=found.end_reason, message=found.end_message)
        jobset = jobset_of_job(self._cache, job)
        held = held_for(found, self._now()) or None
        if jobset is None:
            return RecoveryDecision(replaces_jobset=bool(found.replace), requeue_after=held)
        if found.replace == uid_of(jobset):
            return RecoveryDecision(ignore_failure=True, replaces_jobset=True, requeue_after=held)
        glance = Glance(job=job, jobset=jobset, pods=(), now=self._now())
        since = glance.failed_since
        if since is None or (found.jobset == uid_of(jobset) and found.judged >= glance.ended):
            return RecoveryDecision(requeue_after=held)
        # Without a verdict, that of Kubernetes counts.
        left = VERDICT_SECONDS + 5.0 - (self._now() - since).total_seconds()
        return RecoveryDecision(ignore_failure=left > 0, requeue_after=max(left, 1.0))

    def facts_of(self, job: TrainJob) -> RecoveryFacts | None:
        """What the next JobSet or the next resume begins with; None: the job is not known to recover."""
        known = self._records.find(Key(job.namespace, job.name), uid_of(job), KnownAttempts)
        if known is None:
            return None
        found, jobset = known.summary, jobset_of_job(self._cache, job)
        is_held = held_for(found, self._now()) > 0 and not self._has_begun(job, jobset, found)
        is_held = bool(found.hang) or is_held or self._is_partial(known, job, jobset)
        return replace(self._next(known, job, jobset), held=is_held)

    def _next(self, known: KnownAttempts, job: TrainJob, jobset: JobSet | None) -> RecoveryFacts:
        """Without what holds it back."""
        found = known.summary
        if jobset is not None and deletion_timestamp_of(jobset) is None:
            glance = Glance(job=job, jobset=jobset, pods=(), now=self._now())
            policy = jobset.spec_or_empty.failure_policy
            left = policy.max_restarts if policy is not None else None
            is_suspended = bool(jobset.spec_or_empty.suspend)
            if is_suspended and found.jobset == uid_of(jobset):
                base = max(glance.base, found.judged - glance.restarts)
            else:
                base = glance.base
            nodes = tuple(filter(None, glance.avoided.split(",")))
            return RecoveryFacts(attempts=base, retries=left, avoided_nodes=nodes)
        # A JobSet that somebody has deleted takes its attempt along.
        begun = found.judged if found.replace else max(found.judged, known.begun)
        avoided = tuple(still_avoided(found.avoided, self._now()))
        left = known.retries_left if found.judged else None
        return RecoveryFacts(attempts=begun, retries=left, avoided_nodes=avoided)

    def _is_partial(self, known: KnownAttempts, job: TrainJob, jobset: JobSet | None) -> bool:
        """Whether the JobSet must not be resumed, since it is about to give way to one that runs all ranks."""
        if jobset is None or not jobset.spec_or_empty.suspend:
            return False
        try:
            glance = Glance(job=job, jobset=jobset, pods=pods_of(self._cache, job), now=self._now())
        except CacheError:
            return False  # the first list of pods has not arrived
        return is_partial(known, glance)

    def _has_begun(self, job: TrainJob, jobset: JobSet | None, found: Summary) -> bool:
        """Whether pods of the next attempt run already, so that it is not held back."""
        if jobset is None or jobset.spec_or_empty.suspend:
            return False
        try:
            pods = pods_of(self._cache, job)
        except CacheError:
            return True  # the first list of pods has not arrived, so they may run
        return any(
            attempt_of(pod) >= found.judged and (pod.get("status") or {}).get("phase") == "Running" for pod in pods
        )

    def _may_have_record(self, job: TrainJob) -> bool:
        """Whether there is something to read; a job without one costs no request."""
        try:
            return self._cache.get(RECORDS, name_of_record(job.name), job.namespace) is not None
        except CacheError:
            return True  # the first list has not arrived
