# SPDX-License-Identifier: Apache-2.0
"""Remembers what the objects of a job were built from, so that an unchanged job is not built again.

Most events of a job are a new status, its own or that of its JobSet. A build reads no status (the contract of plugins
says so), so the same metadata and specs give the same objects. Objects whose own metadata and spec are unchanged need
no comparison either.

Caveat: an object of a kind without generations counts as changed with every new version, which costs one build.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import (
    AnyObject,
    annotations_of,
    deletion_timestamp_of,
    finalizers_of,
    generation_of,
    labels_of,
    owners_of,
    resource_version_of,
    uid_of,
)
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import document_digest
from trainwright.plugins.contract import ClusterFacts, Component, Reference, Unreadable

Mark: TypeAlias = tuple[object, ...]
"""What tells of an object whether it is unchanged. It shares metadata of objects in the cache, which nobody changes."""


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
    made_once: bool = False
    """Whether this process has made or found all objects of the job."""

    def was_refused(self, component: Component) -> bool:
        """Whether the API server refused this very document and would do so again."""
        return self.refused.get(component.reference) == document_digest(component.document)

    def remember_refusal(self, component: Component) -> None:
        """Note that the document was refused and its fallback was applied."""
        self.refused[component.reference] = document_digest(component.document)


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
    return _marks(known) if len(known) == len(facts.objects) else None


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
