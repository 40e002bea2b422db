# SPDX-License-Identifier: Apache-2.0
"""One job as commands and pages show it, from the object, what was seen of it before, and the time."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trainwright.api.conditions import find, find_true
from trainwright.api.messages import one_line
from trainwright.api.objects import Key, deletion_timestamp_of, resource_version_of, uid_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_SUSPENDED, KIND_CLUSTER_TRAINING_RUNTIME
from trainwright.controller.cli.progress.history import History
from trainwright.controller.trainer.job.state import CONDITION_STALLED, EXPLAINING, State, Word, entered, is_ours, shown
from trainwright.controller.trainer.job.status import is_at_end, loading_of, percentage_of, remaining_seconds_of

LATE = 0.2
"""A job is late when its time to go has passed by this part of it."""
LATE_SECONDS = 10.0
"""But not by less than this."""
COUNTERS = ("current_step", "total_steps", "current_epoch", "total_epochs")
"""Metrics that say how far the training is. They are no curves."""
ORDER = (
    Word.RUNNING,
    Word.STALLED,
    Word.RESTARTING,
    Word.WAITING,
    Word.STUCK,
    Word.BLOCKED,
    Word.PENDING,
    Word.SUSPENDED,
    Word.DELETING,
    Word.FAILED,
    Word.COMPLETE,
)
"""How lists are sorted."""
_TRAINING = frozenset({Word.RUNNING, Word.STALLED})
"""Of these there is a time to go."""


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
    state: Word
    reason: str
    """Of the condition that the state comes from; empty if it comes from none."""
    message: str
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


def observe(job: TrainJob, history: History) -> bool:
    """Take the report of a job into its history; returns whether it is new."""
    status = job.status_or_empty.trainer_status
    if status is not None and (at := moment(status.last_updated_time)) is not None:
        return history.add(at, status.progress_percentage, metrics_of(job))
    return False


def view_of(
    job: TrainJob, history: History, now: datetime, *, attempt: int | None = None, failure: str = ""
) -> JobView:
    """The job as of `now`. `failure`: a better sentence than that of its condition, if it failed; see `cli.ended`."""
    found = shown(job)
    # What initializers fetch, unless something is wrong, which says more.
    loading = loading_of(job) if found.word in (Word.PENDING, Word.RUNNING) else ""
    status = job.status_or_empty.trainer_status_or_empty
    reported = moment(status.last_updated_time)
    age = max(0.0, (now - reported).total_seconds()) if reported is not None else None
    spec = job.spec_or_empty
    conditions = job.status_or_empty.conditions
    stalled = find_true(conditions, CONDITION_STALLED)
    waiting = next(filter(None, (find_true(conditions, condition) for condition in EXPLAINING)), None)
    return JobView(
        namespace=job.namespace,
        name=job.name,
        uid=uid_of(job),
        version=resource_version_of(job),
        state=found.word,
        reason=found.reason,
        message=one_line((found.word is Word.FAILED and failure) or loading or found.message),
        created=moment(job.metadata_or_empty.creation_timestamp),
        ended=entered(job, State(found.word)) if found.word.is_over else None,
        deleting=deletion_timestamp_of(job) is not None,
        percentage=percentage_of(job),
        remaining=_remaining(job, history, age) if found.word in _TRAINING else None,
        reported=reported,
        age=age,
        metrics=metrics_of(job),
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
        managed_by="" if is_ours(job) else spec.managed_by or "",
    )


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
    metrics = job.status_or_empty.trainer_status_or_empty.metrics or ()
    return {one_line(metric.name): one_line(metric.value) for metric in metrics}


def sorted_views(views: list[JobView]) -> list[JobView]:
    """What trains first, then what waits, then what has ended; the newest of each first."""

    def key(view: JobView) -> tuple[int, float, str, str]:
        return ORDER.index(view.state), -(view.created.timestamp() if view.created else 0.0), view.namespace, view.name

    return sorted(views, key=key)


def as_json(view: JobView) -> dict[str, Any]:
    """The job as data. Keys are added over time, never changed."""
    remaining = view.remaining
    return {
        "namespace": view.namespace,
        "name": view.name,
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
