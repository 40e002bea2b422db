# SPDX-License-Identifier: Apache-2.0
"""What follows from the end of an attempt: a pure function of the counts so far and of why it ended.

Failures count in a row: an attempt that has come further than every one before clears the counts. Infrastructure is
paid by a budget of its own, over the whole life of the job; preemptions and suspensions cost nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from trainwright.api.messages import counted
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.job.status import (
    REASON_CANNOT_RUN,
    REASON_HANG,
    REASON_RESTARTS_EXHAUSTED,
    REASON_SAME_FAILURE,
)
from trainwright.controller.trainer.recovery.causes import (
    FINAL,
    FREE,
    HANG,
    INFRASTRUCTURE,
    MEMORY,
    RETRIES,
    Attribution,
    FailureCause,
)

MOST_ATTEMPTS = 100
"""In all; suspensions do not count."""
SAME = 3
"""So many failures that are the same, one after the other, end a job."""
PROGRESS_SECONDS = 3600.0
"""An attempt without reports that ran for so long has made progress."""
_PAUSES = (0.0, 10.0, 60.0, 300.0, 600.0)
_PAUSES_OF_INFRASTRUCTURE = (0.0, 30.0, 120.0, 300.0)
LONGEST_PAUSE_IN_QUEUE = 120.0
"""Queues take the quota from a job whose pods are not ready for long."""


class Counts(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What the attempts so far have cost, and how far they came."""

    causes: dict[str, int] = msgspec.field(default_factory=dict)
    """Attempts that ended, by cause."""
    row: dict[str, int] = msgspec.field(default_factory=dict)
    """By budget: failures since the last progress."""
    step: float | None = None
    """The best one of all attempts."""
    percent: int | None = None
    same: str = ""
    """The fingerprint of the last failure of code."""
    same_step: float | None = None
    times: int = 0
    """How often it came, one after the other."""

    @property
    def attempts(self) -> int:
        """How many attempts have failed; suspensions are none."""
        return sum(self.causes.values()) - self.causes.get(FailureCause.SUSPENDED, 0)

    def reached(self, step: float | None, percent: int | None) -> "Counts":
        """The counts with the best position, if that is this one."""
        steps = [one for one in (self.step, step) if one is not None]
        percents = [one for one in (self.percent, percent) if one is not None]
        return msgspec.structs.replace(self.copy(), step=max(steps, default=None), percent=max(percents, default=None))

    def copy(self) -> "Counts":
        return msgspec.structs.replace(self, causes=dict(self.causes), row=dict(self.row))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    why: Attribution
    fingerprint: str = ""
    """See `causes.fingerprint`."""
    step: float | None = None
    """As last reported."""
    percent: int | None = None
    has_reported: bool = True
    """Whether it has reported this itself; else an attempt before it has."""
    seconds: float | None = None
    """How long its pods ran, if that is known."""
    in_queue: bool = False
    """Whether a queue watches how soon pods are ready."""


class Course(StrEnum):
    RETRY = "Retry"
    END = "End"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows from the end of an attempt."""

    course: Course
    counts: Counts
    reason: str = ""
    """Of the condition Failed, if the job ends."""
    message: str = ""
    pause: float = 0.0
    """Seconds before the next attempt."""
    paid: str = ""
    """Which budget has paid, in words: `1 of 3 retries used`."""


def judge(before: Counts, ended: EndedAttempt, wanted: Declaration) -> Judgement:
    """What follows from the end of an attempt."""
    counts, cause, budget = before.reached(ended.step, ended.percent), ended.why.cause, ended.why.charged
    counts.causes[cause] = counts.causes.get(cause, 0) + 1
    if _is_further(before, ended):
        counts.row = {}
    if cause is FailureCause.SUSPENDED:
        return Judgement(course=Course.RETRY, counts=counts)
    counts.row[budget or "free"] = used = counts.row.get(budget or "free", 0) + 1
    _compare(counts, ended)
    paid = _paid(counts, budget, wanted)
    if budget == FINAL:
        return _ends(counts, REASON_CANNOT_RUN, f"{ended.why.text}, which a retry would not change", paid)
    if counts.times >= SAME and cause is FailureCause.CODE:
        at = f" at step {ended.step:g}" if ended.step is not None else ""
        times = "three times" if counts.times == SAME else f"{counts.times} times"
        text = f"the same failure {times}{at}, so a retry would not help: {ended.why.text}"
        return _ends(counts, REASON_SAME_FAILURE, text, paid)
    if _spent(counts, budget) > _limit(budget, wanted):
        what = "without progress" if budget != INFRASTRUCTURE else "because of infrastructure"
        number = used if budget != INFRASTRUCTURE else _spent(counts, budget)
        text = f"the job failed after {counted(number, 'attempt')} {what}; the last: {ended.why.text}"
        return _ends(counts, REASON_HANG if budget == HANG else REASON_RESTARTS_EXHAUSTED, text, paid)
    if counts.attempts >= MOST_ATTEMPTS:
        text = f"the job failed after {counts.attempts} attempts, the most that are made; the last: {ended.why.text}"
        return _ends(counts, REASON_RESTARTS_EXHAUSTED, text, paid)
    pauses = _PAUSES_OF_INFRASTRUCTURE if budget in (INFRASTRUCTURE, FREE) else _PAUSES
    pause = pauses[min(used, len(pauses)) - 1]
    pause = min(pause, LONGEST_PAUSE_IN_QUEUE) if ended.in_queue else pause
    return Judgement(course=Course.RETRY, counts=counts, pause=pause, paid=paid)


def retries_left(counts: Counts, wanted: Declaration) -> int:
    """How many failures by code the next JobSet may restart after."""
    return max(0, wanted.retries - counts.row.get(RETRIES, 0))


def _ends(counts: Counts, reason: str, message: str, paid: str) -> Judgement:
    return Judgement(course=Course.END, counts=counts, reason=reason, message=message, paid=paid)


def _is_further(before: Counts, ended: EndedAttempt) -> bool:
    """Whether the attempt has made progress, compared with every one before."""
    if ended.step is not None:
        return before.step is None or ended.step > before.step
    if ended.percent is not None:
        return before.percent is None or ended.percent > before.percent
    return ended.seconds is not None and ended.seconds >= PROGRESS_SECONDS


def _compare(counts: Counts, ended: EndedAttempt) -> None:
    """Count how often the same failure came. What the cluster does in between is no other failure."""
    if ended.why.cause is not FailureCause.CODE:
        return
    if ended.fingerprint and (ended.fingerprint, ended.step) == (counts.same, counts.same_step):
        counts.times += 1
    else:
        counts.same, counts.same_step, counts.times = ended.fingerprint, ended.step, 1 if ended.fingerprint else 0


def _spent(counts: Counts, budget: str) -> int:
    if budget == INFRASTRUCTURE:
        return counts.causes.get(FailureCause.INFRASTRUCTURE, 0)
    return counts.row.get(budget, 0)


def _limit(budget: str, wanted: Declaration) -> float:
    limits = {
        RETRIES: wanted.retries,
        MEMORY: wanted.memory,
        INFRASTRUCTURE: wanted.infrastructure,
        HANG: wanted.hang,
    }
    return limits.get(budget, float("inf"))


def _paid(counts: Counts, budget: str, wanted: Declaration) -> str:
    if budget in (FREE, FINAL):
        return "at no charge" if budget == FREE else ""
    words = {RETRIES: "", MEMORY: "memory ", INFRASTRUCTURE: "infrastructure ", HANG: "hang "}
    limit = int(_limit(budget, wanted))
    return f"{min(_spent(counts, budget), limit)} of {limit} {words[budget]}retries used"
