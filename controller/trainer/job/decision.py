# SPDX-License-Identifier: Apache-2.0
"""Decides what to do for a job: a pure function of the job, its observed status, the last attempt and the time.

The controller carries the decision out. Nothing here reads a clock, a cache or a memory.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.build.kinds import COUNTERS_SECONDS
from trainwright.controller.trainer.job.deadline import is_exceeded, seconds_left
from trainwright.controller.trainer.job.obstacles import Obstacle
from trainwright.controller.trainer.job.ruling import END_REASONS, Ruling, is_ended
from trainwright.controller.trainer.job.status import (
    is_over,
    is_urgent,
    status_patch,
    wanted_status,
    with_deadline_exceeded,
    with_end_unknown,
    with_ruling,
)

LONGEST_WAIT_SECONDS = 60.0
"""Upper bound of one wait. Waits are timed by a clock that never jumps, and deadlines by the wall clock: a job whose
deadline passes in a jump is noticed within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    failed: bool = False
    """Whether there was an error, including those that are not shown to users, such as a conflict."""
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
    ruling: Ruling | None = None
    """What the record of recovery says of the job's end; None: it does not recover."""
    obsolete: frozenset[str] = frozenset()
    """Types of conditions that no part of this manager writes, and that an earlier one may have left."""
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
    look_again: float | None
    """Seconds until the next reconcile if no event comes earlier; None: wait for an event."""
    over: bool
    """Whether the job has ended and its status is written."""


def decide(job: TrainJob, observed: TrainJobStatus | None, attempt: Attempt, now: datetime) -> Decision:
    """What to do for the job. `observed`: the status that the status plugin gives; None leaves the status as it is."""
    wanted = wanted_status(
        job,
        observed,
        attempt.obstacle,
        settled=not attempt.failed,
        created=attempt.created,
        obsolete=attempt.obsolete,
        now=lambda: now,
    )
    if attempt.end_unknown and not is_over(wanted):
        wanted = with_end_unknown(wanted, attempt.end_unknown, now=lambda: now)
    ruling = attempt.ruling
    is_ruled = ruling is not None and ruling.reason in END_REASONS
    if ruling is not None and ruling.reason:
        wanted = with_ruling(wanted, ruling.reason, ruling.message, now=lambda: now)
    # Use the status that is about to be written: the time of a job that is resumed now starts now.
    left = None if is_over(wanted) else seconds_left(job, wanted, now)
    exceeded = is_exceeded(job) or (left is not None and left <= 0)
    if exceeded:
        wanted, left = with_deadline_exceeded(wanted, now=lambda: now), None
    patch = status_patch(job, wanted)
    counters_wait, pending = False, 0.0
    if patch is not None and not is_urgent(patch):
        pending = max(0.0, attempt.counters_in)
        counters_wait = pending > 0
    judged = (ruling.look_again if ruling is not None else None) or 0.0
    waits = [seconds for seconds in (attempt.shown_in, left or 0.0, pending, attempt.foreign_in, judged) if seconds > 0]
    return Decision(
        status=None if counters_wait else patch,
        counters_wait=counters_wait,
        end=exceeded or is_ruled or is_ended(job),
        look_again=min(*waits, LONGEST_WAIT_SECONDS) if waits else None,
        over=is_over(wanted) and not counters_wait,
    )
