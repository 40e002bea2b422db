# SPDX-License-Identifier: Apache-2.0
"""Makes the objects of a job: the pipeline builds them, the applier writes those that differ. Deletes them at the end.

`controller` decides whether to make them. What they were built from is remembered, so that an unchanged job is not
built again: most events of a job are a new status, its own or that of its JobSet. A build reads no status (the contract
of plugins says so), so the same metadata and specs give the same objects. Objects whose own metadata and spec are
unchanged need no comparison either.

Caveat: an object of a kind without generations counts as changed with every new version, which costs one build.

Objects with generated content, such as keys, may be of a kind that no plugin watches: a watch of Secrets needs the
right to read all of them. The manager may only create these objects, so it does not see them. It tries to create them
whenever pods of the job are to start. Otherwise it relies on the object that runs the pods, which is made last.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import (
    AnyObject,
    annotations_of,
    deletion_timestamp_of,
    finalizers_of,
    generation_of,
    is_controlled_by,
    key_of,
    labels_of,
    owners_of,
    resource_version_of,
    uid_of,
)
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import AlreadyExists, Client, Conflict, Forbidden, NotFound
from trainwright.controller.runtime.apply.applier import Action, Applier, refuse_foreign
from trainwright.controller.runtime.apply.compare import document_digest
from trainwright.controller.runtime.errors import ApiError, Invalid
from trainwright.controller.trainer.build.kinds import CachedFacts, is_there, metadata_of
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.plugins.contract import ClusterFacts, Component, FactUnavailable, RecoveryFacts, Reference
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline, filled_in
from trainwright.plugins.registry.discovery import BUILT_IN

log = logging.getLogger(__name__)


Mark: TypeAlias = tuple[object, ...]
"""What tells of an object whether it is unchanged. It shares metadata of objects in the cache, which nobody changes."""

_TIME_TO_LIVE = "ttlSecondsAfterFinished"
SNAPSHOT_SECONDS = 1.0
"""How long a deleted snapshot stays away: whoever deletes it may first look that it is gone, as a test of Kubeflow
Trainer does."""
SETTLE_SECONDS = 3.0
"""How long a new job waits for an object that has the name of its own and that the manager cannot see. The object may
belong to a deleted job of that name, and then the garbage collector deletes it within about a second."""


class NameTaken(Conflict):
    """An object that the manager cannot see may go with a deleted job. Its end wakes nobody, so it is asked for again
    within a second, however often the job has failed at other objects of the deleted one."""


class EndUnknown(Exception):  # noqa: N818 - as the reason of the condition
    """The object that ran the training was deleted after its end, and no process saw how it ended."""

    def __init__(self, message: str, reference: Reference) -> None:
        super().__init__(message)
        self.reference = reference


@dataclass(frozen=True, slots=True)
class Built:
    """The inputs and the objects of one build, as marks."""

    runtime: Runtime
    snapshot: AnyObject | None
    """While the cache holds this very object, the job has the same runtime."""
    job: Mark
    facts: tuple[Mark | None, ...] | None
    """As the build left them. None: not known, because one of them could not be read, or because the build changed it
    and its plugin has not seen the result. Then the job is built once more."""
    references: tuple[Reference, ...]
    """The facts that the job's plugins need."""
    objects: tuple[Mark | None, ...]
    """Those that are not among the facts, which are compared anyway."""
    made: tuple[Reference, ...]

    @classmethod
    def of(
        cls,
        job: TrainJob,
        runtime: Runtime,
        facts: ClusterFacts,
        made: Mapping[Reference, AnyObject | None],
        settled: Iterable[Reference] = (),
        *,
        snapshot: AnyObject | None = None,
    ) -> "Built":
        """A build that succeeded. `settled`: see `Component.settled`.

        `made` has its objects as the cache held them or as the API server answered; None for an object that exists and
        that the cache does not hold, so that nothing shows when it goes. `snapshot` is the object of the cache that
        stands for the job's snapshot.
        """
        return cls(
            runtime=runtime,
            snapshot=snapshot,
            job=_mark(job),
            facts=_left_behind(facts, made, frozenset(settled)),
            references=tuple(facts.objects),
            objects=_marks(obj for reference, obj in made.items() if reference not in facts.objects),
            made=tuple(reference for reference in made if reference not in facts.objects),
        )

    def is_of(self, job: TrainJob) -> bool:
        """Whether the job is unchanged. Its runtime may have changed, if the snapshot has."""
        return self.job == _mark(job)

    def is_current(self, facts: ClusterFacts, find: Callable[[Reference], AnyObject | None]) -> bool:
        """Whether a new build would change nothing; `find` gives the current objects."""
        seen = _marks_of(facts)
        return seen is not None and self.facts == seen and self.objects == _marks(map(find, self.made))


@dataclass(slots=True)
class BuildMemory:
    built: Built | None = None
    refused: dict[Reference, bytes] = field(default_factory=dict)
    """Digests of the documents that the API server refused, so that their fallback was applied."""
    foreign: bool = False
    """Whether an object of somebody else has the name of one of the job's, in the last build that succeeded. The job
    uses it as it is. No event may show that it goes."""
    begun: bool = False
    """Whether this process has made or found the snapshot of the job's runtime."""
    there: set[Reference] = field(default_factory=set)
    """Objects that this process has made or found, also in half a build. If one goes, the job may have, too."""
    retaken: tuple[str, float] | None = None
    """After the deletion of the snapshot: the next one, as the runtime was then, and when it is due, on the clock of
    the event loop. A restart forgets it, and takes the runtime as it is then."""
    made_once: bool = False
    """Whether this process has made or found all objects of the job."""
    start: Mark | None = None
    """Of the job's pods, to which what `there` says of unseen objects belongs."""
    is_new: bool = False
    """Whether this process has begun the job, and has not made or found all of its objects yet."""
    taken_since: float | None = None
    """When a new job found the name of an unseen object in use, on a clock that never goes back, in seconds."""

    def snapshot_in(self, now: float) -> float:
        """Seconds until the next look at a deleted snapshot, which is due or overdue; 0: it is there."""
        left = self.retaken[1] - now if self.retaken is not None else 0.0
        return left if left > 0 or self.retaken is None else SNAPSHOT_SECONDS

    def was_refused(self, component: Component) -> bool:
        """Whether the API server refused this very document and would do so again."""
        return self.refused.get(component.reference) == document_digest(component.document)

    def remember_refusal(self, component: Component) -> None:
        self.refused[component.reference] = document_digest(component.document)


@dataclass(frozen=True, slots=True)
class JobObjects:
    client: Client
    applier: Applier
    pipeline: Pipeline
    facts: CachedFacts
    snapshots: Snapshots
    kept: Callable[[TrainJob, Reference, Exception], None]
    """Tells users that an object keeps its old values, since the API server refused to change them."""

    async def make(
        self, job: TrainJob, memory: BuildMemory, *, end_is_known: bool = False, recovery: RecoveryFacts | None = None
    ) -> None:
        """Make the job's objects, unless neither the inputs nor the objects have changed since the last build.

        `end_is_known`: if the object that runs the training is gone, another one follows, by the record of recovery.
        `recovery`: what is known of earlier attempts. Nothing is made while a deleted snapshot stays away: see
        `BuildMemory.snapshot_in`.

        Raises PipelineError, FactUnavailable, EndUnknown, KubernetesError; Conflict for a job that is gone.
        """
        snapshot = self.snapshots.taken(job)
        if snapshot is None and memory.begun:
            await self._check_exists(job)
            if await self._stays_away(job, memory):
                return
        last = memory.built if memory.built is not None and memory.built.is_of(job) else None
        if last is not None and snapshot is not None and last.snapshot is snapshot:
            runtime = last.runtime
        else:
            runtime = await self.snapshots.runtime_of(job, memory.retaken[0] if memory.retaken else "")
            last = last if last is not None and last.runtime is runtime else None
        memory.begun, memory.retaken = True, None
        run = self.pipeline.begin(job, runtime)
        references = last.references if last is not None else run.references()
        facts = replace(await self.facts.read(references), recovery=recovery)
        if last is not None and last.is_current(facts, self.facts.find):
            log.debug("%s: not built: neither its inputs nor its objects have changed", key_of(job))
            return
        memory.built = None
        try:
            rendering = run.render(facts)
        except PipelineError as error:
            if all(map(self.facts.kinds.watches, references)):
                raise
            # Retry: a fact that was read live is not watched, so its change starts no reconcile.
            raise FactUnavailable(str(error)) from error
        seen = [one for one in rendering.components if one.generate is None or self.facts.kinds.watches(one.reference)]
        for component in seen:
            # Check all kinds before the first write: a job is never half made because a kind is not served.
            self.facts.kinds.require(component)
        found = {component.reference: self.facts.find(component.reference) for component in seen}
        if not memory.made_once and not end_is_known and had_pods(job):
            await self._check_end(job, rendering.components, found)
        if any(found[reference] is None for reference in found.keys() & memory.there):
            await self._check_exists(job)
        memory.there.update(reference for reference, obj in found.items() if obj is not None)
        # What a deleted job of that name has left does not make this one older.
        own = [obj for obj in found.values() if obj is not None and _is_of(job, obj)]
        memory.is_new |= not memory.made_once and snapshot is None and not own
        made = await self._make_all(job, rendering.components, found, memory)
        settled = [
            component.reference
            for component in rendering.components
            if component.settled and run.is_asked_by(component.reference, component.plugin)
        ]
        memory.built = Built.of(job, runtime, facts, made, settled, snapshot=self.snapshots.holding(job, runtime))
        memory.foreign = None in made.values() or any(
            fact is not None and self.facts.kinds.owns(reference) and not _is_of(job, fact)
            for reference, fact in facts.objects.items()
        )
        memory.made_once, memory.is_new = True, False

    async def delete(
        self,
        job: TrainJob,
        references: Iterable[Reference],
        *,
        propagation: Literal["Background", "Foreground"] = "Background",
    ) -> None:
        """Delete the objects that the job controls. Their end starts another reconcile."""
        for reference in references:
            found = self.facts.find(reference)
            if found is None or not _is_of(job, found) or deletion_timestamp_of(found):
                continue
            log.info("%s: deleting %s", key_of(job), reference)
            with contextlib.suppress(NotFound):
                await self.client.delete(
                    reference.resource, reference.name, reference.namespace, uid=uid_of(found), propagation=propagation
                )

    async def _stays_away(self, job: TrainJob, memory: BuildMemory) -> bool:
        """Whether the deleted snapshot is not due yet. Raises as `Snapshots.current`."""
        loop = asyncio.get_running_loop()
        if memory.retaken is None:
            memory.retaken = (await self.snapshots.current(job), loop.time() + SNAPSHOT_SECONDS)
        return memory.retaken[1] > loop.time()

    async def _check_exists(self, job: TrainJob) -> None:
        """Check that the job is there before objects of it that have gone are made again.

        Raises Conflict for a job that is gone, since its event is on its way; KubernetesError.
        """
        if not await is_there(self.client, job):
            raise Conflict(f"TrainJob {job.name} was deleted a moment ago")

    async def _check_end(
        self, job: TrainJob, components: Sequence[Component], found: Mapping[Reference, AnyObject | None]
    ) -> None:
        """Check that the training did not end unseen, before what runs it is made again.

        A process that has just begun may hold newer TrainJobs than JobSets, as each kind has a watch of its own. So the
        API server is asked before a training is called over.

        Raises EndUnknown; Conflict for an object that the cache does not hold yet, since its event is on its way;
        KubernetesError.
        """
        try:
            check_end(job, components, self.pipeline.begin_status(job).references(), found)
        except EndUnknown as error:
            present = await metadata_of(self.client, error.reference)
            if present is None:
                raise
            if _is_of(job, present):
                raise Conflict(f"the watch has not shown {error.reference} yet") from None

    async def _make_all(
        self,
        job: TrainJob,
        components: Sequence[Component],
        found: Mapping[Reference, AnyObject | None],
        memory: BuildMemory,
    ) -> dict[Reference, AnyObject | None]:
        """Returns the objects that the cache can hold; `found` has their references."""
        self._begin(job, {one.reference for one in components} - found.keys(), memory)
        made: dict[Reference, AnyObject | None] = {}
        for component in components:
            reference = component.reference
            try:
                if reference in found:
                    made[reference] = await self._make_one(job, component, memory)
                elif reference not in memory.there:
                    await self._make_unseen(component, memory)
            except ApiError as error:
                if component.plugin not in BUILT_IN:
                    error.add_note(f"plugin {component.plugin}: ")
                raise
            if reference not in made or made[reference] is not None:
                memory.there.add(reference)
        memory.start = self._start(job)
        return made

    def _begin(self, job: TrainJob, unseen: set[Reference], memory: BuildMemory) -> None:
        """Forget which unseen objects are there if pods of the job are to start, since they need them.

        A process that finds what runs the pods knows that they are there: whoever made it had made them before.
        """
        start = self._start(job)
        if memory.start is None and any(start[1:]):
            memory.there |= unseen
        elif memory.start != start:
            memory.there -= unseen
        memory.start = start

    def _start(self, job: TrainJob) -> Mark:
        """Differs whenever pods of the job start: what runs them was made again, or the job was resumed."""
        kinds = self.facts.kinds
        told = [one for one in self.pipeline.begin_status(job).references() if kinds.owns(one)]
        running = [obj for obj in map(self.facts.find, told) if obj is not None and _is_of(job, obj)]
        return (bool(job.spec_or_empty.suspend), *map(uid_of, running))

    async def _make_one(self, job: TrainJob, component: Component, memory: BuildMemory) -> AnyObject | None:
        """Returns the object; None if it exists but the cache does not hold it."""
        if component.generate is None:
            return await self._apply(job, component, memory)
        found = self.facts.find(component.reference)
        if found is not None:
            # The cache holds those of TrainJobs only, perhaps of an earlier one of that name: its objects will go.
            refuse_foreign(found, component.resource.kind, uid_of(job), adopt=False)
            log.debug("%s: %s not applied: generated content stays as it was created", key_of(job), component.reference)
            return found
        return await self._create(component)

    async def _make_unseen(self, component: Component, memory: BuildMemory) -> None:
        """Raises NameTaken for a new job while the object may be one of a deleted job of that name."""
        if await self._create(component) is not None:
            return
        now = asyncio.get_running_loop().time()
        if memory.is_new and memory.taken_since is None:
            memory.taken_since = now
        if memory.taken_since is not None and now < memory.taken_since + SETTLE_SECONDS:
            raise NameTaken(f"{component.reference} exists, and may be deleted with an earlier job of that name")

    async def _apply(self, job: TrainJob, component: Component, memory: BuildMemory) -> AnyObject:
        """Apply the whole object. If the API server refuses it, apply the part that may still change."""
        if component.replaces and self.facts.find(component.reference) is not None:
            # It is seen here, so the job had not ended: the next build need not ask.
            memory.made_once = True
            # Foreground: it stays until its pods are gone, so that no host name is there twice.
            await self.delete(job, [component.reference], propagation="Foreground")
            raise Conflict(f"{component.reference} gives way to a new one")
        if component.fallback is not None and memory.was_refused(component):
            log.debug("%s: %s: only a part is applied: the rest was refused", key_of(job), component.reference)
            [applied] = await self.applier.apply([component.fallback], owner=job)
            return applied.obj
        try:
            [applied] = await self.applier.apply([component.document], owner=job)
        except (Invalid, Forbidden) as error:
            if component.fallback is None:
                raise
            [applied] = await self.applier.apply([component.fallback], owner=job)
            memory.remember_refusal(component)
            self.kept(job, component.reference, error)
        if applied.action is Action.UNCHANGED:
            log.debug("%s: %s not applied: it is as wanted", key_of(job), component.reference)
        return applied.obj

    async def _create(self, component: Component) -> AnyObject | None:
        """Create an object with generated content. None: it exists.

        An existing object is never changed, whoever made it, because its content may be in use.
        """
        # In a thread: making keys takes time, and other jobs must not wait for it.
        filled = await asyncio.to_thread(filled_in, component)
        try:
            created: AnyObject = await self.client.create(filled, kind=component.resource)
        except AlreadyExists:
            log.debug("%s exists already", component.reference)
            return None
        return created


def check_end(
    job: TrainJob,
    components: Iterable[Component],
    telling: Iterable[Reference],
    found: Mapping[Reference, AnyObject | None],
) -> None:
    """Raise EndUnknown if an object that told of the job's end was deleted by its own time to live.

    Without this, a manager that was away for longer than `ttlSecondsAfterFinished` would find a job without a JobSet,
    make it again, and so train a second time (https://github.com/kubernetes-sigs/jobset, KEP-407 for the time to live).
    Call it for the first build of a job in this process only: a process that has seen the object would have seen its
    end, so the object was then deleted by somebody and is made again. `telling` are the objects that the status is read
    from.
    """
    if job.spec_or_empty.suspend or not had_pods(job):
        return
    tells = set(telling)
    for component in components:
        seconds = component.document.get("spec", {}).get(_TIME_TO_LIVE)
        if component.reference in tells and seconds is not None and found.get(component.reference) is None:
            kind, name = component.resource.kind, component.reference.name
            raise EndUnknown(
                f"{kind} {name} deletes itself {seconds} s after its end ({_TIME_TO_LIVE}). It did so while no manager "
                "was running, so whether the training succeeded is not known. To run it again, delete this TrainJob "
                "and create it again",
                component.reference,
            )


def _is_of(job: TrainJob, obj: AnyObject | Unreadable) -> bool:
    """Whether the job controls the object, and no other owner or earlier job of that name does."""
    return not isinstance(obj, Unreadable) and is_controlled_by(obj, job)


def _left_behind(
    facts: ClusterFacts, made: Mapping[Reference, AnyObject | None], settled: frozenset[Reference]
) -> tuple[Mark | None, ...] | None:
    """The marks of the facts after the build; None if the next build may see something that this one did not.

    What the build saw must not stand for what it left behind: an object that it made and that is deleted again would
    look as it was seen, absent, and would never be made again.
    """
    created = {}
    for reference, obj in made.items():
        if obj is None:
            return None
        seen = facts.objects.get(reference)
        if reference not in facts.objects or isinstance(seen, Unreadable):
            continue
        if seen is None and reference in settled:
            created[reference] = obj
        elif seen is None or _mark(seen) != _mark(obj):
            return None
    return _marks_of(replace(facts, objects={**facts.objects, **created}) if created else facts)


def _marks_of(facts: ClusterFacts) -> tuple[Mark | None, ...] | None:
    """The marks of the facts; None if one of them could not be read, since it may have changed."""
    known = [fact for fact in facts.objects.values() if not isinstance(fact, Unreadable)]
    return (*_marks(known), (facts.recovery,)) if len(known) == len(facts.objects) else None


def _marks(objects: Iterable[AnyObject | None]) -> tuple[Mark | None, ...]:
    return tuple([None if obj is None else _mark(obj) for obj in objects])


def _mark(obj: AnyObject) -> Mark:
    """The object without its status, its spec by its generation."""
    metadata: ObjectMeta | None = None if isinstance(obj, dict) else getattr(obj, "metadata", None)
    if metadata is not None:
        return (
            metadata.uid,
            metadata.generation or metadata.resource_version,
            metadata.labels,
            metadata.annotations,
            metadata.finalizers,
            metadata.owner_references,
            metadata.deletion_timestamp,
        )
    return (
        uid_of(obj),
        generation_of(obj) or resource_version_of(obj),
        labels_of(obj),
        annotations_of(obj),
        finalizers_of(obj),
        owners_of(obj),
        deletion_timestamp_of(obj),
    )
