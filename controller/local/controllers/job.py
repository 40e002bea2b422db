# SPDX-License-Identifier: Apache-2.0
"""Reconciles Jobs: makes a plan and carries it out, until the plan is empty."""

from dataclasses import dataclass, field
from datetime import datetime

from trainwright.api.objects import (
    Document,
    Key,
    controller_of,
    deletion_timestamp_of,
    generated_name,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.rights import READ, Rule
from trainwright.api.times import LOOK_SECONDS, Now, wall_clock
from trainwright.controller.local.controllers.base import (
    EventReport,
    each,
    each_slowly,
    record,
    remove_finalizer,
    write_status,
)
from trainwright.controller.local.controllers.job_plan import SUCCESS_CRITERIA_MET, Creation, Plan, is_finished, plan
from trainwright.controller.local.controllers.job_pods import (
    MANAGED_BY_US,
    TRACKING,
    Pods,
    is_tracked,
    name_prefix,
    pod_of,
)
from trainwright.controller.local.controllers.job_policies import NO_FAILURES, Failures
from trainwright.controller.local.controllers.objects import JOB, POD
from trainwright.controller.runtime import (
    ApiError,
    Backoff,
    Done,
    Event,
    EventRecorder,
    Manager,
    NotFound,
    NotSynced,
    Result,
    RetryAfter,
    is_namespace_ending,
)

NAME = "job"
RETRY_SECONDS = 60.0
"""Upper bound of the delay between two attempts to create a pod that is refused."""
DELETED_SECONDS = 1.0
"""How long the garbage collector has for a Job that is being deleted, before its end is told. kube-controller-manager
looks at a Job so long after its pods have changed, and finds it gone: nobody is told that its killed pods failed."""
REPORTER = "job-controller"
"""Reporting controller of the events."""


@dataclass
class _Memory:
    """What is remembered of one Job between two reconciles."""

    uid: str
    failures: Failures = NO_FAILURES
    end: Document | None = None
    """The last `Plan.end`."""
    ended_by_us: set[str] = field(default_factory=set)
    last_since: datetime | None = None
    """Since when nothing is left but to write the end of the Job, which is being deleted."""


class JobController:
    """Reconciles Jobs. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(JOB, *READ),
        Rule.on(JOB, "patch", subresource="status"),
        Rule.on(JOB, "update", subresource="finalizers"),
        Rule.on(POD, *READ, "create", "delete", "patch"),
        *EventRecorder.RULES,
    )

    def __init__(self, manager: Manager, recorder: EventRecorder, *, now: Now = wall_clock) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            recorder: for events; its owner runs it.
            now: for deadlines, delays and transition times.
        """
        self._client, self._cache = manager.client, manager.cache
        self._recorder, self._now = recorder, now
        self._memories: dict[Key, _Memory] = {}
        manager.controller(NAME).for_(JOB).owns(POD).reconcile(self.reconcile)
        manager.controller(f"{NAME}-orphans").for_(POD, predicates=[_is_tracked]).watches(
            JOB, self._pods_of, predicates=[_has_ended]
        ).reconcile(self.release)

    # ------------------------------------------------------------------ Jobs

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one Job."""
        try:
            return await self._reconcile(key)
        except NotFound:
            return None  # deleted meanwhile; the event of the deletion brings what follows

    async def _reconcile(self, key: Key) -> Result:
        failures: list[Exception] = []
        while True:
            job = self._cache.get(JOB, key.name, key.namespace)
            if job is None or is_finished(job) or not _is_ours(job):
                self._memories.pop(key, None)
                return None
            memory = self._memories.get(key)
            if memory is None or memory.uid != uid_of(job):
                memory = self._memories[key] = _Memory(uid_of(job))
            pods = Pods(job, self._cache.controlled_by(POD, uid_of(job)), frozenset(memory.ended_by_us))
            step = plan(job, pods, memory.failures, self._now(), create=not failures, end=memory.end)
            if step.create:
                # What was created is counted, also if something failed.
                failures = await self._create(job, step.create)
                continue
            if (seconds := self._seconds_for_its_deletion(job, step, memory)) > 0:
                return RetryAfter(seconds)
            if await self._carry_out(job, step, memory):
                continue
            if remaining := [error for error in failures if not is_namespace_ending(error)]:
                # Each refusal is in an event already.
                return Backoff(str(remaining[0]), at_most=RETRY_SECONDS)
            return None if step.look_again is None else RetryAfter(min(step.look_again, LOOK_SECONDS))

    def _seconds_for_its_deletion(self, job: Document, step: Plan, memory: _Memory) -> float:
        """How long this step waits, because the Job is most likely gone then; 0: not at all."""
        if not step.is_last or deletion_timestamp_of(job) is None:
            memory.last_since = None
            return 0.0
        now = self._now()
        memory.last_since = memory.last_since or now
        return DELETED_SECONDS - (now - memory.last_since).total_seconds()

    async def _carry_out(self, job: Document, step: Plan, memory: _Memory) -> bool:
        """Carry out one step without creations. Returns whether the next one may be another."""
        memory.end = step.end
        if step.delete:
            await self._delete(job, step, memory)
            return True
        changed = step.status != status_of(job)
        written = await write_status(self._client, JOB, job, step.status) if changed else job
        memory.failures = step.failures
        record(self._recorder, written, step.reports)
        _raise(await each(self._release, step.finalizers))
        return changed or bool(step.finalizers)

    async def _delete(self, job: Document, step: Plan, memory: _Memory) -> None:
        async def delete(pod: Document) -> None:
            if step.uncounted and is_tracked(pod):
                await self._release(pod)
            if step.end is not None and step.end["type"] == SUCCESS_CRITERIA_MET:
                memory.ended_by_us.add(uid_of(pod))
            try:
                await self._client.delete(
                    POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), propagation="Background"
                )
            except NotFound:
                return
            except ApiError as error:
                self._report(job, "Warning", "FailedDelete", f"Error deleting: {error.message}")
                raise
            self._report(job, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

        _raise(await each(delete, step.delete))

    async def _create(self, job: Document, creations: list[Creation]) -> list[Exception]:
        """Create pods. Returns the errors."""

        async def create(creation: Creation) -> None:
            pod = pod_of(job, creation.index, creation.failures)
            pod["metadata"]["name"] = generated_name(name_prefix(job, creation.index))
            try:
                await self._client.create(pod, kind=POD)
            except ApiError as error:
                if not is_namespace_ending(error):
                    self._report(job, "Warning", "FailedCreate", f"Error creating: {error.message}")
                raise
            self._report(job, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

        return await each_slowly(create, creations)

    def _report(self, job: Document, type_: str, reason: str, note: str) -> None:
        record(self._recorder, job, [EventReport("Warning" if type_ == "Warning" else "Normal", reason, note)])

    async def _release(self, pod: Document) -> None:
        await remove_finalizer(self._client, POD, pod, TRACKING)

    # ------------------------------------------------------------------ pods without a Job

    async def release(self, key: Key) -> Result:
        """Remove the tracking finalizer from a pod that no Job will count any more."""
        pod = self._cache.get(POD, key.name, key.namespace)
        if pod is not None and is_tracked(pod) and await self._is_uncounted_for_good(pod):
            await self._release(pod)
        return Done()

    async def _is_uncounted_for_good(self, pod: Document) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return True
        if owner.kind != JOB.kind or owner.api_version != JOB.api_version:
            return False
        job = self._cache.get(JOB, owner.name, namespace_of(pod))
        if job is None or uid_of(job) != owner.uid:
            # The cache of Jobs may be behind that of pods.
            try:
                job = await self._client.get(JOB, owner.name, namespace_of(pod))
            except NotFound:
                return True
        return uid_of(job) != owner.uid or (is_finished(job) and _is_ours(job))

    def _pods_of(self, job: Document) -> list[Key]:
        try:
            pods = self._cache.controlled_by(POD, uid_of(job))
        except NotSynced:
            return []  # their first list brings all of them
        return [key_of(pod) for pod in pods if is_tracked(pod)]


def _is_ours(job: Document) -> bool:
    return (spec_of(job).get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US


def _is_tracked(event: Event[Document]) -> bool:
    return event.new is not None and is_tracked(event.new)


def _has_ended(event: Event[Document]) -> bool:
    return event.new is None or is_finished(event.new)


def _raise(errors: list[Exception]) -> None:
    """Raise the first error; the others are of the same kind, and all items are tried again."""
    if errors:
        raise errors[0]
