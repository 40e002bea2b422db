# SPDX-License-Identifier: Apache-2.0
"""From the text that a training left to a checked report. `trainwright.progress.read` has the rules of the format."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import Metric, TrainerStatus
from trainwright.controller.trainer.progress.reading import Result
from trainwright.controller.trainer.progress.refusals import Refused
from trainwright.controller.trainer.progress.reports import Report, checked
from trainwright.progress import ReadError, read

STALE_INTERVALS = 10
"""A report that is older than so many intervals is stale."""

_RESULTS = {
    "empty": Result.EMPTY,
    "partial": Result.PARTIAL,
    "corrupt": Result.CORRUPT,
    "too large": Result.TOO_LARGE,
}


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What a text says."""

    result: Result
    report: Report | None = None
    """For OK and STALE."""
    failure: str | None = None
    """The message of a training that says that it has failed; None if it does not say so."""
    detail: str = ""


def interpret(key: Key, data: bytes, *, seen: datetime, now: datetime, interval: float) -> Interpreted:
    """Read a document. The longest ones can take a third of a second.

    Args:
        key: of the TrainJob, for messages.
        data: the text.
        seen: when this text was seen first, which is its time if it names none.
        now: the time of day.
        interval: seconds between two reads.
    """
    try:
        found = read(data)
    except ReadError as error:
        return Interpreted(_RESULTS[error.reason], detail=str(error))
    moment = found.time or seen
    status = TrainerStatus(
        progress_percentage=found.percentage,
        estimated_remaining_seconds=found.remaining_seconds,
        metrics=[Metric(name=name, value=value) for name, value in found.metrics.items()] or None,
        last_updated_time=moment.isoformat(),
    )
    try:
        report = checked(key, status)
    except Refused as error:
        return Interpreted(Result.CORRUPT, detail=str(error))
    stale = now - moment > timedelta(seconds=STALE_INTERVALS * interval)
    failure = (found.message or "") if found.state == "failed" else None
    return Interpreted(Result.STALE if stale else Result.OK, report, failure)
