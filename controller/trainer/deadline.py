# SPDX-License-Identifier: Apache-2.0
"""The active deadline of a TrainJob.

The clock runs from the job's creation, or from when it was last resumed, and stands while it is suspended. What has to
happen then happens in steps that each survive a crash: the job is marked Failed, then what runs it is deleted, and that
is tried again until it is gone. After a restart the mark says what is left to do.
"""

import datetime as dt

from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED, CONDITION_SUSPENDED, REASON_DEADLINE_EXCEEDED
from trainwright.controller.runtime.conditions import find

MESSAGE = "TrainJob exceeded its active deadline"
LONGEST_WAIT_SECONDS = 3600.0
"""Then one looks again: the wall clock may have been set, and timers have limits."""


def seconds_left(job: TrainJob, status: TrainJobStatus, now: dt.datetime) -> float | None:
    """Seconds until the deadline, not above zero when it has passed; None when none is running.

    Args:
        job: a job that is not finished.
        status: its status as it is about to be.
        now: with its time zone.
    """
    spec = job.spec
    if spec is None or not spec.active_deadline_seconds or spec.suspend:
        return None
    started = _started(job, status)
    if started is None:
        return None
    return spec.active_deadline_seconds - (now - started).total_seconds()


def is_exceeded(job: TrainJob) -> bool:
    """Whether the job has been marked as beyond its deadline."""
    failed = find(job.status.conditions if job.status is not None else None, CONDITION_FAILED)
    return failed is not None and failed.status == "True" and failed.reason == REASON_DEADLINE_EXCEEDED


def _started(job: TrainJob, status: TrainJobStatus) -> dt.datetime | None:
    resumed = find(status.conditions, CONDITION_SUSPENDED)
    if resumed is not None and resumed.status == "False":
        return parse(resumed.last_transition_time)
    created = job.metadata.creation_timestamp if job.metadata is not None else None
    return parse(created) if created is not None else None
