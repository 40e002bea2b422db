# SPDX-License-Identifier: Apache-2.0
"""What a JobSet's status says about its TrainJob: whether it is over, and how its jobs are doing."""

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1 import JobStatus, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED

_TERMINAL = {"Completed": CONDITION_COMPLETE, "Failed": CONDITION_FAILED}
"""JobSet conditions that end a TrainJob, and their names there."""


def status_from(job: TrainJob, jobset: JobSet) -> TrainJobStatus:
    """The TrainJob's status with what the JobSet says; everything else of it stays."""
    status = job.status.deepcopy() if job.status is not None else TrainJobStatus()
    observed = jobset.status
    for condition in (observed.conditions if observed is not None else None) or ():
        if condition.type in _TERMINAL and condition.status == "True":
            status.conditions = _with(status.conditions or [], _renamed(condition))
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


def _renamed(condition: Condition) -> Condition:
    renamed = condition.deepcopy()
    renamed.type = _TERMINAL[condition.type]
    return renamed


def _with(conditions: list[Condition], wanted: Condition) -> list[Condition]:
    """The conditions with `wanted` in place of the one of its type; the time moves only with the status."""
    result = list(conditions)
    for index, current in enumerate(result):
        if current.type == wanted.type:
            if current.status == wanted.status:
                wanted.last_transition_time = current.last_transition_time
            result[index] = wanted
            return result
    return [*result, wanted]
