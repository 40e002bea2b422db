# SPDX-License-Identifier: Apache-2.0
"""The state of a TrainJob, in the words that metrics, events and every view of a job share.

`state_of` reads from the object alone how far the job has come; `shown` refines it for people, by the conditions that
say why it does not train. Their types are the words, so the column State of kubectl shows the same. `JobStates` follows
the records of all jobs and calls its listeners once for each change, on every replica, whether or not it leads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from trainwright.api.conditions import find
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, uid_of
from trainwright.api.times import Now, moment, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    CONDITION_SUSPENDED,
    MANAGED_BY_TRAINER,
)
from trainwright.api.trainer.v1alpha1.standing import had_pods
from trainwright.controller.runtime import Event
from trainwright.controller.trainer.job.records import JobRecord, JobRecords
from trainwright.plugins.contract import JobState

CONDITION_BLOCKED = "Blocked"
"""A condition that Kubeflow Trainer does not have; see `obstacles`."""
CONDITION_STALLED = "Stalled"
"""A job whose pods run, of which one has ended or reports no longer as before; see `progress.stall`."""
CONDITION_STUCK = "Stuck"
"""Behind the gate `Explain`, as the two that follow: why the job does not train. One at most; see `why.waiting`."""
CONDITION_RESTARTING = "Restarting"
CONDITION_WAITING = "Waiting"
EXPLAINING = (CONDITION_STUCK, CONDITION_RESTARTING, CONDITION_WAITING)

RECENT_SECONDS = 600.0
"""Jobs that ended before a leader started, and not longer ago, may lack their last report and points."""


State: TypeAlias = JobState


class Word(StrEnum):
    """How a job stands, for people. The first one that applies counts, in this order."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    DELETING = "Deleting"
    BLOCKED = "Blocked"
    SUSPENDED = "Suspended"
    STUCK = "Stuck"
    """It stays as it is until somebody acts."""
    RESTARTING = "Restarting"
    """A container of it, or all of its pods, failed and start again."""
    WAITING = "Waiting"
    """For something that can pass by itself."""
    STALLED = "Stalled"
    """Its pods run, and one of them seems to hang."""
    RUNNING = "Running"
    PENDING = "Pending"

    @property
    def is_over(self) -> bool:
        return self in {Word.COMPLETE, Word.FAILED}


class Shown(NamedTuple):
    word: Word
    reason: str = ""
    """The reason of the condition that the word comes from; empty for a word without a condition."""
    message: str = ""


class Standing(NamedTuple):
    state: State
    reason: str = ""
    """The reason of the condition that the state comes from; empty for a state without a condition."""

    @property
    def is_over(self) -> bool:
        return self.state.is_over


_CONDITIONS = {
    CONDITION_COMPLETE: State.COMPLETE,
    CONDITION_FAILED: State.FAILED,
    CONDITION_BLOCKED: State.BLOCKED,
    CONDITION_SUSPENDED: State.SUSPENDED,
}
"""The state that each condition stands for; if several are True, the first one here counts."""


def state_of(job: TrainJob) -> Standing:
    """The state of the job: from the first of its conditions that is True, else from its pods."""
    held = _held(job)
    for name, state in _CONDITIONS.items():
        if name in held:
            return Standing(state, held[name].reason)
    if had_pods(job):
        return Standing(State.RUNNING)
    return Standing(State.PENDING)


def _held(job: TrainJob) -> dict[str, Condition]:
    """The conditions that are True, by type."""
    status = job.status
    return {c.type: c for c in (status.conditions if status is not None else None) or () if c.status == "True"}


def shown(job: TrainJob) -> Shown:
    """How the job stands, as far as the object tells."""
    standing, held = state_of(job), _held(job)
    if not standing.is_over and deletion_timestamp_of(job) is not None:
        return Shown(Word.DELETING)
    if standing.state in (State.RUNNING, State.PENDING):
        for word in (*EXPLAINING, CONDITION_STALLED):
            if word in held:
                return Shown(Word(word), held[word].reason, held[word].message)
        return Shown(Word.RUNNING if _trains(job) else Word.PENDING)
    word = Word(standing.state.value)
    return Shown(word, held[word].reason, held[word].message)


def without_causes(job: TrainJob) -> TrainJob:
    """The job without the conditions that only explain."""
    if job.status is None:
        return job
    kept = [one for one in job.status.conditions or () if one.type not in (*EXPLAINING, CONDITION_STALLED)]
    return msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, conditions=kept))


def _trains(job: TrainJob) -> bool:
    """Whether all pods of a step run or have run, or one has reported since the job was started or resumed last."""
    status = job.status
    if status is None:
        return False
    if any(one.ready or one.succeeded or one.failed for one in status.jobs_status or ()):
        return True
    reported = status.trainer_status_or_empty.last_updated_time
    if not reported or state_of(job).state is not State.RUNNING:
        return False
    resumed, at = _transition(job, CONDITION_SUSPENDED), moment(reported)
    return resumed is None or (at is not None and at >= resumed)


def is_ours(job: TrainJob) -> bool:
    """Whether this manager works on the job: `spec.managedBy` may name another controller."""
    managed_by = job.spec_or_empty.managed_by
    return (managed_by or MANAGED_BY_TRAINER) == MANAGED_BY_TRAINER


def entered(job: TrainJob, state: State) -> datetime | None:
    """When the job entered the state, if the object records it; it does not record the time of the first pod."""
    for name, of_condition in _CONDITIONS.items():
        if state is of_condition:
            return _transition(job, name)
    if state is State.RUNNING:
        return None
    created = job.metadata_or_empty.creation_timestamp
    return _transition(job, CONDITION_SUSPENDED) or (parse(created) if created else None)


def ended_at(job: TrainJob) -> datetime | None:
    standing = state_of(job)
    return entered(job, standing.state) if standing.is_over else None


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
    before: Standing | None
    """None: this process sees the job for the first time."""
    after: Standing | None
    """None: the job is gone, or can no longer be decoded."""
    seconds: float | None = None
    """How long the job was in the state that it left. None: it left none, or when it entered is not known."""
    first_pod_seconds: float | None = None
    """Seconds from its creation or last resume to its first pod. None unless this change is its first pod."""


Listener: TypeAlias = Callable[[Transition], None]


@dataclass(slots=True)
class _Seen:
    job: TrainJob
    standing: Standing
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
        standing = state_of(job)
        if seen.standing != standing:
            self._changed(event.key, seen, standing)

    def _gone(self, record: JobRecord) -> None:
        seen = record.get(_Seen)
        if seen is not None:
            record.drop(_Seen)
            self._tell(Transition(key=record.key, job=seen.job, before=seen.standing, after=None))

    def _first_seen(self, record: JobRecord, job: TrainJob) -> None:
        standing = state_of(job)
        had_pods = standing.state not in {State.PENDING, State.SUSPENDED}
        record.keep(_Seen(job, standing, entered(job, standing.state), had_pods))
        self._tell(Transition(key=record.key, job=job, before=None, after=standing))

    def _changed(self, key: Key, seen: _Seen, standing: Standing) -> None:
        now, before = self._now(), seen.standing
        seen.standing = standing
        if before.state is standing.state:
            self._tell(Transition(key=key, job=seen.job, before=before, after=standing))
            return
        spent = _seconds(seen.since, now)
        seen.since = now
        first_pod = None
        if standing.state is State.SUSPENDED:
            seen.had_pods = False
        elif standing.state is State.RUNNING and not seen.had_pods:
            seen.had_pods = True
            first_pod = _seconds(entered(seen.job, State.PENDING), now)
        self._tell(
            Transition(key=key, job=seen.job, before=before, after=standing, seconds=spent, first_pod_seconds=first_pod)
        )

    def _tell(self, transition: Transition) -> None:
        for listener in self._listeners:
            listener(transition)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())
