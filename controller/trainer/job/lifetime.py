# SPDX-License-Identifier: Apache-2.0
"""How long a TrainJob, its PodGroups and its Secrets are kept after the job's end.

The admin turns clean-up on and may set times for all jobs; annotations of a job take precedence. The time counts from
the transition to Complete or Failed, as Kubernetes counts `ttlSecondsAfterFinished` of a Job
(https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/).
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.api.objects import annotations_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.state import ended_at

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
