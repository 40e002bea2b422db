# SPDX-License-Identifier: Apache-2.0
"""What the status of a TrainJob says of its pods and its end."""

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.api.trainer.v1alpha1.models import TrainJob, TrainJobStatus


def had_pods(job: TrainJob) -> bool:
    """Whether the status shows that pods of the job ran."""
    jobs = job.status_or_empty.jobs_status or ()
    return any(one.active or one.ready or one.succeeded or one.failed for one in jobs)


def is_finished(job: TrainJob) -> bool:
    """Whether the job is Complete or Failed; nothing is built or applied for it any more."""
    return job.status is not None and is_over(job.status)


def is_over(status: TrainJobStatus) -> bool:
    return any(map(is_end, status.conditions or ()))


def is_end(condition: Condition) -> bool:
    return condition.status == "True" and condition.type in (CONDITION_COMPLETE, CONDITION_FAILED)
