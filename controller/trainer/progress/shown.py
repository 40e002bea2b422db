# SPDX-License-Identifier: Apache-2.0
"""What a report says of the whole job. The wire keeps reports as they are; views and metrics ask here.

One rank reports, and its end is not that of the job: others may go on for hours, and nothing tells for how long.
"""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.silence import COMPLETE
from trainwright.controller.trainer.job.status import is_finished

ALMOST = 99
"""The most that is shown of a job that has not ended."""


def is_at_end(job: TrainJob) -> bool:
    """Whether the rank that reports says that it is done, and the job has not ended."""
    return (_reported(job) or 0) >= COMPLETE and not is_finished(job)


def percentage_of(job: TrainJob) -> int | None:
    """The percentage of the last report, below 100 until the job has ended."""
    return ALMOST if is_at_end(job) else _reported(job)


def remaining_seconds_of(job: TrainJob) -> int | None:
    """The time to go as of the last report; None: it told none, or only that its own rank is done."""
    status = job.status_or_empty.trainer_status
    return None if status is None or is_at_end(job) else status.estimated_remaining_seconds


def _reported(job: TrainJob) -> int | None:
    status = job.status_or_empty.trainer_status
    return status.progress_percentage if status is not None else None
