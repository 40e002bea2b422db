# SPDX-License-Identifier: Apache-2.0
"""The TrainJob controller: from a key to applied objects and a written status (hops 3 to 7).

A reconcile goes the same way whatever woke it: resolve the runtime, let the pipeline shape the objects, apply those
that differ, report what is observed. It knows no kind of object but TrainJobs and runtimes; which others exist, and
what their state means, is the plugins' to say.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED, MANAGED_BY_TRAINER
from trainwright.controller.runtime import Done, EventRecorder, Group, Key, Manager, Result, RetryAfter
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotControlled, NotFound
from trainwright.controller.runtime.objects import Document, controller_of, deletion_timestamp_of, uid_of
from trainwright.controller.runtime.rights import WATCH, Rule
from trainwright.controller.trainer.deadline import is_exceeded, seconds_left
from trainwright.controller.trainer.kinds import WatchedKinds
from trainwright.controller.trainer.obstacles import Obstacle, Obstacles, Reason
from trainwright.controller.trainer.runtimes import RUNTIMES, Runtime, RuntimeMissing, Runtimes, RuntimeUnsupported
from trainwright.controller.trainer.snapshot import SnapshotInvalid, Snapshots
from trainwright.controller.trainer.status import (
    is_finished,
    is_over,
    status_patch,
    wanted_status,
    with_deadline_exceeded,
)
from trainwright.plugins.contract import Component, PipelineError, Reference
from trainwright.plugins.pipeline import Pipeline

log = logging.getLogger(__name__)

NAME = "trainjob_controller"
WORKERS = 16
REPORTER = "trainer-trainjob-controller"
"""Reporting controller of the events."""
ACTION = "Reconciling"
NOTE_LIMIT = 950


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
            now: the wall clock, for deadlines and transition times.
        """
        self._client = manager.client
        self._cache = manager.cache
        self._applier = manager.applier
        self._pipeline = pipeline
        self._kinds = kinds
        self._now = now
        self._recorder = EventRecorder(self._client, REPORTER)
        manager.add(self._recorder, Group.SERVERS, "events")
        self._obstacles = Obstacles(asyncio.get_running_loop().time)
        builder = manager.controller(NAME).for_(TrainJob)
        for runtime in RUNTIMES:
            builder.watches(runtime, self._waiting_for)
        self._runtimes = runtimes
        self._snapshots = snapshots
        kinds.declare(builder, self._cache, self._runtimes)
        builder.reconcile(self.reconcile, workers=workers)
        # An index is added to a declared kind, and `reconcile` is what declares them.
        self._runtimes.index()

    async def reconcile(self, key: Key) -> Result:
        """Bring one TrainJob forward.

        Raises what is worth trying again: conflicts, an unreachable API server, objects that it refused.
        """
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None or not _is_ours(job):
            self._obstacles.gone(key)
            self._snapshots.forget(key)
            return Done()
        obstacle = None
        if not is_finished(job):
            try:
                await self._build(job)
            except tuple(_OBSTACLES) as error:
                obstacle = _obstacle(error)
        return await self._report(key, job, obstacle)

    async def _build(self, job: TrainJob) -> None:
        """Make the job's objects as they should be."""
        runtime = await self._snapshots.runtime_of(job)
        facts = await self._kinds.facts(self._client, self._cache, self._pipeline.references(job, runtime))
        for component in self._pipeline.render(job, runtime, facts).components:
            if component.generate is None:
                await self._applier.apply([component.document], owner=job)
            elif not self._kinds.exists(self._cache, component.key):
                await self._create(component.generate, component)

    async def _create(self, generate: Callable[[Document], Document], component: Component) -> None:
        # Key material takes a while to make, and nobody else need wait for it.
        document = await asyncio.to_thread(generate, component.document)
        try:
            await self._client.create(document, kind=self._kinds.resource(component.key))
        except AlreadyExists:
            # It is left as it is, whoever made it: what it holds may be in use.
            log.debug("%s %s exists already", component.key[1], component.key[3])

    async def _report(self, key: Key, job: TrainJob, obstacle: Obstacle | None) -> Result:
        """Write what is observed, end what has run too long, and say when to look again."""
        observed = None
        references: tuple[Reference, ...] = ()
        try:
            # Looked up after the objects were applied: own writes are seen at once.
            references = self._pipeline.status_references(job)
            facts = await self._kinds.facts(self._client, self._cache, references)
            observed = self._pipeline.status(job, facts)
        except PipelineError as error:
            obstacle = obstacle or _obstacle(error)
        if obstacle is not None and self._obstacles.begins(key, obstacle):
            note = f"the objects of this TrainJob could not be made: {obstacle.message}"
            self._recorder.event(job, "Warning", EVENT_RESOURCES_CREATION_FAILED, note[:NOTE_LIMIT], action=ACTION)
        wait = None if obstacle is None else self._obstacles.met(key, obstacle)
        shown = obstacle if wait is not None and wait <= 0 else None
        if shown is not None:
            log.warning("%s is blocked (%s): %s", key, shown.reason, shown.message)
        if obstacle is None:
            self._obstacles.gone(key)
        wanted = wanted_status(job, observed, shown, settled=obstacle is None, now=self._now)
        # By the status that is about to be written: a job that is resumed just now has all its time before it.
        left = None if is_over(wanted) else seconds_left(job, wanted, self._now())
        exceeded = is_exceeded(job) or (left is not None and left <= 0)
        await self._write(job, with_deadline_exceeded(wanted, now=self._now) if exceeded else wanted)
        if exceeded:
            await self._end(job, references)
            return Done()
        if obstacle is not None and not obstacle.final:
            raise obstacle.error
        waits = [seconds for seconds in (wait, left) if seconds]
        return RetryAfter(min(waits), reason="blocked or deadline") if waits else Done()

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

    async def _write(self, job: TrainJob, wanted: TrainJobStatus) -> None:
        patch = status_patch(job, wanted)
        if patch is not None:
            await self._client.patch(TrainJob, job.name, job.namespace, patch, type="merge", subresource="status")

    def _waiting_for(self, runtime: Runtime) -> list[Key]:
        """A runtime appeared or changed: only jobs that could not be resolved go on because of it."""
        waiting = self._obstacles.waiting(Reason.RUNTIME_MISSING)
        if not waiting:
            # Also while the first lists arrive, when TrainJobs cannot be looked up yet.
            return []
        keys = (Key(job.namespace, job.name) for job in self._runtimes.jobs_of(runtime))
        return [key for key in keys if key in waiting]


_OBSTACLES: dict[type[Exception], tuple[Reason, bool]] = {
    RuntimeMissing: (Reason.RUNTIME_MISSING, True),
    RuntimeUnsupported: (Reason.BUILD_FAILED, True),
    # Who took the name of the snapshot is not watched, so that its going wakes nobody.
    SnapshotInvalid: (Reason.SNAPSHOT_INVALID, False),
    PipelineError: (Reason.BUILD_FAILED, True),
    Invalid: (Reason.APPLY_REFUSED, False),
    Forbidden: (Reason.APPLY_REFUSED, False),
    BadRequest: (Reason.APPLY_REFUSED, False),
    NotControlled: (Reason.APPLY_REFUSED, False),
}
"""What is shown of an error, and whether trying again is useless. Others are tried again and not shown."""


def _obstacle(error: Exception) -> Obstacle:
    reason, final = next(found for kind, found in _OBSTACLES.items() if isinstance(error, kind))
    return Obstacle(reason, str(error), error, final=final)


def _is_ours(job: TrainJob) -> bool:
    """Whether this controller is to touch the job: another one may manage it, and one that is going is left alone."""
    managed_by = job.spec.managed_by if job.spec is not None else None
    return (managed_by or MANAGED_BY_TRAINER) == MANAGED_BY_TRAINER and deletion_timestamp_of(job) is None
