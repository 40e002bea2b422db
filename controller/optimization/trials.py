# SPDX-License-Identifier: Apache-2.0
"""What is known of the trials of an OptimizationJob: read from its TrainJobs and from the record of earlier reads.

Pure functions. The record decides what has ended: once a trial has a state there, nothing changes it, whatever becomes
of its TrainJob.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from trainwright.api.conditions import find_true
from trainwright.api.messages import one_line, shortened
from trainwright.api.objects import annotations_of
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.controller.optimization.names import (
    ANNOTATION_PARAMETERS,
    ANNOTATION_PRUNED,
    ANNOTATION_PRUNER,
    number_of,
)

REPORT_SECONDS = 5
"""How long after its end the last report of a TrainJob may come. One of 100 % is the last."""
_POINTS = 20
"""Of the values that a trial had on its way, so many are kept; every second one goes when there are more."""
_STEPS = ("current_step", "step", "global_step", "current_epoch", "epoch")
"""Metrics that say how far a training is, the first that there is; without one it is the percentage."""
_MESSAGE = 300


class State(StrEnum):
    """The state of a trial."""

    RUNNING = "running"
    """Its TrainJob is not over. It may also wait in a queue."""
    COMPLETE = "complete"
    FAILED = "failed"
    PRUNED = "pruned"


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One trial, as the record holds it."""

    number: int
    state: State
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Empty: dropped from a record that was full."""
    value: float | None = None
    """Of the objective's metric: the last one of a trial that is complete or pruned, or completes without another."""
    reason: str = ""
    """Of a failure: TrainJobFailed, MetricMissing, MetricInvalid, or Deleted."""
    message: str = ""
    """Of a failure, as a sentence."""
    curve: tuple[tuple[int, float], ...] = ()
    """Step and value on its way; empty without a pruner."""

    @property
    def is_over(self) -> bool:
        return self.state is not State.RUNNING


Trials = dict[int, Trial]
"""By number, rising."""


def read(job: OptimizationJob, found: Iterable[TrainJob], record: Mapping[int, Trial], now: datetime) -> Trials:
    """All trials: those of the record, with what their TrainJobs say, and TrainJobs that it does not hold yet.

    A trial of the record without a TrainJob stays as it is there; see `gone`.
    """
    trials = dict(record)
    for train_job in found:
        number = number_of(job.name, train_job.name)
        if number is None:
            continue
        known = trials.get(number) or Trial(number=number, state=State.RUNNING)
        if not known.is_over:
            known = known if known.parameters else replace(known, parameters=parameters_of(train_job))
            trials[number] = _judged(job, train_job, known, now)
    return dict(sorted(trials.items()))


def gone(trials: Trials, found: Iterable[TrainJob], job: OptimizationJob) -> list[Trial]:
    """The trials that have not ended and have no TrainJob."""
    there = {number_of(job.name, one.name) for one in found}
    return [one for one in trials.values() if not one.is_over and one.number not in there]


def without_train_job(trial: Trial) -> Trial:
    """The trial, whose TrainJob was deleted: before its end, or while its last report was waited for."""
    if trial.value is not None:
        return replace(trial, state=State.COMPLETE)
    return replace(trial, state=State.FAILED, reason="Deleted", message="the TrainJob was deleted before its end")


def best_of(job: OptimizationJob, trials: Iterable[Trial]) -> Trial | None:
    """The complete trial with the best value, the first of those with the same."""
    complete = [one for one in trials if one.state is State.COMPLETE and one.value is not None]
    sign = -1 if job.spec.objectives[0].direction == "Maximize" else 1
    return min(complete, key=lambda one: (sign * (one.value or 0.0), one.number), default=None)


def late_report(found: Iterable[TrainJob], trials: Trials, job: OptimizationJob, now: datetime) -> float | None:
    """Seconds until a TrainJob that has ended is not waited for any more; None: there is none to wait for."""
    metric = job.spec.objectives[0].metric
    ended = (one for one in found if (number := number_of(job.name, one.name)) in trials and not trials[number].is_over)
    waits = [left for one in ended if (left := _report_is_due(one, now, metric)) is not None]
    return min(waits, default=None)


def parameters_of(train_job: TrainJob) -> dict[str, str]:
    """The parameters in its annotation; empty if that was edited into something else."""
    try:
        return msgspec.json.decode(annotations_of(train_job).get(ANNOTATION_PARAMETERS, ""), type=dict[str, str])
    except msgspec.DecodeError:
        return {}


# ---------------------------------------------------------------------- one TrainJob


def _judged(job: OptimizationJob, train_job: TrainJob, known: Trial, now: datetime) -> Trial:
    metric = job.spec.objectives[0].metric
    metrics = _metrics(train_job)
    trial = replace(known, value=None)
    if ANNOTATION_PRUNER in annotations_of(job):
        trial = _with_point(train_job, trial, metrics.get(metric))
    conditions = train_job.status_or_empty.conditions
    if (failed := find_true(conditions, CONDITION_FAILED)) is not None:
        message = shortened(one_line(failed.message or failed.reason), _MESSAGE)
        return replace(trial, state=State.FAILED, reason="TrainJobFailed", message=message)
    if find_true(conditions, CONDITION_COMPLETE) is None:
        pruned = annotations_of(train_job).get(ANNOTATION_PRUNED)
        return trial if pruned is None else replace(trial, state=State.PRUNED, value=_pruned_value(pruned))
    text = metrics.get(metric)
    if _report_is_due(train_job, now, metric) is not None:
        return replace(trial, value=number(text) if text is not None else None)
    if text is None:
        return replace(trial, state=State.FAILED, reason="MetricMissing", message=_missing(metric, metrics))
    value = number(text)
    if value is None:
        message = f"the last value of the metric {metric} is {shortened(text, 64)}, which is not a finite number"
        return replace(trial, state=State.FAILED, reason="MetricInvalid", message=message)
    return replace(trial, state=State.COMPLETE, value=value)


def _missing(metric: str, metrics: Mapping[str, str]) -> str:
    if not metrics:
        return f"the training ended without a report of the metric {metric}; it reported no metrics"
    return shortened(f"the training did not report the metric {metric}; it reported {', '.join(metrics)}", _MESSAGE)


def _report_is_due(train_job: TrainJob, now: datetime, metric: str) -> float | None:
    """Seconds that the last report of a TrainJob which is complete may still take; None: there is no need to wait."""
    complete = find_true(train_job.status_or_empty.conditions, CONDITION_COMPLETE)
    if complete is None:
        return None
    if percentage_of(train_job) == 100 and metric in _metrics(train_job):
        return None
    since = moment(complete.last_transition_time)
    left = (since + timedelta(seconds=REPORT_SECONDS) - now).total_seconds() if since is not None else 0.0
    # A clock that was set back must not hold the trial up.
    return left if 0 < left <= REPORT_SECONDS else None


def _metrics(train_job: TrainJob) -> dict[str, str]:
    status = train_job.status_or_empty.trainer_status
    return {one.name: one.value for one in (status.metrics if status is not None else None) or ()}


def number(text: str) -> float | None:
    """The finite number that a text says."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _with_point(train_job: TrainJob, trial: Trial, text: str | None) -> Trial:
    value = number(text) if text is not None else None
    step = step_of(train_job)
    if value is None or step is None or (trial.curve and step <= trial.curve[-1][0]):
        return trial
    curve = (*trial.curve, (step, value))
    return replace(trial, curve=curve if len(curve) <= _POINTS else curve[1::2])


def step_of(train_job: TrainJob) -> int | None:
    """How far the training is, by what it reported last."""
    metrics = _metrics(train_job)
    for name in _STEPS:
        if name in metrics and (step := number(metrics[name])) is not None:
            return int(step)
    return percentage_of(train_job)


def percentage_of(train_job: TrainJob) -> int | None:
    status = train_job.status_or_empty.trainer_status
    return status.progress_percentage if status is not None else None


def _pruned_value(text: str) -> float | None:
    try:
        value = json.loads(text)["value"]
    except (ValueError, TypeError, KeyError):
        return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


# ---------------------------------------------------------------------- the record

RECORD_BYTES = 64 * 1024
"""Of the whole record."""
RECORD_KEY = "trials"
_ENCODER = msgspec.json.Encoder()


def encoded(trials: Trials, job: OptimizationJob) -> str:
    """The trials as the text of the record, at most `RECORD_BYTES` long.

    A record that would be longer loses, in this order, curves, messages, and the parameters of trials that are not the
    best one; numbers, states and values always fit.
    """
    texts = {one.number: _ENCODER.encode(one) for one in trials.values()}
    left = _size(texts) - RECORD_BYTES
    if left > 0:
        short = {one.number: replace(one, curve=(), message=shortened(one.message, 60)) for one in trials.values()}
        texts = {number: _ENCODER.encode(one) for number, one in short.items()}
        left = _size(texts) - RECORD_BYTES
        best = best_of(job, trials.values())
        # Those of trials that failed go first, and then from the first number on. A TrainJob that runs has its own.
        for one in sorted(short.values(), key=lambda one: (one.state is not State.FAILED, not one.is_over, one.number)):
            if left > 0 and (best is None or one.number != best.number):
                left -= len(texts[one.number])
                texts[one.number] = _ENCODER.encode(replace(one, parameters={}))
                left += len(texts[one.number])
    return f"[{b','.join(texts.values()).decode()}]"


def _size(texts: Mapping[int, bytes]) -> int:
    return sum(len(text) + 1 for text in texts.values()) + 1


def compact(value: Any) -> str:
    """Short JSON, with the characters of all languages as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decoded(text: str) -> Trials:
    """The trials of a record's text; none if it was edited into something else."""
    try:
        found = msgspec.json.decode(text, type=list[Trial])
    except msgspec.DecodeError:
        return {}
    return {one.number: one for one in sorted(found, key=lambda one: one.number)}
