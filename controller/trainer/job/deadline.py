# SPDX-License-Identifier: Apache-2.0
"""The active deadline of a TrainJob.

The time counts from the job's creation, or from its last resume; a suspended job has no deadline. A job that exceeds
its deadline is first marked Failed; then the objects that run it, such as its JobSet, are deleted. The deletion is
retried until they are gone. After a crash between the two steps, the mark tells the next process to delete.
"""

import datetime as dt

from trainwright.api.conditions import find, find_true
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED, CONDITION_SUSPENDED, REASON_DEADLINE_EXCEEDED

MESSAGE = "TrainJob exceeded its active deadline"


def seconds_left(job: TrainJob, status: TrainJobStatus, now: dt.datetime) -> float | None:
    """Seconds until the deadline; zero or less once it has passed; None if the job has no deadline now.

    `job` is not finished, `status` is about to be written.
    """
    spec = job.spec
    if spec is None or not spec.active_deadline_seconds or spec.suspend:
        return None
    started = _started(job, status)
    if started is None:
        return None
    return spec.active_deadline_seconds - (now - started).total_seconds()


def is_exceeded(job: TrainJob) -> bool:
    failed = find_true(job.status_or_empty.conditions, CONDITION_FAILED)
    return failed is not None and failed.reason == REASON_DEADLINE_EXCEEDED


def _started(job: TrainJob, status: TrainJobStatus) -> dt.datetime | None:
    resumed = find(status.conditions, CONDITION_SUSPENDED)
    if resumed is not None and resumed.status == "False":
        return parse(resumed.last_transition_time)
    created = job.metadata_or_empty.creation_timestamp
    return parse(created) if created is not None else None
