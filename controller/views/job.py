# SPDX-License-Identifier: Apache-2.0
"""One job as commands and pages show it, from the object, what was seen of it before, and the time."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trainwright import progress
from trainwright.api.conditions import find, find_true
from trainwright.api.messages import one_line
from trainwright.api.objects import Key, deletion_timestamp_of, labels_of, resource_version_of, uid_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_SUSPENDED,
    DATASET_INITIALIZER,
    KIND_CLUSTER_TRAINING_RUNTIME,
    MODEL_INITIALIZER,
)
from trainwright.controller.optimization.names import LABEL_JOB
from trainwright.controller.trainer.job.status import CONDITION_STALLED, EXPLAINING, entered, is_ours, state_of
from trainwright.controller.trainer.progress.curve import Sample, sample_of
from trainwright.controller.trainer.progress.report import is_at_end, percentage_of, remaining_seconds_of
from trainwright.controller.trainer.progress.ring import Ring
from trainwright.plugins.contract import JobState

SLOPE = timedelta(minutes=10)
"""The slope of the percentage is that of so long a time."""
LATE = 0.2
"""A job is late when its time to go has passed by this part of it."""
LATE_SECONDS = 10.0
"""But not by less than this."""
ORDER = (
    JobState.RUNNING,
    JobState.STALLED,
    JobState.RESTARTING,
    JobState.WAITING,
    JobState.STUCK,
    JobState.BLOCKED,
    JobState.PENDING,
    JobState.SUSPENDED,
    JobState.DELETING,
    JobState.FAILED,
    JobState.COMPLETE,
)
"""How lists are sorted."""
_TRAINING = frozenset({JobState.RUNNING, JobState.STALLED})
"""Of these there is a time to go."""


class History(Ring):
    """The reports of a job as far as they are known, for views: what is asked for again and again is remembered."""

    __slots__ = ("_left", "_means")

    def __init__(self) -> None:
        super().__init__()
        self._left: tuple[float | None] | None = None
        self._means: dict[tuple[str, int], list[float]] = {}

    def add(self, sample: Sample) -> bool:
        is_new = super().add(sample)
        if is_new:
            self._left = None
            self._means.clear()
        return is_new

    def begin_with(self, recorded: Ring) -> None:
        super().begin_with(recorded)
        self._left = None
        self._means.clear()

    def seconds_left(self) -> float | None:
        """Seconds from the last report to 100 %, by the slope of the last ten minutes.

        None if there is no percentage, or if it does not rise.
        """
        if self._left is None:
            self._left = (self._seconds_left(),)
        return self._left[0]

    def _seconds_left(self) -> float | None:
        last, rise = self.last, self.rise(SLOPE.total_seconds())
        if last is None or last.percentage is None or rise is None:
            return None
        percent, seconds = rise
        return (100 - last.percentage) * seconds / percent if percent > 0 and seconds > 0 else None

    def means(self, metric: str, most: int) -> list[float]:
        """The course of a metric in at most so many numbers. Not to be changed."""
        if (found := self._means.get((metric, most))) is None:
            found = self._means[metric, most] = means_of(self.curve(metric), most)
        return found


def means_of(values: Sequence[float], most: int) -> list[float]:
    """The course of the values in at most so many numbers: each is the mean of its part."""
    count = min(most, len(values))
    parts = [values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    if not all(map(math.isfinite, means)):
        # The sum of large numbers may not be finite.
        means = [sum(value / len(part) for value in part) for part in parts]
    return means


@dataclass(frozen=True, slots=True)
class Remaining:
    seconds: float
    """0 or more."""
    late: bool
    """The time that was told is over, and the job is not."""
    reported: bool
    """The training told it; else it comes from the slope of the percentage."""
    told: float
    """Seconds from the last report to the end, by that report or that slope."""

    @property
    def late_after(self) -> float:
        """How many seconds after the last report the job counts as late."""
        return self.told + max(LATE * self.told, LATE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    namespace: str
    name: str
    uid: str
    version: str
    state: JobState
    reason: str
    """Of the condition that the state comes from; empty if it comes from none."""
    message: str
    failure: list[str]
    """Why it failed, in two lines: the exception, then which rank and how. Empty: it has not, or that is not known."""
    created: datetime | None
    ended: datetime | None
    """When it became Complete or Failed."""
    deleting: bool
    percentage: int | None
    """Below 100 until the job has ended."""
    remaining: Remaining | None
    reported: datetime | None
    """When the training sent its last report, by its own clock."""
    age: float | None
    """Seconds since then, 0 or more."""
    metrics: Mapping[str, str]
    """As they were passed last."""
    extremes: Mapping[str, progress.Extremes]
    """Of metrics of which the training passed a lower or a higher value before, in the present attempt."""
    history: History
    attempt: int | None = None
    """1 for the first. None: not known."""
    at_end: bool = False
    """The rank that reports says that it is done, and the job has not ended."""
    stalled: str = ""
    """The reason of the condition `Stalled` while it is True."""
    stalled_message: str = ""
    waiting: str = ""
    """The reason of the condition that explains, `Stuck`, `Restarting` or `Waiting`, while one is True."""
    waiting_message: str = ""
    runtime_kind: str = KIND_CLUSTER_TRAINING_RUNTIME
    runtime: str = ""
    nodes: int | None = None
    """`spec.trainer.numNodes`. None: the runtime decides."""
    search: str = ""
    """The OptimizationJob whose trial it is; empty: none."""
    managed_by: str = ""
    """The controller that works on the job, if it is not Trainwright or Kubeflow Trainer."""

    @property
    def is_over(self) -> bool:
        return self.state.is_over

    @property
    def loss(self) -> str | None:
        """The name of the metric that is shown in lists: `loss`, or the first whose name ends so."""
        if "loss" in self.metrics:
            return "loss"
        return next((name for name in self.metrics if name.endswith("loss")), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobViews:
    views: Sequence[JobView]
    now: datetime
    changed: Collection[Key] = ()
    """Jobs that have changed since the last time."""
    deleted: Collection[Key] = ()
    trouble: str = ""
    """Why they may be old; empty: it is not."""
    stopped: Collection[Key] = ()
    """Searches of these jobs that somebody has stopped."""


def report_of(job: TrainJob) -> Sample | None:
    """The last report of a job; None if there is none."""
    status = job.status_or_empty.trainer_status
    return sample_of(status, metrics_of(job)) if status is not None else None


def observe(job: TrainJob, history: History) -> bool:
    """Take the report of a job into its history; returns whether it is new."""
    sample = report_of(job)
    return sample is not None and history.add(sample)


def view_of(
    job: TrainJob,
    history: History,
    now: datetime,
    *,
    attempt: int | None = None,
    failure: str = "",
    brief: Sequence[str] = (),
) -> JobView:
    """The job as of `now`. `failure`: a better sentence than that of its condition, if it failed; see `views.ended`.

    `brief`: the same in two lines.
    """
    found = state_of(job)
    # What initializers fetch, unless something is wrong, which says more.
    loading = loading_of(job) if found.state in (JobState.PENDING, JobState.RUNNING) else ""
    status = job.status_or_empty.trainer_status_or_empty
    reported = moment(status.last_updated_time)
    age = max(0.0, (now - reported).total_seconds()) if reported is not None else None
    spec = job.spec_or_empty
    conditions = job.status_or_empty.conditions
    # A job that is over stands still in no other way.
    open_ones = () if found.state.is_over else conditions
    stalled = find_true(open_ones, CONDITION_STALLED)
    waiting = next(filter(None, (find_true(open_ones, condition) for condition in EXPLAINING)), None)
    return JobView(
        namespace=job.namespace,
        name=job.name,
        uid=uid_of(job),
        version=resource_version_of(job),
        state=found.state,
        reason=found.reason,
        message=one_line((found.state is JobState.FAILED and failure) or loading or found.message),
        failure=list(brief) if found.state is JobState.FAILED else [],
        created=moment(job.metadata_or_empty.creation_timestamp),
        ended=entered(job, found.state) if found.state.is_over else None,
        deleting=deletion_timestamp_of(job) is not None,
        percentage=percentage_of(job),
        remaining=_remaining(job, history, age) if found.state in _TRAINING else None,
        reported=reported,
        age=age,
        metrics=metrics_of(job),
        extremes=extremes_of(job).run,
        history=history,
        attempt=attempt,
        at_end=is_at_end(job),
        stalled=stalled.reason if stalled is not None else "",
        stalled_message=stalled.message if stalled is not None else "",
        waiting=waiting.reason if waiting is not None else "",
        waiting_message=waiting.message if waiting is not None else "",
        runtime_kind=spec.runtime_ref.kind or KIND_CLUSTER_TRAINING_RUNTIME,
        runtime=spec.runtime_ref.name,
        nodes=spec.trainer_or_empty.num_nodes,
        search=labels_of(job).get(LABEL_JOB, ""),
        managed_by="" if is_ours(job) else spec.managed_by or "",
    )


def loading_of(job: TrainJob) -> str:
    """What initializers fetch at the moment: `loading model 62 %, 3 of 8 files`; empty if none runs and reports."""
    status = job.status
    if status is None or status.trainer_status is None:
        return ""
    ready = {one.name for one in status.jobs_status or () if one.ready > 0}
    told = {metric.name: metric.value for metric in status.trainer_status.metrics or ()}
    found = (
        _loading(noun, told, kind)
        for kind, noun, step in (("dataset", "data set", DATASET_INITIALIZER), ("model", "model", MODEL_INITIALIZER))
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


def _remaining(job: TrainJob, history: History, age: float | None) -> Remaining | None:
    if is_at_end(job) or _is_of_pods_before(job):
        return None
    told = remaining_seconds_of(job)
    seconds = float(told) if told is not None else history.seconds_left()
    if seconds is None or age is None:
        return None
    found = Remaining(max(0.0, seconds - age), late=False, reported=told is not None, told=seconds)
    late = age > found.late_after
    # A rank that is done tells 0, which says nothing of the others.
    return None if told == 0 and not late else replace(found, late=late)


def _is_of_pods_before(job: TrainJob) -> bool:
    """Whether the last report was sent before the job was resumed: the pods that run now have told nothing yet."""
    status = job.status_or_empty
    resumed = find(status.conditions, CONDITION_SUSPENDED)
    at = moment(resumed.last_transition_time) if resumed is not None else None
    reported = moment(status.trainer_status_or_empty.last_updated_time)
    return at is not None and reported is not None and reported < at


def metrics_of(job: TrainJob) -> dict[str, str]:
    """The metrics of the last report, as text for terminals and pages: the training may write anything."""
    return progress.extremes(_told(job)).plain


def extremes_of(job: TrainJob) -> progress.Extreme:
    """What the last report says of values that the training passed before."""
    return progress.extremes(_told(job))


def _told(job: TrainJob) -> dict[str, str]:
    metrics = job.status_or_empty.trainer_status_or_empty.metrics or ()
    return {one_line(metric.name): one_line(metric.value) for metric in metrics}


def sorted_views(views: list[JobView]) -> list[JobView]:
    """What trains first, then what waits, then what has ended; the newest of each first.

    The trials of a search stand together, where the first of them would stand.
    """

    def key(view: JobView) -> tuple[int, float, str, str]:
        return ORDER.index(view.state), -(view.created.timestamp() if view.created else 0.0), view.namespace, view.name

    found = sorted(views, key=key)
    first: dict[tuple[str, str], int] = {}
    for place, view in enumerate(found):
        first.setdefault((view.namespace, view.search or f"/{view.name}"), place)
    return sorted(found, key=lambda view: first[view.namespace, view.search or f"/{view.name}"])


def as_json(view: JobView) -> dict[str, Any]:
    """The job as data. Keys are added over time, never changed."""
    remaining = view.remaining
    return {
        "namespace": view.namespace,
        "name": view.name,
        "search": view.search or None,
        "state": str(view.state),
        "reason": view.reason,
        "message": view.message or None,
        "stalled": view.stalled or None,
        "waiting": view.waiting or None,
        "attempt": view.attempt,
        "progressPercentage": view.percentage,
        "remainingSeconds": round(remaining.seconds) or None if remaining is not None else None,
        "remainingSource": None if remaining is None else "report" if remaining.reported else "history",
        "late": remaining.late if remaining is not None else False,
        "lastUpdatedTime": format_time(view.reported) if view.reported is not None else None,
        "ageSeconds": round(view.age) if view.age is not None else None,
        "metrics": dict(view.metrics),
    }
