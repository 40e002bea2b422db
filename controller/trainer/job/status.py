# SPDX-License-Identifier: Apache-2.0
"""The state of a TrainJob, and its status: computed from what is observed, written as a patch of what changed.

`state_of` reads the state from the object alone, for metrics, events, plugins and every view of a job. Most states are
types of conditions, so the column State of kubectl shows the same word.

The framework sets the conditions `Suspended`, `Blocked` and `Created`, and those that other parts of the manager have
found; the status plugin sets the others and the counters. A job ends once: the end that is written stays, whatever is
observed afterwards. `trainerStatus` belongs to the status server and is never part of a patch. A change of a condition
is written at once, together with every other change, and so are counters that another controller waits for. A change of
other counters alone waits for a moment, because a JobSet changes them several times in a row. Nothing is kept
meanwhile: what waits is the difference between the job and what is observed.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from trainwright.api.conditions import find, is_true, remove_condition, set_condition
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.messages import shortened
from trainwright.api.objects import deletion_timestamp_of, resource_version_of
from trainwright.api.times import Now, moment, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import JobStatus, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.completion import had_pods, is_end, is_finished
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_FAILED,
    CONDITION_SUSPENDED,
    MANAGED_BY_TRAINER,
    REASON_RESUMED,
    REASON_SUSPENDED,
)
from trainwright.api.trainer.v1alpha1.queues import has_place, is_queued
from trainwright.controller.trainer.job.obstacles import Obstacle
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


REASON_END_UNKNOWN = "EndUnknown"
"""The JobSet deleted itself after its end while no manager ran."""
REASON_SAME_FAILURE = "SameFailure"
REASON_RESTARTS_EXHAUSTED = "RestartsExhausted"
REASON_HANG = "Hang"
REASON_CANNOT_RUN = "CannotRun"
REASON_INTERRUPTED, REASON_LATE, REASON_STALLED = "Interrupted", "OutOfTime", "Stalled"
STOPPED = frozenset({REASON_INTERRUPTED, REASON_LATE, REASON_STALLED})
"""Reasons of jobs that `trainwright local run` has ended while they ran."""
END_REASONS = frozenset({REASON_SAME_FAILURE, REASON_RESTARTS_EXHAUSTED, REASON_HANG, REASON_CANNOT_RUN})
"""Reasons of the condition Failed of a job that the manager has ended, though Kubernetes would go on."""
REASON_CREATED = "JobsCreationSucceeded"
"""The reason that versions of Kubeflow Trainer with this condition wrote."""
OBSTACLES = frozenset({CONDITION_BLOCKED, *EXPLAINING, CONDITION_STALLED})
_OWN_KEYS = (("conditions", "conditions"), ("jobs_status", "jobsStatus"))
"""Attribute and wire name of what the manager writes."""
CONDITION_CREATED = "Created"
"""Behind a feature gate: True once all objects are applied."""
_LAST = (*EXPLAINING, CONDITION_STALLED, CONDITION_CREATED)
_ORDER = {CONDITION_BLOCKED: -1, **{kind: place for place, kind in enumerate(_LAST, 1)}}
"""Those that are not here have 0."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A job has this condition, and no other of the types."""

    types: frozenset[str]
    condition: Condition | None
    """None: it has none of them. Its transition time is filled in when it is written."""


def wanted_status(
    job: TrainJob,
    observed: TrainJobStatus | None,
    blocked: Obstacle | None,
    *,
    settled: bool,
    created: bool = False,
    findings: Sequence[Finding] = (),
    now: Now = wall_clock,
) -> TrainJobStatus:
    """The status that the job should have.

    Args:
        job: with its current status.
        observed: the status that the status plugin gives; None leaves the current status as it is.
        blocked: the obstacle to show as `Blocked`.
        settled: whether there is no obstacle at all, so that `Blocked` is removed.
        created: whether to write `Created`.
        findings: what parts of the manager have found out about the job.
        now: the wall clock, for transition times.
    """
    status = copy(observed or job.status or TrainJobStatus())  # only its conditions change, as a whole
    had = {condition.type for condition in job.status_or_empty.conditions or ()}
    found = _ended_once(job, status.conditions or [])
    conditions = [condition for condition in found if condition.type in had]
    if job.spec_or_empty.suspend:
        suspended = new_condition(CONDITION_SUSPENDED, "True", REASON_SUSPENDED, "TrainJob is suspended")
        conditions = set_condition(conditions, suspended, now=now)
    elif is_true(conditions, CONDITION_SUSPENDED):
        resumed = new_condition(CONDITION_SUSPENDED, "False", REASON_RESUMED, "TrainJob is resumed")
        conditions = set_condition(conditions, resumed, now=now)
    # A new end comes after `Suspended`, as Kubeflow Trainer writes it.
    conditions += [condition for condition in found if condition.type not in had]
    if created:
        applied = new_condition(CONDITION_CREATED, "True", REASON_CREATED, "all objects of the TrainJob are applied")
        conditions = set_condition(conditions, applied, now=now)
    if blocked is not None:
        condition = new_condition(CONDITION_BLOCKED, "True", blocked.reason, shortened(blocked.message))
        condition.observed_generation = job.metadata_or_empty.generation
        conditions = set_condition(conditions, condition, now=now)
    elif settled:
        conditions = remove_condition(conditions, CONDITION_BLOCKED)
    for finding in findings:
        conditions = with_finding(conditions, finding, now)
    if job.spec_or_empty.suspend:
        # Whoever found it will say so, too; written now, the suspension is one write.
        conditions = remove_condition(conditions, CONDITION_STALLED)
    if any(map(is_end, conditions)):
        conditions = _without_obstacles(conditions)
    status.conditions = in_order(conditions) or None
    return status


def with_failure(status: TrainJobStatus, reason: str, message: str, now: datetime) -> TrainJobStatus:
    """The status of a job that fails for this reason, in place of any failure that its JobSet reports."""
    marked = status.deepcopy()
    failed = new_condition(CONDITION_FAILED, "True", reason, shortened(message))
    marked.conditions = in_order(_without_obstacles(set_condition(status.conditions, failed, now=lambda: now)))
    return marked


def without_end(job: TrainJob, observed: TrainJobStatus | None) -> TrainJobStatus | None:
    """What is observed, without a failure of the JobSet: the record of recovery says whether and when the job fails."""
    if observed is None or is_finished(job):
        return observed
    kept = copy(observed)
    kept.conditions = [one for one in observed.conditions or () if one.type != CONDITION_FAILED] or None
    return kept


def with_kept_success(job: TrainJob, observed: TrainJobStatus | None) -> TrainJobStatus | None:
    """What is observed, in which no step of an admitted job loses a success that was told.

    When all ranks restart, JobSet runs steps again that had succeeded, such as initializers. Kueue has given their
    quota to others, cannot take it back, and does nothing more for the job, such as an eviction, until the step has
    succeeded again. A job that has ended tells what its JobSet counts. Source: Kueue's reconciler, which looks at the
    end first, and writes reclaimablePods before it handles evictions.
    """
    if observed is None or not has_place(job) or is_finished(job) or any(map(is_end, observed.conditions or ())):
        return observed
    told = {one.name: one for one in job.status_or_empty.jobs_status or () if one.succeeded}
    seen = {one.name: one for one in observed.jobs_status or ()}
    if all(name in seen and seen[name].succeeded >= one.succeeded for name, one in told.items()):
        return observed
    # A new JobSet has no counters at first.
    gone = [JobStatus(name=name, ready=0, succeeded=0, failed=0, active=0, suspended=0) for name in told.keys() - seen]
    kept = copy(observed)
    kept.jobs_status = [
        _with_success(one, told[one.name].succeeded) if one.name in told else one for one in (*seen.values(), *gone)
    ]
    return kept


def _with_success(step: JobStatus, told: int) -> JobStatus:
    """With as many successes at least. A Job counts as ready or as succeeded, since Kueue adds both."""
    lost = max(0, told - step.succeeded)
    return msgspec.structs.replace(step, succeeded=step.succeeded + lost, ready=max(0, step.ready - lost))


def status_patch(job: TrainJob, wanted: TrainJobStatus) -> dict[str, Any] | None:
    """The merge patch from the job's status to the wanted one; None when they are equal.

    A merge patch replaces the list of conditions as a whole. The patch therefore names the version of the job: if
    another client has added a condition meanwhile, the API server answers with a conflict and nothing is lost. An empty
    status is not valid, so a status that loses its last key is removed.
    """
    current = job.status or TrainJobStatus()
    changed = {
        wire: msgspec.to_builtins(getattr(wanted, attribute))
        for attribute, wire in _OWN_KEYS
        if (getattr(wanted, attribute) or None) != (getattr(current, attribute) or None)
    }
    if not changed:
        return None
    rest = wanted.conditions or wanted.jobs_status or current.trainer_status
    patch: dict[str, Any] = {"status": changed if rest else None}
    # What only takes away leaves an empty status where another client took away the rest meanwhile.
    if is_urgent(patch) or all(value is None for value in changed.values()):
        patch["metadata"] = {"resourceVersion": resource_version_of(job)}
    return patch


def is_urgent(patch: dict[str, Any]) -> bool:
    """Whether a status patch changes more than counters and must be written at once."""
    return patch["status"] is None or "conditions" in patch["status"]


def is_awaited(job: TrainJob, wanted: TrainJobStatus) -> bool:
    """Whether another controller waits for one of the changes from the counters of the job to the wanted ones.

    Whoever suspends a job waits until none of its Jobs is active. Kueue admits the next job once each step is ready or
    done, and gives the quota of a step that has succeeded to others.
    """
    before = {one.name: one for one in job.status_or_empty.jobs_status or ()}
    after = wanted.jobs_status or ()
    if job.spec_or_empty.suspend and any(one.active for one in before.values()):
        return not any(one.active for one in after)
    return is_queued(job) and any(_has_come(before.get(one.name), one) for one in after)


def _has_come(before: JobStatus | None, after: JobStatus) -> bool:
    """Whether a Job of a step has succeeded, or the last of its Jobs has become ready."""
    if after.succeeded > (before.succeeded if before is not None else 0):
        return True
    return _is_ready(after) and not (before is not None and _is_ready(before))


def _is_ready(step: JobStatus) -> bool:
    return step.ready > 0 and step.ready >= step.active


def _ended_once(job: TrainJob, observed: list[Condition]) -> list[Condition]:
    """The observed conditions with one end at most: the one that the job has, else the first one.

    A JobSet may complete after its job has failed by the deadline: until it is deleted, or because its deletion failed.
    """
    written = job.status_or_empty.conditions or ()
    end = next(filter(is_end, written), None) or next(filter(is_end, observed), None)
    if end is None:
        return observed
    kept = [end if one.type == end.type else one for one in observed if one.type == end.type or not is_end(one)]
    return kept if end in kept else [*kept, end]


def _without_obstacles(conditions: list[Condition]) -> list[Condition]:
    """The conditions of a job that is over: nothing keeps it from training any more."""
    return [condition for condition in conditions if condition.type not in OBSTACLES]


def in_order(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions with `Blocked` first, those that only explain at the end, and the others in their order.

    kubectl's column State shows the first condition that is True, so that one must have the word of the other views.
    `Created` stays True for good.
    """
    return sorted(conditions, key=lambda condition: _ORDER.get(condition.type, 0))


def new_condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """A condition without its transition time, which `set_condition` fills in."""
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")


def shows(conditions: Sequence[Condition], finding: Finding) -> bool:
    """Whether the conditions are those of the finding."""
    return with_finding(conditions, finding, wall_clock) == list(conditions)


def with_finding(conditions: Sequence[Condition], finding: Finding, now: Now) -> list[Condition]:
    """The conditions with that of the finding. Another reason holds since another time."""
    wanted = finding.condition
    if wanted is None:
        return [one for one in conditions if one.type not in finding.types]
    same = (wanted.type, wanted.reason)
    kept = [one for one in conditions if one.type not in finding.types or (one.type, one.reason) == same]
    return set_condition(kept, wanted, now=now)
