# SPDX-License-Identifier: Apache-2.0
"""Computes the status of a TrainJob from its JobSet: whether it has ended, and the counters of its jobs."""

from copy import copy

import msgspec

from trainwright.api.conditions import set_condition
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.trainer.v1alpha1 import JobStatus, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED

_TERMINAL = {"Completed": CONDITION_COMPLETE, "Failed": CONDITION_FAILED}
"""Conditions of a JobSet that end its TrainJob, and the TrainJob's conditions that they become."""


def status_from(job: TrainJob, jobset: JobSet) -> TrainJobStatus:
    """The status of the TrainJob, updated from the JobSet; other conditions stay."""
    status = copy(job.status) if job.status is not None else TrainJobStatus()
    observed = jobset.status
    for condition in (observed.conditions if observed is not None else None) or ():
        if condition.type in _TERMINAL and condition.status == "True":
            wanted = msgspec.structs.replace(condition, type=_TERMINAL[condition.type])
            status.conditions = set_condition(status.conditions, wanted, at=condition.last_transition_time)
    status.jobs_status = [
        JobStatus(
            name=entry.name,
            ready=entry.ready,
            succeeded=entry.succeeded,
            failed=entry.failed,
            active=entry.active,
            suspended=entry.suspended,
        )
        for entry in (observed.replicated_jobs_status if observed is not None else None) or ()
    ] or None
    return status
