# SPDX-License-Identifier: Apache-2.0
"""What a training reports of itself, in lines between those of its ranks."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from trainwright.api.objects import Document, dig
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.progress import text
from trainwright.controller.cli.progress.history import History
from trainwright.controller.cli.progress.view import observe, view_of

QUIET = timedelta(minutes=1)
"""A report with the percentage of the last line is told when that line is so old."""


class ReportLines:
    """The reports of one job."""

    def __init__(self, now: Callable[[], datetime] = wall_clock) -> None:
        self._now = now
        self._history = History()
        self._reported: tuple[int | None, bool] | None = None
        self._told_at: datetime | None = None

    def line(self, document: Document) -> str:
        """What is new in the job: percentage, time to go, step and loss. Empty: nothing that is worth a line."""
        if not dig(document, "status.trainerStatus"):
            return ""
        job = msgspec.convert(document, TrainJob)
        if not observe(job, self._history):
            return ""
        now = self._now()
        view = view_of(job, self._history, now)
        reported = (view.percentage, view.at_end)
        if self._told_at is not None and reported == self._reported and now - self._told_at < QUIET:
            return ""
        self._reported, self._told_at = reported, now
        is_told = view.remaining is not None and not view.remaining.late
        left = f"{text.remaining(view)} to go" if is_told else ""
        loss = f"{text.printable(view.loss)} {text.loss(view)}" if view.loss is not None else ""
        percent = text.AT_END if view.at_end else text.percent(view) if view.percentage is not None else ""
        return ", ".join(part for part in (percent, left, text.steps(view), loss) if part)
