# SPDX-License-Identifier: Apache-2.0
"""Reconciles Jobs: makes a plan and carries it out, until the plan is empty; deletes them at the end of their time."""

from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.objects import (
    Document,
    Key,
    controller_of,
    deletion_timestamp_of,
    key_of,
    namespace_of,
    resource_version_of,
    spec_of,
    uid_of,
)
from trainwright.controller.local.controllers.base import (
    ControllerBase,
    Plan,
    PlannedWrite,
    PlanningController,
    released,
    seconds_to_live,
)
from trainwright.controller.local.controllers.job_plan import (
    COMPLETE,
    FAILED,
    SUCCESS_CRITERIA_MET,
    is_finished,
    plan,
)
from trainwright.controller.local.controllers.job_pods import NO_FAILURES, TRACKING, Failures, Pods, is_tracked
from trainwright.controller.local.controllers.objects import JOB, POD
from trainwright.controller.runtime import Backoff, Done, Event, Manager, NotFound, Result
from trainwright.controller.runtime.errors import NotSynced, is_namespace_ending

MANAGED_BY_US = "kubernetes.io/job-controller"
RETRY_SECONDS = 60.0
"""Upper bound of the delay between two attempts to create a pod that is refused."""


@dataclass
class _Memory:
    uid: str
    failures: Failures = NO_FAILURES
    end: Document | None = None
    """The last `JobPlan.end`."""
    ended_by_us: set[str] = field(default_factory=set)


class JobController(ControllerBase):
    """Reconciles Jobs, and releases pods that no Job will count."""

    REPORTER = "job-controller"

    def declare(self, manager: Manager) -> None:
        self._memories: dict[Key, _Memory] = {}
        manager.controller("job").for_(JOB).owns(POD).reconcile(self.reconcile)
        manager.controller("job-orphans").for_(POD, predicates=[_is_tracked]).watches(
            JOB, self._pods_of, predicates=[_has_ended]
        ).reconcile(self.release)

    async def reconcile(self, key: Key) -> Result:
        try:
            return await self._reconcile(key)
        except NotFound:
            return None  # deleted meanwhile; the event of the deletion brings what follows

    async def _reconcile(self, key: Key) -> Result:
        refusals: list[Exception] = []
        while True:
            job = self.cache.get(JOB, key.name, key.namespace)
            if job is None or is_finished(job) or not _is_ours(job):
                self._memories.pop(key, None)
                return None
            memory = self._memories.get(key)
            if memory is None or memory.uid != uid_of(job):
                memory = self._memories[key] = _Memory(uid_of(job))
            pods = Pods(job, self.cache.controlled_by(POD, uid_of(job)), frozenset(memory.ended_by_us))
            step = plan(job, pods, memory.failures, self.now(), create=not refusals, end=memory.end)
            if step.of("create"):
                # What was created is counted, also if something was refused.
                refusals = await self.write(step.writes, job)
                continue
            memory.end = step.end
            if step.end is not None and step.end["type"] == SUCCESS_CRITERIA_MET:
                memory.ended_by_us.update(map(uid_of, step.of("delete")))
            acted = await self.carry_out(step, JOB, job)
            if not step.writes:
                memory.failures = step.failures  # the status has been written
            await self.make(step.releases)
            if acted or step.releases:
                continue
            if remaining := [error for error in refusals if not is_namespace_ending(error)]:
                # Each refusal is in an event already.
                return Backoff(str(remaining[0]), at_most=RETRY_SECONDS)
            return step.result()

    # ------------------------------------------------------------------ pods without a Job

    async def release(self, key: Key) -> Result:
        """Remove the tracking finalizer from a pod that no Job will count any more."""
        pod = self.cache.get(POD, key.name, key.namespace)
        if pod is not None and is_tracked(pod) and await self._is_uncounted_for_good(pod):
            await self.make([released(POD, pod, TRACKING)])
        return Done()

    async def _is_uncounted_for_good(self, pod: Document) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return True
        if owner.kind != JOB.kind or owner.api_version != JOB.api_version:
            return False
        job = self.cache.get(JOB, owner.name, namespace_of(pod))
        if job is None or uid_of(job) != owner.uid:
            # The cache of Jobs may be behind that of pods.
            try:
                job = await self.client.get(JOB, owner.name, namespace_of(pod))
            except NotFound:
                return True
        return uid_of(job) != owner.uid or (is_finished(job) and _is_ours(job))

    def _pods_of(self, job: Document) -> list[Key]:
        try:
            pods = self.cache.controlled_by(POD, uid_of(job))
        except NotSynced:
            return []  # their first list brings all of them
        return [key_of(pod) for pod in pods if is_tracked(pod)]


def _is_ours(job: Document) -> bool:
    return (spec_of(job).get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US


def _is_tracked(event: Event[Document]) -> bool:
    return event.new is not None and is_tracked(event.new)


def _has_ended(event: Event[Document]) -> bool:
    return event.new is None or is_finished(event.new)


# ---------------------------------------------------------------------- time to live
#
# https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/


def plan_for_finished(job: Document, now: datetime) -> Plan:
    """Delete a Job when its time to live is over."""
    left = seconds_to_live(job, now, COMPLETE, FAILED)
    if left is None or deletion_timestamp_of(job) is not None:
        return Plan()
    if left > 0:
        return Plan(look_again=left)
    # With its version, because the time to live may just have been raised.
    options = {"propagation": "Foreground", "resource_version": resource_version_of(job)}
    return Plan(writes=[PlannedWrite(verb="delete", kind=JOB, obj=job, options=options)])


class FinishedJobs(PlanningController):
    NAME, KIND = "finished-jobs", JOB

    def plan(self, obj: Document) -> Plan:
        return plan_for_finished(obj, self.now())
