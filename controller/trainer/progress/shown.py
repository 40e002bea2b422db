# SPDX-License-Identifier: Apache-2.0
"""What a report says of the whole job. The wire keeps reports as they are; views and metrics ask here.

One rank reports, and its end is not that of the job: others may go on for hours, and nothing tells for how long.
"""

from collections.abc import Mapping

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import DATASET_INITIALIZER, MODEL_INITIALIZER
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


def loading_of(job: TrainJob) -> str:
    """What initializers fetch at the moment: `loading model 62 %, 3 of 8 files`; empty if none runs and reports."""
    status = job.status
    if status is None or status.trainer_status is None:
        return ""
    ready = {one.name for one in status.jobs_status or () if one.ready > 0}
    told = {metric.name: metric.value for metric in status.trainer_status.metrics or ()}
    found = (
        _loading(noun, told, kind)
        for kind, noun, step in (
            ("dataset", "data set", DATASET_INITIALIZER),
            ("model", "model", MODEL_INITIALIZER),
        )
        if step in ready
    )
    return "; ".join(filter(None, found))


def _loading(noun: str, told: Mapping[str, str], kind: str) -> str:
    names = (f"{kind}_bytes", f"{kind}_bytes_total", f"{kind}_files", f"{kind}_files_total")
    texts = [told.get(name, "") for name in names]
    if not all(text.isdecimal() for text in texts):
        return ""
    here, size, files, count = map(int, texts)
    return f"loading {noun} {here * 100 // size if size else 100} %, {files} of {count} files"


def _reported(job: TrainJob) -> int | None:
    status = job.status_or_empty.trainer_status
    return status.progress_percentage if status is not None else None
