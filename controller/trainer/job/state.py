# SPDX-License-Identifier: Apache-2.0
"""The state of a TrainJob: one enum and one function, shared by metrics, events, plugins and every view of a job.

`state_of` reads it from the object alone. Most states are types of conditions, so the column State of kubectl shows the
same word. `JobStates` follows the records of all jobs and calls its listeners once for each change, on every replica,
whether or not it leads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import msgspec

from trainwright.api.conditions import find
from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, uid_of
from trainwright.api.times import Now, moment, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods
from trainwright.api.trainer.v1alpha1.constants import MANAGED_BY_TRAINER
from trainwright.controller.runtime import Event
from trainwright.controller.trainer.job.records import JobRecord, JobRecords
from trainwright.plugins.contract import JobState

CONDITION_BLOCKED = JobState.BLOCKED.value
"""A condition that Kubeflow Trainer does not have; see `obstacles`."""
CONDITION_STALLED = JobState.STALLED.value
"""One of the pods that run has ended, or no longer reports as before; see `progress.stall`."""
EXPLAINING = (JobState.STUCK.value, JobState.RESTARTING.value, JobState.WAITING.value)
"""Behind the gate `Explain`: why the job does not train. One of them at most is True; see `why.waiting`."""

RECENT_SECONDS = 600.0
"""Jobs that ended before a leader started, and not longer ago, may lack their last report and points."""


class StateReason(NamedTuple):
    state: JobState
    reason: str = ""
    """The reason of the condition that the state comes from; empty for a state without a condition."""
    message: str = ""


def state_of(job: TrainJob) -> StateReason:
    """The state of the job, as far as the object tells: the first in the order of `JobState` that applies."""
    held = {c.type: c for c in job.status_or_empty.conditions or () if c.status == "True"}
    for state in JobState:
        if state is JobState.DELETING and deletion_timestamp_of(job) is not None:
            return StateReason(state)
        if state in held:
            return StateReason(state, held[state].reason, held[state].message)
    return StateReason(JobState.RUNNING if _trains(job) else JobState.PENDING)


def without_causes(job: TrainJob) -> TrainJob:
    """The job without the conditions that only explain."""
    if job.status is None:
        return job
    kept = [one for one in job.status.conditions or () if one.type not in (*EXPLAINING, CONDITION_STALLED)]
    return msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, conditions=kept))


def _trains(job: TrainJob) -> bool:
    """Whether all pods of a step run or have run, or one has reported since the job was started or resumed last."""
    status = job.status_or_empty
    if any(one.ready or one.succeeded or one.failed for one in status.jobs_status or ()):
        return True
    reported = moment(status.trainer_status_or_empty.last_updated_time)
    resumed = _transition(job, JobState.SUSPENDED)
    return reported is not None and had_pods(job) and (resumed is None or reported >= resumed)


def is_ours(job: TrainJob) -> bool:
    """Whether this manager works on the job: `spec.managedBy` may name another controller."""
    managed_by = job.spec_or_empty.managed_by
    return (managed_by or MANAGED_BY_TRAINER) == MANAGED_BY_TRAINER


def entered(job: TrainJob, state: JobState) -> datetime | None:
    """When the job entered the state, if the object records it; it does not record when pods became ready."""
    if state is JobState.PENDING:
        return _transition(job, JobState.SUSPENDED) or moment(job.metadata_or_empty.creation_timestamp)
    return _transition(job, state)


def ended_at(job: TrainJob) -> datetime | None:
    state = state_of(job).state
    return entered(job, state) if state.is_over else None


def ended_lately(job: TrainJob, now: datetime) -> bool:
    """Whether the job may have ended while no leader looked, so that its last report and points are missing."""
    at = ended_at(job)
    return at is not None and now - at < timedelta(seconds=RECENT_SECONDS)


def _transition(job: TrainJob, condition: str) -> datetime | None:
    found = find(job.status_or_empty.conditions, condition)
    return parse(found.last_transition_time) if found is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of a job's state or reason, as this process saw it."""

    key: Key
    job: TrainJob
    """The job as it is now, or as it was last if it is gone."""
    before: StateReason | None
    """None: this process sees the job for the first time."""
    after: StateReason | None
    """None: the job is gone, or can no longer be decoded."""
    seconds: float | None = None
    """How long the job was in the state that it left. None: it left none, or when it entered is not known."""
    first_pod_seconds: float | None = None
    """Seconds from its creation or last resume to its first pod. None unless this change is its first pod."""


Listener: TypeAlias = Callable[[Transition], None]


@dataclass(slots=True)
class _Seen:
    job: TrainJob
    found: StateReason
    since: datetime | None
    """When it entered its state, if that is known."""
    had_pods: bool


class JobStates:
    """The one place that sees every change of a job's state: add a listener to act on it."""

    def __init__(self, records: JobRecords, *, now: Now = wall_clock) -> None:
        self._now = now
        self._records = records
        self._listeners: list[Listener] = []
        records.follow(self._handle, self._gone)

    def listen(self, listener: Listener) -> None:
        """Call `listener` for each transition from now on; it must not block and must not raise."""
        self._listeners.append(listener)

    def _handle(self, event: Event[AnyObject]) -> None:
        job = event.new
        if job is None:
            return
        record = self._records.of(event.key, uid_of(job))
        if not isinstance(job, TrainJob):
            self._gone(record)  # it can no longer be decoded
            return
        seen = record.get(_Seen)
        if seen is None:
            self._first_seen(record, job)
            return
        seen.job = job
        self._look(event.key, seen, state_of(job))

    def _gone(self, record: JobRecord) -> None:
        seen = record.get(_Seen)
        if seen is not None:
            record.drop(_Seen)
            self._tell(Transition(key=record.key, job=seen.job, before=seen.found, after=None))

    def _first_seen(self, record: JobRecord, job: TrainJob) -> None:
        found = state_of(job)
        # When a job of another state had its first pod is not known.
        counts = had_pods(job) if found.state.is_active else found.state is not JobState.SUSPENDED
        record.keep(_Seen(job, found, entered(job, found.state), counts))
        self._tell(Transition(key=record.key, job=job, before=None, after=found))

    def _look(self, key: Key, seen: _Seen, after: StateReason) -> None:
        before, now, spent, first_pod = seen.found, self._now(), None, None
        if after.state is JobState.SUSPENDED:
            seen.had_pods = False
        elif after.state.is_active and had_pods(seen.job) and not seen.had_pods:
            seen.had_pods = True
            first_pod = _seconds(entered(seen.job, JobState.PENDING), now)
        if before[:2] == after[:2] and first_pod is None:
            return
        if before.state is not after.state:
            spent, seen.since = _seconds(seen.since, now), now
        seen.found = after
        self._tell(
            Transition(key=key, job=seen.job, before=before, after=after, seconds=spent, first_pod_seconds=first_pod)
        )

    def _tell(self, transition: Transition) -> None:
        for listener in self._listeners:
            listener(transition)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())
