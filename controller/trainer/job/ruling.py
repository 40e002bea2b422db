# SPDX-License-Identifier: Apache-2.0
"""What the record of recovery says of the end of a job, for those that write its status."""

from dataclasses import dataclass

from trainwright.api.conditions import find_true
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED

REASON_SAME_FAILURE = "SameFailure"
REASON_RESTARTS_EXHAUSTED = "RestartsExhausted"
REASON_HANG = "Hang"
REASON_CANNOT_RUN = "CannotRun"
END_REASONS = frozenset({REASON_SAME_FAILURE, REASON_RESTARTS_EXHAUSTED, REASON_HANG, REASON_CANNOT_RUN})
"""Reasons of the condition Failed of a job that the manager has ended, though Kubernetes would go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the record says of a job's end."""

    reason: str = ""
    """The job ends with this reason; empty: the record does not end it."""
    message: str = ""
    goes_on: bool = False
    """Whether the end that the JobSet shows is not the job's: it is not judged yet, or a new JobSet follows."""
    is_replaced: bool = False
    """Whether the JobSet is gone, or will go, by our own decision."""
    look_again: float | None = None
    """Seconds until that may change."""


def is_ended(job: TrainJob) -> bool:
    """Whether the job has been marked as ended by its record, so that what runs it is deleted."""
    failed = find_true(job.status_or_empty.conditions, CONDITION_FAILED)
    return failed is not None and failed.reason in END_REASONS
