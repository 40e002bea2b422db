# SPDX-License-Identifier: Apache-2.0
"""Decides what to do for a job: a pure function of the job, its observed status, the outcome of the build and the time.

The controller carries the decision out. Nothing here reads a clock, a cache or a memory.

A job that exceeds its active deadline, or that its record of recovery ends, is first marked Failed; then the objects
that run it, such as its JobSet, are deleted. The deletion is retried until they are gone. After a crash between the two
steps, the mark tells the next process to delete.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainwright.api.conditions import find, find_true, is_true
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.completion import is_over
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    CONDITION_SUSPENDED,
    REASON_DEADLINE_EXCEEDED,
)
from trainwright.controller.trainer.build.kinds import COUNTERS_SECONDS
from trainwright.controller.trainer.job.obstacles import Obstacle
from trainwright.controller.trainer.job.status import (
    END_REASONS,
    REASON_END_UNKNOWN,
    Finding,
    is_awaited,
    is_urgent,
    status_patch,
    wanted_status,
    with_failure,
    with_kept_success,
    without_end,
)

MESSAGE = "TrainJob exceeded its active deadline"
LONGEST_WAIT_SECONDS = 60.0
"""Upper bound of one wait. Waits are timed by a clock that never jumps, and deadlines by the wall clock: a job whose
deadline passes in a jump is noticed within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryDecision:
    """What the record of recovery says of a job's end."""

    reason: str = ""
    """The job ends with this reason; empty: the record does not end it."""
    message: str = ""
    ignore_failure: bool = False
    """Whether the end that the JobSet shows is not the job's: it is not judged yet, or a new JobSet follows."""
    replaces_jobset: bool = False
    """Whether the JobSet is gone, or will go, by our own decision."""
    requeue_after: float | None = None
    """Seconds until that may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOutcome:
    """How the last build of the job's objects went, and what else is known of the job."""

    failed: bool = False
    """Whether there was an error, including those that are not shown to users, such as a conflict, or the build
    waits for a snapshot."""
    obstacle: Obstacle | None = None
    """The obstacle to show as `Blocked`; it has lasted for `PATIENCE_SECONDS`."""
    shown_in: float = 0.0
    """Seconds until a younger obstacle has lasted long enough to be shown; 0: there is none."""
    created: bool = False
    """Whether to write the condition `Created`: the gate is on, and all objects of the job are applied."""
    end_unknown: str = ""
    """Why it cannot be known how the job ended; empty if that is not so."""
    counters_in: float = COUNTERS_SECONDS
    """Seconds until changed counters are due; zero or less: write them now."""
    recovery: RecoveryDecision = field(default_factory=RecoveryDecision)
    findings: tuple[Finding, ...] = ()
    """What parts of the manager have found out about the job."""
    snapshot_in: float = 0.0
    """Seconds until the deleted snapshot of its runtime is taken again; 0: it is there."""
    foreign_in: float = 0.0
    """Seconds until the next look at an object of somebody else that the job uses; 0: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    status: dict[str, Any] | None
    """The merge patch to write to its status now; None: write nothing."""
    counters_wait: bool
    """Whether counters differ from the status and wait to be written."""
    end: bool
    """Whether to delete the objects that run the job, such as its JobSet."""
    requeue_after: float | None
    """Seconds until the next reconcile if no event comes earlier; None: wait for an event."""
    over: bool
    """Whether the job has ended and its status is written."""


def decide(job: TrainJob, observed: TrainJobStatus | None, outcome: BuildOutcome, now: datetime) -> Decision:
    """What to do for the job. `observed`: the status that the status plugin gives; None leaves the status as it is."""
    recovery = outcome.recovery
    if recovery.ignore_failure or recovery.reason:
        # The job fails when that is decided, though its JobSet may have failed a minute ago.
        observed = without_end(job, observed)
    wanted = wanted_status(
        job,
        with_kept_success(job, observed),
        outcome.obstacle,
        settled=not outcome.failed,
        created=outcome.created,
        findings=outcome.findings,
        now=lambda: now,
    )
    if outcome.end_unknown and not is_over(wanted):
        wanted = with_failure(wanted, REASON_END_UNKNOWN, outcome.end_unknown, now)
    if recovery.reason and not is_true(wanted.conditions, CONDITION_COMPLETE):
        # Also in place of JobSet's own message: the record names the failure, and the attempts that there were.
        wanted = with_failure(wanted, recovery.reason, recovery.message, now)
    # Use the status that is about to be written: the time of a job that is resumed now starts now.
    left = None if is_over(wanted) else seconds_left(job, wanted, now)
    exceeded = is_exceeded(job) or (left is not None and left <= 0)
    if exceeded:
        wanted, left = with_failure(wanted, REASON_DEADLINE_EXCEEDED, MESSAGE, now), None
    patch = status_patch(job, wanted)
    counters_wait, pending = False, 0.0
    if patch is not None and not is_urgent(patch) and not is_awaited(job, wanted):
        pending = max(0.0, outcome.counters_in)
        counters_wait = pending > 0
    times = (
        outcome.shown_in,
        left or 0.0,
        pending,
        outcome.snapshot_in,
        outcome.foreign_in,
        recovery.requeue_after or 0.0,
    )
    waits = [seconds for seconds in times if seconds > 0]
    return Decision(
        status=None if counters_wait else patch,
        counters_wait=counters_wait,
        end=exceeded or not END_REASONS.isdisjoint({recovery.reason, _reason_of_failure(job.status_or_empty)}),
        requeue_after=min(*waits, LONGEST_WAIT_SECONDS) if waits else None,
        over=is_over(wanted) and not counters_wait,
    )


def seconds_left(job: TrainJob, status: TrainJobStatus, now: datetime) -> float | None:
    """Seconds until the active deadline; zero or less once it has passed; None if the job has none now.

    The time counts from the job's creation, or from its last resume; a suspended job has no deadline. `job` is not
    finished, `status` is about to be written.
    """
    spec = job.spec
    if spec is None or not spec.active_deadline_seconds or spec.suspend:
        return None
    started = _started(job, status)
    if started is None:
        return None
    return spec.active_deadline_seconds - (now - started).total_seconds()


def is_exceeded(job: TrainJob) -> bool:
    return _reason_of_failure(job.status_or_empty) == REASON_DEADLINE_EXCEEDED


def _reason_of_failure(status: TrainJobStatus) -> str:
    failed = find_true(status.conditions, CONDITION_FAILED)
    return failed.reason if failed is not None else ""


def _started(job: TrainJob, status: TrainJobStatus) -> datetime | None:
    resumed = find(status.conditions, CONDITION_SUSPENDED)
    if resumed is not None and resumed.status == "False":
        return parse(resumed.last_transition_time)
    created = job.metadata_or_empty.creation_timestamp
    return parse(created) if created is not None else None
