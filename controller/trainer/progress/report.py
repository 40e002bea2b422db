# SPDX-License-Identifier: Apache-2.0
"""A report of progress, the rules that it has to keep, and what is remembered of the reports of one TrainJob.

What the schema of a TrainJob forbids is refused here, since a report is answered before it is written.
"""

import asyncio
import json
import math
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from trainwright.api import trainer
from trainwright.api.conditions import is_true
from trainwright.api.objects import Key
from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1 import Metric, TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.trainer.job.stall import COMPLETE

BURST = 3
"""Values of a TrainJob that are written at once, before `interval` applies."""
SAME_SECONDS = 60.0
"""Pause between two writes of values that differ in their time alone."""
FINISHED_SECONDS = 60.0
"""Shortest pause between two writes of a TrainJob that has ended."""
FLOOR_SECONDS = 60.0
FLOOR_INTERVALS = 3.0
"""A value is due at the latest after FLOOR_SECONDS, or so many intervals if that is longer."""
REPORTS_A_SECOND = 10.0
REPORTS_AT_ONCE = 50
"""What a TrainJob may send."""
PODS = 64
"""Pods of a TrainJob whose last report is remembered."""
OWN = 4
"""Own values that are remembered, to know them when the watch shows them."""
_ZERO_YEAR = 1
"""The year of Go's zero time, which stands for a missing one."""
_SHOWN = 80
INSTANT = 1e-6
"""Shorter waits are none: the clock has not enough digits for them."""


class ReportSource(StrEnum):
    PUSH = "push"
    """A request of the training process."""
    FILE = "file"
    FINAL = "final"
    """What a container left at its end."""


class ReportRefused(Exception):  # noqa: N818 - the answer that a client gets
    """A report that is not accepted. The text is the message; code and reason are those of Kubeflow Trainer."""

    code: ClassVar[int]
    reason: ClassVar[str]
    message: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)


class MalformedReport(ReportRefused):
    """It is not JSON, or a value has another type."""

    code, reason, message = 422, "Invalid", "Invalid payload"


class InvalidReport(ReportRefused):
    code, reason = 422, "Invalid"


class UnknownJob(ReportRefused):
    code, reason, message = 404, "NotFound", "Train job not found"


class TooManyReports(ReportRefused):
    retry_after = 5
    """Seconds: the pause of the clients between two reports."""
    code, reason = 429, "TooManyRequests"
    message = f"Too many reports of this TrainJob; report again in {retry_after} seconds"


@dataclass(slots=True)
class ProgressReport:
    """One checked report, from its arrival until it is written."""

    status: TrainerStatus
    """As it is stored: the time in UTC and whole seconds. Must not be changed."""
    source: ReportSource = ReportSource.PUSH
    pod: str = ""
    """Name of the pod that reported; empty: not known."""
    arrived: float = 0.0
    """When it was accepted, on a clock that never goes back."""

    @property
    def percentage(self) -> int | None:
        """None: not reported."""
        return self.status.progress_percentage

    @property
    def is_complete(self) -> bool:
        return self.percentage == COMPLETE

    @property
    def diverged(self) -> bool:
        return infinite_loss(self.status) is not None


def infinite_loss(status: TrainerStatus | None) -> Metric | None:
    """The first loss that is not finite: the metric `loss`, or one that ends with `_loss`."""
    for metric in (status.metrics if status is not None else None) or ():
        if (metric.name == "loss" or metric.name.endswith("_loss")) and not is_finite(metric.value):
            return metric
    return None


def is_finite(value: str) -> bool:
    """Whether a value is neither NaN nor infinite. Text that is not a number counts as finite."""
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True


def checked(
    key: Key, status: TrainerStatus, *, source: ReportSource = ReportSource.PUSH, pod: str = ""
) -> ProgressReport:
    """The report of a decoded value of the TrainJob `key`.

    Raises:
        MalformedReport: the time cannot be read.
        InvalidReport: the schema of a TrainJob does not allow it; the message names the field and the rule.
    """
    try:
        moment = parse(status.last_updated_time) if status.last_updated_time is not None else None
    except ValueError:
        raise MalformedReport from None
    problem = _problem(status)
    if not problem and (moment is None or moment.year == _ZERO_YEAR):
        problem = "lastUpdatedTime is needed"
    if problem or moment is None:
        raise InvalidReport(f"TrainJob {key.name} in namespace {key.namespace}: status.trainerStatus.{problem}")
    return ProgressReport(msgspec.structs.replace(status, last_updated_time=format_time(moment)), source, pod)


def same_content(one: TrainerStatus, other: TrainerStatus) -> bool:
    """Whether two values are equal but for their time."""
    return (
        one.progress_percentage == other.progress_percentage
        and one.estimated_remaining_seconds == other.estimated_remaining_seconds
        and (one.metrics or []) == (other.metrics or [])
    )


def is_newer(stored: TrainerStatus, mine: TrainerStatus) -> bool:
    """Whether a value that another replica stored is newer, by the clocks of the reporters, in whole seconds."""
    if stored.last_updated_time is None or mine.last_updated_time is None:
        return False
    at, own = parse(stored.last_updated_time), parse(mine.last_updated_time)
    # Within a second the higher percentage counts, so that two replicas do not take turns.
    return at > own or (at == own and (stored.progress_percentage or 0) > (mine.progress_percentage or 0))


# ---------------------------------------------------------------------- checking


@cache
def load_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the status and of a metric. Call it early, so that the first report does not wait for the disk."""
    schema = Path(trainer.__file__).parent / "v1alpha1" / "trainjob.schema.json"
    definitions = json.loads(schema.read_bytes())["$defs"]
    status, metric = (definitions[f"trainer.kubeflow.org.v1alpha1.{name}"] for name in ("TrainerStatus", "Metric"))
    return status["properties"], metric["properties"]


def _problem(status: TrainerStatus) -> str:
    """The first rule that the value breaks, with its field; empty if there is none."""
    rules, rules_of_metric = load_schema()
    for field_name, number in (
        ("progressPercentage", status.progress_percentage),
        ("estimatedRemainingSeconds", status.estimated_remaining_seconds),
    ):
        low, high = rules[field_name]["minimum"], rules[field_name]["maximum"]
        if number is not None and not low <= number <= high:
            return f"{field_name}: {number} must be from {low} to {high}"
    metrics, most = status.metrics or (), rules["metrics"]["maxItems"]
    if len(metrics) > most:
        return f"metrics: {len(metrics)} are too many; at most {most} can be stored"
    texts = [
        (name, rules_of_metric[name]["minLength"], rules_of_metric[name]["maxLength"]) for name in ("name", "value")
    ]
    for index, metric in enumerate(metrics):
        for field_name, low, high in texts:
            text = metric.name if field_name == "name" else metric.value
            if not low <= len(text) <= high:
                return (
                    f"metrics[{index}].{field_name}: {text[:_SHOWN]!r} has {len(text)} characters;"
                    f" it must have from {low} to {high}"
                )
    return ""


# ---------------------------------------------------------------------- the reports of one TrainJob


@dataclass(slots=True, eq=False)
class JobReports:
    """What is remembered of one TrainJob that reports, and when its newest value is due.

    All times are on a clock that never goes back, in seconds.
    """

    key: Key
    uid: str
    writes: TokenBucket
    inbound: TokenBucket
    """Of its requests."""
    pending: ProgressReport | None = None
    """The newest accepted value that is not written. A first 100 % stays until it is written."""
    behind: ProgressReport | None = None
    """A newer value that waits for the first 100 % to be written."""
    writing: ProgressReport | None = None
    """The value that is being sent."""
    waiting_since: float | None = None
    """When the first value was accepted after the last write; None: that write holds the newest one."""
    stored: TrainerStatus | None = None
    """What the API server holds, as far as known."""
    own: deque[TrainerStatus] = field(default_factory=lambda: deque(maxlen=OWN))
    last_write: float = float("-inf")
    not_before: float = float("-inf")
    """After a failure: when to try again."""
    failures: int = 0
    is_finished: bool = False
    is_complete: bool = False
    """Whether it ended with success."""
    end_is_written: bool = False
    """Whether a write began after it had ended: the first one then does not wait, since it has the last values."""
    has_diverged: bool = False
    """Whether the last value that was written has a loss that is not finite."""
    was_refused: bool = False
    """Whether a refusal of the API server was logged."""
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    """Reports that are answered when the value is stored."""
    pods: dict[str, float] = field(default_factory=dict)
    """When each pod reported last, in the order of their last reports."""
    again: set[str] = field(default_factory=set)
    """Those of them that reported more than once."""
    last_report: float = float("-inf")
    last_push: float | None = None
    """None: no report with this source."""

    def learn(self, job: TrainJob) -> None:
        self.is_finished = is_finished(job)
        self.is_complete = is_true(job.status_or_empty.conditions, CONDITION_COMPLETE)

    def came(self, report: ProgressReport) -> None:
        now, pod = report.arrived, report.pod
        self.last_report = now
        if report.source is ReportSource.PUSH:
            self.last_push = now
        if not pod:
            return
        if self.pods.pop(pod, None) is not None:
            self.again.add(pod)
        self.pods[pod] = now
        if len(self.pods) > PODS:
            oldest = next(iter(self.pods))
            del self.pods[oldest]
            self.again.discard(oldest)

    def is_urgent(self) -> bool:
        """Whether the pending value is the first with 100 %."""
        return self.pending is not None and self.pending.is_complete and not self._has_completed()

    def _has_completed(self) -> bool:
        return self.stored is not None and self.stored.progress_percentage == COMPLETE

    @property
    def newest(self) -> TrainerStatus | None:
        """The newest value that is known, stored or not."""
        taken = self.behind or self.pending or self.writing
        if taken is None or (self.stored is not None and is_newer(self.stored, taken.status)):
            return self.stored
        return taken.status

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written, or is being written."""
        return self.pending is None and self.writing is None

    @property
    def is_stuck(self) -> bool:
        """Whether its newest value could not be written, and still has to be; the status is older than the training."""
        return self.failures > 0 and not self.is_idle

    # ------------------------------------------------------------------ values

    def put(self, report: ProgressReport) -> bool:
        """Accept a value. Returns whether an older one is dropped for it."""
        if self.waiting_since is None:
            self.waiting_since = report.arrived
        if self.is_urgent() and not report.is_complete:
            replaced, self.behind = self.behind is not None, report
            return replaced
        replaced, self.pending, self.behind = self.pending is not None, report, None
        return replaced

    def drop(self) -> None:
        """Remove the pending value; the one that waits for it takes its place."""
        self.pending, self.behind = self.behind, None
        self.waiting_since = self.pending.arrived if self.pending is not None else None

    def put_back(self, report: ProgressReport, since: float | None) -> None:
        """Accept a value again that could not be written, unless a newer one came meanwhile."""
        self.waiting_since = since
        if self.pending is None:
            self.pending = report
        elif report.is_complete and not self.pending.is_complete and not self._has_completed():
            self.pending, self.behind = report, self.pending

    def lowers(self, report: ProgressReport) -> bool:
        """Whether a late report takes back progress of a TrainJob that ended with success."""
        last = self.pending or self.writing
        newest = last.status if last is not None else self.stored
        shown = newest.progress_percentage if newest is not None else None
        if not self.is_complete or shown is None:
            return False
        return shown == COMPLETE if report.percentage is None else report.percentage < shown

    def is_overtaken(self, report: ProgressReport, known: TrainerStatus | None) -> bool:
        """Whether another replica has stored a newer value since `known` was what the API server holds."""
        if self.stored is None or self.stored is known or self.stored in self.own:
            return False
        return is_newer(self.stored, report.status)

    def answer(self, error: ReportRefused | None) -> None:
        """Let the reports go on that wait for the value."""
        if self.is_urgent():
            return  # this is the outcome of an older value; they wait for 100 %, which is not written yet
        for waiter in self.waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self.waiters.clear()

    # ------------------------------------------------------------------ times

    def interval(self, interval: float) -> float:
        """Seconds between two writes, if those of other TrainJobs have `interval`."""
        return max(interval, FINISHED_SECONDS) if self.is_finished else interval

    def due(self, now: float, interval: float) -> float:
        """When the pending value is due; there must be one. `interval` is as in the method of this name."""
        report = self.pending
        assert report is not None
        if self.is_urgent() or (report.diverged and not self.has_diverged):
            at = now
        elif self.stored is not None and same_content(self.stored, report.status):
            at = self.last_write + SAME_SECONDS
        elif self.is_finished and (report.source is ReportSource.FINAL or not self.end_is_written):
            at = now
        else:
            self.writes.rate = 1.0 / self.interval(interval)
            at = now + self.writes.wait()
        if self.waiting_since is not None:
            at = min(at, self.waiting_since + max(FLOOR_SECONDS, FLOOR_INTERVALS * self.interval(interval)))
        return max(at, self.not_before)

    def wrote(self, now: float, interval: float) -> None:
        """A write began, by this process or by another."""
        self.last_write = now
        self.end_is_written = self.is_finished
        self.writes.rate = 1.0 / self.interval(interval)
        self.writes.take()


# ---------------------------------------------------------------------- what is shown of the last report
# One rank reports, and its end is not that of the job: others may go on for hours, and no report says for how long.

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
    return None if is_at_end(job) else job.status_or_empty.trainer_status_or_empty.estimated_remaining_seconds


def _reported(job: TrainJob) -> int | None:
    return job.status_or_empty.trainer_status_or_empty.progress_percentage
