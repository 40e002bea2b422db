# SPDX-License-Identifier: Apache-2.0
"""How long a TrainJob, its PodGroups and its Secrets are kept after the job's end, and what deletes them.

The admin turns clean-up on and may set times for all jobs; annotations of a job take precedence. The time counts from
the transition to Complete or Failed, as Kubernetes counts `ttlSecondsAfterFinished` of a Job
(https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/).
"""

import contextlib
import datetime as dt
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import AnyObject, annotations_of, deletion_timestamp_of, name_of, uid_of
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Done, Event, Key, Kind, MetadataOnly, NotFound, Result, RetryAfter
from trainwright.controller.runtime.context import current_reconcile
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.trainer.build.kinds import of_a_trainjob
from trainwright.controller.trainer.job.decision import LONGEST_WAIT_SECONDS
from trainwright.controller.trainer.job.status import ended_at, is_ours, state_of

if TYPE_CHECKING:  # `render` reads the settings, and runs no manager
    from trainwright.controller.runtime import Manager

ANNOTATION_JOB = "trainwright.dev/ttl-seconds-after-finished"
"""Seconds after its end at which a TrainJob is deleted, with all that belongs to it; or `never`."""
ANNOTATION_OBJECTS = "trainwright.dev/objects-ttl-seconds-after-finished"
"""Seconds after the job's end at which its PodGroups and Secrets are deleted; or `never`."""
NEVER = "never"
LONGEST_SECONDS = 2**31 - 1
"""As the field of a Job: 68 years."""
_MOST_DIGITS = 100
"""More are not read: Python refuses numbers of thousands of digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds after the end of a job; None: it is kept."""

    job: int | None = None
    objects: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    job: bool = False
    objects: bool = False
    requeue_after: float | None = None
    """Seconds; None: nothing becomes due later."""


def lifetimes_of(job: TrainJob, default: Lifetimes) -> Lifetimes:
    """The times of the job: its annotations, else the defaults. A value that cannot be used counts as not set."""
    given = annotations_of(job)
    return Lifetimes(
        job=_seconds(given.get(ANNOTATION_JOB), default.job),
        objects=_seconds(given.get(ANNOTATION_OBJECTS), default.objects),
    )


def asked(job: TrainJob) -> Iterator[tuple[str, str]]:
    given = annotations_of(job)
    return ((name, given[name]) for name in (ANNOTATION_JOB, ANNOTATION_OBJECTS) if name in given)


def problems(job: TrainJob) -> Iterator[tuple[str, str]]:
    """The annotations whose values cannot be used: name and value."""
    return ((name, value) for name, value in asked(job) if not _is_usable(value))


def due(job: TrainJob, lifetimes: Lifetimes, now: dt.datetime) -> Due:
    ended = ended_at(job)
    if ended is None:
        return Due()
    since = (now - ended).total_seconds()
    left = {
        name: seconds - since
        for name, seconds in (("job", lifetimes.job), ("objects", lifetimes.objects))
        if seconds is not None
    }
    if left.get("job", 1.0) <= 0:
        return Due(job=True)
    waits = [seconds for seconds in left.values() if seconds > 0]
    return Due(objects=left.get("objects", 1.0) <= 0, requeue_after=min(waits) if waits else None)


def _is_usable(value: str) -> bool:
    if value == NEVER:
        return True
    return value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value) <= LONGEST_SECONDS


def _seconds(value: str | None, default: int | None) -> int | None:
    if value is None or not _is_usable(value):
        return default
    return None if value == NEVER else int(value)


log = logging.getLogger(__name__)

_GROUP = "PodGroup"
"""What a finished job has no use for, beside its Secrets. Its JobSet keeps the pods and their logs; its ConfigMaps hold
its runtime."""
_CLOCK = "clock"
"""The reason of a reconcile that a timer starts."""


class Cleanup:
    """Deletes TrainJobs, PodGroups and Secrets when they are due. Other objects go with the jobs that own them."""

    def __init__(
        self, manager: "Manager", kinds: Mapping[Resource, Kind], default: Lifetimes, *, secrets: bool
    ) -> None:
        """Declare the controller on the manager. `kinds`: those of a job's objects; `secrets`: plugins make Secrets."""
        owned = {resource: kind for resource, kind in kinds.items() if resource.kind in (_GROUP, Secret.RESOURCE.kind)}
        if secrets and Secret.RESOURCE not in owned:
            owned[Secret.RESOURCE] = MetadataOnly(Secret.RESOURCE)
            manager.cache.informer(owned[Secret.RESOURCE], transforms=(of_a_trainjob,))
        self._manager, self._owned, self._default = manager, owned, default
        builder = manager.controller("cleanup_controller", self.uses(owned, secrets=secrets))
        builder.for_(TrainJob, predicates=[_has_ended]).reconcile(self.reconcile)

    @staticmethod
    def uses(watched: Iterable[Resource], *, secrets: bool) -> Uses:
        """The kinds that it uses; `watched`: those that plugins watch."""
        groups = (resource for resource in watched if resource.kind == _GROUP)
        # To delete the job's own Secrets only, it must see whose they are.
        own = (Secret,) if secrets else ()
        return Uses(kind=TrainJob, watches=own, deletes=(TrainJob, *groups, *own))

    async def reconcile(self, key: Key) -> Result:
        manager = self._manager
        job = manager.cache.get(TrainJob, key.name, key.namespace)
        # The key was taken for a job of ours, and may by now be that of another one with its name.
        if job is None or deletion_timestamp_of(job) is not None or not is_ours(job):
            return Done()
        call = current_reconcile.get()
        for name, value in problems(job) if call is None or _CLOCK not in call.reasons else ():
            log.warning("%s: annotation %s has no effect: %r is no number of seconds", key, name, value)
        found = due(job, lifetimes_of(job, self._default), wall_clock())
        if found.job:
            log.info("%s: deleting the TrainJob, its time after the end is over", key)
            with contextlib.suppress(NotFound):
                uid = uid_of(job)
                await manager.client.delete(TrainJob, key.name, key.namespace, uid=uid, propagation="Background")
            return Done()
        if found.objects:
            await manager.cache.wait_synced(self._owned.values())
            for resource, kind in self._owned.items():
                for obj in manager.cache.controlled_by(kind, uid_of(job)):
                    await self._delete(resource, key, obj)
        if found.requeue_after is None:
            return Done()
        # The wall clock may jump, and a machine that was asleep wakes up with another time of day.
        return RetryAfter(min(found.requeue_after, LONGEST_WAIT_SECONDS), reason=_CLOCK)

    async def _delete(self, resource: Resource, key: Key, obj: AnyObject) -> None:
        if deletion_timestamp_of(obj) is not None:
            return
        log.info("%s: deleting %s %s, its time after the end is over", key, resource.kind, name_of(obj))
        with contextlib.suppress(NotFound):
            await self._manager.client.delete(resource, name_of(obj), key.namespace, uid=uid_of(obj))


def _has_ended(event: Event[AnyObject]) -> bool:
    return isinstance(event.new, TrainJob) and is_ours(event.new) and state_of(event.new).state.is_over
