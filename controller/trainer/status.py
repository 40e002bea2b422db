# SPDX-License-Identifier: Apache-2.0
"""The status of a TrainJob: computed from what is observed, written as a patch of what changed (hop 7, Report).

The framework owns the conditions `Suspended` and `Blocked`; what has become of the job is the status plugin's to say.
`trainerStatus` belongs to the status server and is never part of a patch. Conditions are written at once, and take
along whatever else changed; counters that change alone wait a moment for company, since a JobSet changes them several
times in a row. What waits is not kept: it is the difference between the job and what is observed, also after a restart.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    CONDITION_SUSPENDED,
    REASON_DEADLINE_EXCEEDED,
    REASON_RESUMED,
    REASON_SUSPENDED,
)
from trainwright.controller.runtime import Key, set_condition
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.conditions import is_true, remove_condition
from trainwright.controller.runtime.objects import resource_version_of
from trainwright.controller.trainer import deadline
from trainwright.controller.trainer.obstacles import Obstacle, shortened

CONDITION_BLOCKED = "Blocked"
"""An addition to the original's conditions; see `obstacles`."""
CONDITION_CREATED = "Created"
"""Behind a feature gate: True once all objects are applied."""
REASON_CREATED = "JobsCreationSucceeded"
"""As versions of the original that had the condition."""
COUNTERS_SECONDS = 0.25
"""How long changed counters wait for company."""

_OWN_KEYS = (("conditions", "conditions"), ("jobs_status", "jobsStatus"))
"""Attribute and wire name of what the manager writes."""


def is_finished(job: TrainJob) -> bool:
    """Whether the job is Complete or Failed; nothing is built or applied for it any more."""
    return job.status is not None and is_over(job.status)


def is_over(status: TrainJobStatus) -> bool:
    """The same of a status."""
    return is_true(status.conditions, CONDITION_COMPLETE) or is_true(status.conditions, CONDITION_FAILED)


def wanted_status(
    job: TrainJob,
    observed: TrainJobStatus | None,
    blocked: Obstacle | None,
    *,
    settled: bool,
    created: bool = False,
    now: Now = wall_clock,
) -> TrainJobStatus:
    """The status that the job should have.

    Args:
        job: with its current status.
        observed: the status plugin's view; None leaves the current status as it is.
        blocked: the obstacle that is to be shown.
        settled: whether there is no obstacle at all, so that `Blocked` is to go.
        created: whether `Created` is to be there.
        now: the wall clock, for transition times.
    """
    status = (observed or job.status or TrainJobStatus()).deepcopy()
    had = {condition.type for condition in (job.status.conditions if job.status is not None else None) or ()}
    found = status.conditions or []
    conditions = [condition for condition in found if condition.type in had]
    if job.spec is not None and job.spec.suspend:
        suspended = _condition(CONDITION_SUSPENDED, "True", REASON_SUSPENDED, "TrainJob is suspended")
        conditions = set_condition(conditions, suspended, now=now)
    elif is_true(conditions, CONDITION_SUSPENDED):
        resumed = _condition(CONDITION_SUSPENDED, "False", REASON_RESUMED, "TrainJob is resumed")
        conditions = set_condition(conditions, resumed, now=now)
    # What is new of the JobSet's comes after `Suspended`: the last condition is the one that kubectl shows.
    conditions += [condition for condition in found if condition.type not in had]
    if created:
        applied = _condition(CONDITION_CREATED, "True", REASON_CREATED, "all objects of the TrainJob are applied")
        conditions = set_condition(conditions, applied, now=now)
    if blocked is not None:
        condition = _condition(CONDITION_BLOCKED, "True", blocked.reason, shortened(blocked.message))
        condition.observed_generation = job.metadata.generation if job.metadata is not None else None
        conditions = set_condition(conditions, condition, now=now)
    elif settled:
        conditions = remove_condition(conditions, CONDITION_BLOCKED)
    status.conditions = conditions or None
    return status


def with_deadline_exceeded(status: TrainJobStatus, *, now: Now = wall_clock) -> TrainJobStatus:
    """The status of a job that ran too long; what its JobSet says of a failure does not overrule that."""
    marked = status.deepcopy()
    failed = _condition(CONDITION_FAILED, "True", REASON_DEADLINE_EXCEEDED, deadline.MESSAGE)
    marked.conditions = set_condition(remove_condition(status.conditions or [], CONDITION_BLOCKED), failed, now=now)
    return marked


def status_patch(job: TrainJob, wanted: TrainJobStatus) -> dict[str, Any] | None:
    """The merge patch from the job's status to the wanted one; None when they are equal.

    Conditions are a list, replaced as a whole: with the version of the job, so that what somebody else added meanwhile
    is not lost. A status may not be empty, so one that loses its last key goes away as a whole.
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
    if _is_urgent(patch):
        patch["metadata"] = {"resourceVersion": resource_version_of(job)}
    return patch


class Pending:
    """Since when each job's counters have differed from its status."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """`monotonic` gives seconds on a clock that never goes back, such as the event loop's."""
        self._monotonic = monotonic
        self._since: dict[Key, float] = {}

    def wait(self, key: Key, patch: dict[str, Any]) -> float:
        """Seconds that the patch is to wait for company; 0 when it is to be written now."""
        if _is_urgent(patch):
            return 0.0
        now = self._monotonic()
        return max(0.0, self._since.setdefault(key, now) + COUNTERS_SECONDS - now)

    def over(self, key: Key) -> None:
        """Nothing is pending: it was written, or is as observed again, or there is no such job any more."""
        self._since.pop(key, None)


def _is_urgent(patch: dict[str, Any]) -> bool:
    """Whether it has more than counters."""
    return patch["status"] is None or "conditions" in patch["status"]


def _condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """A condition without its transition time, which `set_condition` decides."""
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")
