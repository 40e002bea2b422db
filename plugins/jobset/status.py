# SPDX-License-Identifier: Apache-2.0
"""What a JobSet's status says about its TrainJob: whether it is over, and how its jobs are doing."""

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import JobStatus, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.controller.runtime.conditions import set_condition

_TERMINAL = {"Completed": CONDITION_COMPLETE, "Failed": CONDITION_FAILED}
"""JobSet conditions that end a TrainJob, and their names there."""


def status_from(job: TrainJob, jobset: JobSet) -> TrainJobStatus:
    """The TrainJob's status with what the JobSet says; everything else of it stays."""
    status = job.status.deepcopy() if job.status is not None else TrainJobStatus()
    observed = jobset.status
    for condition in (observed.conditions if observed is not None else None) or ():
        if condition.type in _TERMINAL and condition.status == "True":
            status.conditions = _with(status.conditions, condition)
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


def _with(conditions: list[Condition] | None, observed: Condition) -> list[Condition]:
    """The conditions with the JobSet's under its name here; what changed with it, changed when it did in the JobSet."""
    wanted = msgspec.structs.replace(observed, type=_TERMINAL[observed.type])
    return set_condition(conditions, wanted, now=lambda: parse(observed.last_transition_time))
