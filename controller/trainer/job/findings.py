# SPDX-License-Identifier: Apache-2.0
"""What parts of the manager have found out about jobs, for the one controller that writes conditions.

A part says which of its conditions a job should have, and the TrainJob's controller is triggered, which writes it with
everything else that has changed. What is kept is only what the job does not show yet: a part that has said nothing of a
job leaves the job's conditions as they are, so a manager that has just started writes nothing. Conditions whose part is
off are removed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from trainwright.api.conditions import set_condition
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import Key, uid_of
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Trigger
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.state import CONDITION_STALLED, EXPLAINING

FOUND = frozenset({*EXPLAINING, CONDITION_STALLED})
"""Types of all conditions that parts find."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A job has this condition, and no other of the types."""

    types: frozenset[str]
    condition: Condition | None
    """None: it has none of them. Its transition time is filled in when it is written."""


@dataclass(slots=True)
class _Unwritten:
    findings: dict[frozenset[str], Finding] = field(default_factory=dict)


class JobFindings:
    """Takes the findings of all parts. Declare the parts before the manager runs."""

    def __init__(self, records: JobRecords) -> None:
        self._records = records
        self._absent = FOUND
        self.changed = Trigger("finding")
        """Queues a job whose conditions are to change."""

    def source(self, types: Collection[str]) -> "FindingSource":
        """What the part that finds conditions of these types says them with."""
        own = frozenset(types)
        self._absent -= own
        return FindingSource(self, own)

    def of(self, job: TrainJob) -> tuple[Finding, ...]:
        """What is to be written for the job, as far as it is known."""
        unwritten = self._records.find(Key(job.namespace, job.name), uid_of(job), _Unwritten)
        known = tuple(unwritten.findings.values()) if unwritten is not None else ()
        return (*known, Finding(self._absent, None)) if self._absent else known

    def say(self, job: TrainJob, finding: Finding) -> bool:
        """Returns whether this is new: neither written nor said before."""
        key, uid = Key(job.namespace, job.name), uid_of(job)
        unwritten = self._records.find(key, uid, _Unwritten)
        before = unwritten.findings.get(finding.types) if unwritten is not None else None
        if shows(job.status_or_empty.conditions or (), finding):
            if unwritten is not None and before is not None:
                del unwritten.findings[finding.types]
                if not unwritten.findings:
                    self._records.drop(key, _Unwritten)
            return False
        self._records.of(key, uid).part(_Unwritten).findings[finding.types] = finding
        if finding == before:
            return False
        self.changed(key)
        return True


@dataclass(frozen=True, slots=True)
class FindingSource:
    _findings: JobFindings
    types: frozenset[str]

    def say(self, job: TrainJob, condition: Condition | None) -> bool:
        """The job has this condition of those of the part; None: it has none of them. Returns whether that is new."""
        return self._findings.say(job, Finding(self.types, condition))


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
