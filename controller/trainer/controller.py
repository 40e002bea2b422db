# SPDX-License-Identifier: Apache-2.0
"""The TrainJob controller: from a key to applied objects and a written status (hops 3 to 7).

A reconcile goes the same way whatever woke it: resolve the runtime, let the pipeline shape the objects, apply those
that differ, report what is observed. It knows no kind of object but TrainJobs and runtimes; which others exist, and
what their state means, is the plugins' to say.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable

from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED, MANAGED_BY_TRAINER
from trainwright.controller.runtime import Backoff, Done, EventRecorder, Group, Key, Manager, Result, RetryAfter
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.controller.sources import Trigger
from trainwright.controller.runtime.errors import AlreadyExists, Forbidden, Invalid, NotFound
from trainwright.controller.runtime.events.metrics import EventCollector
from trainwright.controller.runtime.objects import (
    AnyObject,
    Document,
    controller_of,
    deletion_timestamp_of,
    key_of,
    uid_of,
)
from trainwright.controller.runtime.rights import WATCH, Rule
from trainwright.controller.runtime.workqueue.limiters import Capped, ExponentialLimiter
from trainwright.controller.trainer.builds import Builds
from trainwright.controller.trainer.deadline import LONGEST_WAIT_SECONDS, is_exceeded, seconds_left
from trainwright.controller.trainer.kinds import WatchedKinds
from trainwright.controller.trainer.obstacles import Obstacle, Obstacles, Reason, obstacle_of
from trainwright.controller.trainer.runtimes import RUNTIMES, Runtime, Runtimes
from trainwright.controller.trainer.snapshot import Snapshots
from trainwright.controller.trainer.status import (
    Pending,
    is_finished,
    is_over,
    status_patch,
    wanted_status,
    with_deadline_exceeded,
)
from trainwright.plugins.contract import Component, FactUnavailable, PipelineError, Reference
from trainwright.plugins.pipeline import Pipeline

log = logging.getLogger(__name__)

NAME = "trainjob_controller"
WORKERS = 16
REPORTER = "trainer-trainjob-controller"
"""Reporting controller of the events."""
ACTION = "Reconciling"
NOTE_LIMIT = 950
CLOCK = "clock"
"""Why a job is looked at when nothing happened: a cause has lasted, a deadline, counters that waited."""
RETRY_SECONDS = 60.0
"""The longest time between two attempts at a job that is blocked: whoever mends the cause waits for it to show."""


class TrainJobController:
    """Declares its watches on a manager when it is made."""

    RULES = (
        Rule.on(TrainJob.RESOURCE, *WATCH),
        Rule.on(TrainJob.RESOURCE, "patch", subresource="status"),
        # Where OwnerReferencesPermissionEnforcement is on, for owner references that block the owner's deletion.
        Rule.on(TrainJob.RESOURCE, "update", subresource="finalizers"),
        *(Rule.on(runtime.RESOURCE, *WATCH) for runtime in RUNTIMES),
        *EventRecorder.RULES,
    )
    """What it needs beside the rights of the plugins and of its snapshots."""

    def __init__(
        self,
        manager: Manager,
        pipeline: Pipeline,
        kinds: WatchedKinds,
        runtimes: Runtimes,
        snapshots: Snapshots,
        *,
        workers: int = WORKERS,
        created_condition: bool = False,
        now: Now = wall_clock,
    ) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            pipeline: with the plugins.
            kinds: what the plugins watch, as far as the cluster serves it.
            runtimes: of the manager's cache.
            snapshots: of the runtimes.
            workers: TrainJobs at the same time.
            created_condition: whether to write the condition `Created`.
            now: the wall clock, for deadlines and transition times.
        """
        self._client = manager.client
        self._cache = manager.cache
        self._applier = manager.applier
        self._pipeline = pipeline
        self._kinds = kinds
        self._created_condition = created_condition
        self._now = now
        self._recorder = EventRecorder(self._client, REPORTER)
        manager.add(self._recorder, Group.SERVERS, "events")
        manager.metrics.registry.register(EventCollector(self._recorder.statistics))
        monotonic = asyncio.get_running_loop().time
        self._obstacles = Obstacles(monotonic)
        self._pending = Pending(monotonic)
        self._wake = Trigger(CLOCK)
        self._builds = Builds()
        self._refused: dict[Key, dict[tuple[str, str, str, str], Document]] = {}
        builder = manager.controller(NAME).for_(TrainJob).source(self._wake)
        for runtime in RUNTIMES:
            builder.watches(runtime, self._waiting_for)
        self._runtimes = runtimes
        self._snapshots = snapshots
        kinds.declare(builder, self._cache, self._runtimes)
        builder.reconcile(self.reconcile, workers=workers, limiter=Capped(ExponentialLimiter(), RETRY_SECONDS))
        # An index is added to a declared kind, and `reconcile` is what declares them.
        self._runtimes.index()

    async def reconcile(self, key: Key) -> Result:
        """Bring one TrainJob forward.

        Raises what is worth trying again and nobody's concern: conflicts, an unreachable API server.
        """
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None or not _is_ours(job):
            self._obstacles.gone(key)
            self._pending.over(key)
            self._refused.pop(key, None)
            self._builds.forget(key)
            self._snapshots.forget(key)
            return Done()
        try:
            return await self._advance(key, job)
        except Exception:
            # Whatever went wrong is tried again later and later; the deadline does not wait for that.
            left = seconds_left(job, job.status or TrainJobStatus(), self._now())
            if left is not None and left > 0:
                self._wake(key, after=min(left, LONGEST_WAIT_SECONDS), reason=CLOCK)
            raise

    async def _advance(self, key: Key, job: TrainJob) -> Result:
        """Build what is to be built, then report, whatever became of it."""
        failure = None
        if _is_built(job):
            try:
                await self._build(job)
            except Exception as error:
                failure = error
        return await self._report(key, job, failure)

    async def _build(self, job: TrainJob) -> None:
        """Make the job's objects as they should be."""
        runtime = await self._snapshots.runtime_of(job)
        last = self._builds.of(job, runtime)
        references = last.references if last is not None else self._pipeline.references(job, runtime)
        facts = await self._kinds.facts(self._client, self._cache, references)
        if last is not None and last.is_current(facts, functools.partial(self._kinds.find, self._cache)):
            return
        self._builds.forget(key_of(job))
        try:
            rendering = self._pipeline.render(job, runtime, facts)
        except PipelineError as error:
            if all(map(self._kinds.watches, references)):
                raise
            # What was read live wakes nobody when it changes.
            raise FactUnavailable(str(error)) from error
        # Whether each can be made is said before anything is.
        wanted = {self._kinds.reference(component.key): component for component in rendering.components}
        made: dict[Reference, AnyObject | None] = {}
        for reference, component in wanted.items():
            if component.generate is None:
                made[reference] = await self._apply(job, component)
            else:
                made[reference] = self._kinds.find(self._cache, reference)
                if made[reference] is None:
                    made[reference] = await self._create(component.generate, component)
        self._builds.keep(job, runtime, facts, made)

    async def _apply(self, job: TrainJob, component: Component) -> AnyObject:
        """Apply the whole object or, where that is refused, what may still change of it. Returns it as it is then."""
        refused = self._refused.get(key_of(job), {})
        if component.fallback is not None and refused.get(component.key) == component.document:
            [applied] = await self._applier.apply([component.fallback], owner=job)
            return applied.obj
        try:
            [applied] = await self._applier.apply([component.document], owner=job)
        except (Invalid, Forbidden) as error:
            if component.fallback is None:
                raise
            [applied] = await self._applier.apply([component.fallback], owner=job)
            # Once is enough: the same would be refused again, and the user has been told.
            self._refused[key_of(job)] = {**refused, component.key: component.document}
            _, kind, _, name = component.key
            self._warn(job, f"{kind} {name} keeps what cannot be changed any more: {error}")
        return applied.obj

    async def _create(self, generate: Callable[[Document], Document], component: Component) -> AnyObject | None:
        """Returns the object, or None if there is one already that the cache does not hold yet."""
        # Key material takes a while to make, and nobody else need wait for it.
        document = await asyncio.to_thread(generate, component.document)
        try:
            created: AnyObject = await self._client.create(document, kind=self._kinds.resource(component.key))
        except AlreadyExists:
            # It is left as it is, whoever made it: what it holds may be in use.
            log.debug("%s %s exists already", component.key[1], component.key[3])
            return None
        return created

    async def _report(self, key: Key, job: TrainJob, failure: Exception | None) -> Result:
        """Write what is observed, end what has run too long, and say when to look again.

        Raises the failure if it is not one to show.
        """
        observed = None
        references: tuple[Reference, ...] = ()
        try:
            # Looked up after the objects were applied: own writes are seen at once.
            references = self._pipeline.status_references(job)
            facts = await self._kinds.facts(self._client, self._cache, references)
            observed = self._pipeline.status(job, facts)
        except (PipelineError, FactUnavailable) as error:
            failure = failure or error
        obstacle = obstacle_of(failure) if failure is not None else None
        if failure is None:
            self._obstacles.gone(key)
        shown, wait = self._met(key, job, obstacle)
        applied = failure is None and _is_built(job)
        wanted = wanted_status(
            job,
            observed,
            shown,
            settled=failure is None,
            created=applied and self._created_condition,
            now=self._now,
        )
        # By the status that is about to be written: a job that is resumed just now has all its time before it.
        left = None if is_over(wanted) else seconds_left(job, wanted, self._now())
        exceeded = is_exceeded(job) or (left is not None and left <= 0)
        pending = await self._write(key, job, with_deadline_exceeded(wanted, now=self._now) if exceeded else wanted)
        if exceeded:
            await self._end(job, references)
            # Nothing stands in its way any more: it has no way.
            self._obstacles.gone(key)
            failure, left = None, None
        waits = [min(seconds, LONGEST_WAIT_SECONDS) for seconds in (wait, left, pending) if seconds]
        if failure is None or (obstacle is not None and obstacle.final):
            return RetryAfter(min(waits), reason=CLOCK) if waits else Done()
        if waits:
            self._wake(key, after=min(waits), reason=CLOCK)
        if obstacle is None:
            raise failure
        return Backoff(obstacle.reason)

    def _met(self, key: Key, job: TrainJob, obstacle: Obstacle | None) -> tuple[Obstacle | None, float]:
        """Tell of what stands in the way. Returns it if it is to be shown, and the seconds until it is."""
        if obstacle is None:
            return None, 0.0
        if self._obstacles.begins(key, obstacle):
            self._warn(job, f"the objects of this TrainJob could not be made: {obstacle.message}")
            log.warning(
                "%s: %s: %s",
                key,
                obstacle.reason,
                obstacle.message,
                exc_info=obstacle.error if obstacle.defect else None,
            )
        wait = self._obstacles.met(key, obstacle)
        return (None, wait) if wait > 0 else (obstacle, 0.0)

    def _warn(self, job: TrainJob, note: str) -> None:
        self._recorder.event(job, "Warning", EVENT_RESOURCES_CREATION_FAILED, note[:NOTE_LIMIT], action=ACTION)

    async def _end(self, job: TrainJob, references: Iterable[Reference]) -> None:
        """Delete what runs the job, which is what its status is read from. Its going wakes the job once more."""
        for reference in references:
            found = self._kinds.find(self._cache, reference)
            controller = controller_of(found) if found is not None else None
            if found is None or controller is None or controller.uid != uid_of(job) or deletion_timestamp_of(found):
                continue
            log.info("%s/%s exceeded its deadline: deleting %s", job.namespace, job.name, reference)
            with contextlib.suppress(NotFound):
                await self._client.delete(
                    reference.resource, reference.name, reference.namespace, uid=uid_of(found), propagation="Background"
                )

    async def _write(self, key: Key, job: TrainJob, wanted: TrainJobStatus) -> float:
        """Write the status, if it differs. Returns the seconds that changed counters have to wait for company."""
        patch = status_patch(job, wanted)
        wait = self._pending.wait(key, patch) if patch is not None else 0.0
        if not wait:
            if patch is not None:
                await self._client.patch(TrainJob, job.name, job.namespace, patch, type="merge", subresource="status")
            self._pending.over(key)
        return wait

    def _waiting_for(self, runtime: Runtime) -> list[Key]:
        """A runtime appeared or changed: only jobs that could not be resolved go on because of it."""
        waiting = self._obstacles.waiting(Reason.RUNTIME_MISSING)
        if not waiting:
            # Also while the first lists arrive, when TrainJobs cannot be looked up yet.
            return []
        keys = (Key(job.namespace, job.name) for job in self._runtimes.jobs_of(runtime))
        return [key for key in keys if key in waiting]


def _is_ours(job: TrainJob) -> bool:
    """Whether this controller is to touch the job: another one may manage it."""
    managed_by = job.spec.managed_by if job.spec is not None else None
    return (managed_by or MANAGED_BY_TRAINER) == MANAGED_BY_TRAINER


def _is_built(job: TrainJob) -> bool:
    """Whether its objects are kept: not when it is over, nor when it is going, and waits for them to go first."""
    return not is_finished(job) and deletion_timestamp_of(job) is None
