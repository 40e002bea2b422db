# SPDX-License-Identifier: Apache-2.0
"""Remembers what the objects of each job were made from, so that they are made anew only when some of that has changed.

Most of what wakes a job is a new status: of its JobSet, or its own. A build looks at no status (the contract of the
plugins says so), so the same metadata and spec give the same objects, and those need no second comparison while their
own metadata and spec are as they were.

Caveat: an object of a kind without generations counts as changed with each of its versions, which costs one build.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Key
from trainwright.controller.runtime.apply.memory import digest
from trainwright.controller.runtime.objects import (
    AnyObject,
    annotations_of,
    deletion_timestamp_of,
    finalizers_of,
    generation_of,
    key_of,
    labels_of,
    owners_of,
    resource_version_of,
    uid_of,
)
from trainwright.controller.trainer.runtimes import Runtime
from trainwright.plugins.contract import ClusterFacts, Reference, Unreadable


@dataclass(frozen=True, slots=True)
class Build:
    """What one job's objects were made from, and how they were then."""

    runtime: Runtime
    job: bytes
    facts: bytes | None
    references: tuple[Reference, ...]
    """What the job's plugins must know of."""
    objects: bytes
    made: tuple[Reference, ...]

    def is_current(self, facts: ClusterFacts, find: Callable[[Reference], AnyObject | None]) -> bool:
        """Whether doing it again would change nothing; `find` gives the objects that there are now."""
        seen = _mark_of(facts)
        return seen is not None and self.facts == seen and self.objects == _mark(map(find, self.made))


class Builds:
    """The last build of each job that succeeded."""

    def __init__(self) -> None:
        self._builds: dict[Key, Build] = {}

    def of(self, job: TrainJob, runtime: Runtime) -> Build | None:
        """The last build, if it was from this runtime and of the job as it is now."""
        last = self._builds.get(key_of(job))
        return last if last is not None and last.runtime is runtime and last.job == _mark([job]) else None

    def keep(
        self, job: TrainJob, runtime: Runtime, facts: ClusterFacts, made: Mapping[Reference, AnyObject | None]
    ) -> None:
        """The job was built; `made` are its objects as they were compared, or answered to the write."""
        self._builds[key_of(job)] = Build(
            runtime=runtime,
            job=_mark([job]),
            facts=_mark_of(facts),
            references=tuple(facts.objects),
            objects=_mark(made.values()),
            made=tuple(made),
        )

    def forget(self, key: Key) -> None:
        """The job is gone, or its next build is about to begin."""
        self._builds.pop(key, None)


def _mark_of(facts: ClusterFacts) -> bytes | None:
    """None if one of them could not be read: it may be anything by now."""
    known = [fact for fact in facts.objects.values() if not isinstance(fact, Unreadable)]
    return _mark(known) if len(known) == len(facts.objects) else None


def _mark(objects: Iterable[AnyObject | None]) -> bytes:
    """Stands for everything of the objects but their status."""
    return digest([None if obj is None else _identity(obj) for obj in objects])


def _identity(obj: AnyObject) -> tuple[object, ...]:
    return (
        uid_of(obj),
        generation_of(obj) or resource_version_of(obj),
        labels_of(obj),
        annotations_of(obj),
        finalizers_of(obj),
        owners_of(obj),
        deletion_timestamp_of(obj),
    )
