# SPDX-License-Identifier: Apache-2.0
"""What follows from the end of an attempt, what is on record of it, and how far it came.

`judge` is a pure function of the counts so far and of why the attempt ended. Failures count in a row: an attempt that
has come further than every one before clears the counts. Lack of memory and hangs have budgets within the retries.
Infrastructure is paid by a budget of its own, over the whole life of the job; preemptions and suspensions cost nothing.

The summary is a key of the record of failures. It is written before what it justifies, so a manager that starts goes on
from it. Lost or edited, the counts begin from those of the JobSet, and are never lower.

A report of progress is written some seconds after it was made, so the job may show the last one of an attempt that has
ended while the next one runs. Report and start of a pod are times of the same node in whole seconds, so they can be
compared. The pods of an attempt start after all pods of the one before have ended.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from trainwright.api.manifest import ManifestError, dump, load
from trainwright.api.messages import counted
from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_RETRIES
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
    Span,
)
from trainwright.progress import CHECKPOINT_STEP, ReadError, read

MOST_ATTEMPTS = 100
"""In all; suspensions do not count."""
SAME = 3
"""So many failures that are the same, one after the other, end a job."""
PROGRESS_SECONDS = 3600.0
"""An attempt without reports that ran for so long has made progress."""
_PAUSES = (0.0, 10.0, 60.0, 300.0, 600.0)
_PAUSES_OF_INFRASTRUCTURE = (0.0, 30.0, 120.0, 300.0)
LONGEST_HOLD = _PAUSES[-1] + 60.0
"""With the difference of two clocks: a longer hold was written by a clock that has been set back since."""
LONGEST_PAUSE_IN_QUEUE = 10.0
"""The quota stays reserved meanwhile, and Kueue evicts a job whose pods are not ready for long, which may end it."""
AVOIDED = timedelta(days=1)
KEY = "summary"
_STEP = "current_step"
"""The metric of a report with the last step."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a job has reported."""

    step: float | None = None
    """Not below the checkpoint."""
    percent: int | None = None
    at: str = ""
    """When it was reported, in whole seconds; empty: not known."""
    checkpoint: float | None = None
    """The step of the last checkpoint that was noted."""

    def or_further(self, other: "Position") -> "Position":
        """The furthest of what two reports of one attempt say."""
        return replace(
            self,
            step=furthest(self.step, other.step),
            percent=furthest(self.percent, other.percent),
            checkpoint=furthest(self.checkpoint, other.checkpoint),
            at=max(self.at, other.at),
        )


_Number = TypeVar("_Number", int, float)


def furthest(*numbers: _Number | None) -> _Number | None:
    """The highest number that is known."""
    return max((one for one in numbers if one is not None), default=None)


_Record = TypeVar("_Record", bound=msgspec.Struct)


class Counts(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What the attempts so far have cost, and how far they came."""

    causes: dict[str, int] = msgspec.field(default_factory=dict)
    """Attempts that ended, by cause."""
    row: dict[str, int] = msgspec.field(default_factory=dict)
    """By budget: failures since the last progress."""
    step: float | None = None
    """The best one of all attempts."""
    percent: int | None = None
    checkpoint: float | None = None
    same: str = ""
    """The fingerprint of the last failure of code."""
    same_step: float | None = None
    times: int = 0
    """How often it came, one after the other."""

    @property
    def attempts(self) -> int:
        """How many attempts have failed; suspensions are none."""
        return sum(self.causes.values()) - self.causes.get(FailureCause.SUSPENDED, 0)

    def reached(self, position: Position) -> "Counts":
        """The counts with the best position, if that is this one."""
        counts, best = copied(self), self.best.or_further(position)
        counts.step, counts.percent, counts.checkpoint = best.step, best.percent, best.checkpoint
        return counts

    @property
    def best(self) -> Position:
        """The furthest that any attempt came."""
        return Position(self.step, self.percent, checkpoint=self.checkpoint)


def copied(record: _Record) -> _Record:
    """A copy that shares nothing, in a fifteenth of the time of `deepcopy`: each look at a job makes one."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=type(record))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    why: Attribution
    fingerprint: str = ""
    """See `causes.fingerprint`."""
    position: Position = Position()
    """As last reported."""
    seconds: float | None = None
    """How long its pods ran, if that is known."""
    in_queue: bool = False
    """Whether a queue watches how soon pods are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows from the end of an attempt."""

    counts: Counts
    reason: str = ""
    """Of the condition Failed; empty: the job does not end, and another attempt follows."""
    message: str = ""
    pause: float = 0.0
    """Seconds before the next attempt."""
    paid: str = ""
    """Which budget has paid, in words: `1 of 3 retries used`."""


def judge(before: Counts, ended: EndedAttempt, wanted: Declaration) -> Judgement:
    """What follows from the end of an attempt."""
    counts, cause, budget = before.reached(ended.position), ended.why.cause, ended.why.charged
    counts.causes[cause] = counts.causes.get(cause, 0) + 1
    if _is_further(before, ended):
        counts.row = {}
    if cause is FailureCause.SUSPENDED:
        return Judgement(counts=counts)
    counts.row[budget or "free"] = used = counts.row.get(budget or "free", 0) + 1
    _compare(counts, ended)
    paid = _paid(counts, budget, wanted)
    reason, message = _end(counts, ended, wanted)
    if reason:
        return Judgement(counts=counts, reason=reason, message=message, paid=paid)
    pauses = _PAUSES_OF_INFRASTRUCTURE if budget in (INFRASTRUCTURE, FREE) else _PAUSES
    pause = 0.0 if ended.why.is_past else pauses[min(used, len(pauses)) - 1]
    pause = min(pause, LONGEST_PAUSE_IN_QUEUE) if ended.in_queue else pause
    return Judgement(counts=counts, pause=pause, paid=paid)


def _end(counts: Counts, ended: EndedAttempt, wanted: Declaration) -> tuple[str, str]:
    """Reason and message of the end of the job; two empty texts: another attempt follows."""
    cause, budget, text = ended.why.cause, ended.why.charged, ended.why.text
    if budget == FINAL:
        return REASON_CANNOT_RUN, f"{text}, which a retry would not change"
    if counts.times >= SAME and cause is FailureCause.CODE:
        at = f" at step {ended.position.step:g}" if ended.position.step is not None else ""
        times = "three times" if counts.times == SAME else f"{counts.times} times"
        return REASON_SAME_FAILURE, f"the same failure {times}{at}, so a retry would not help: {text}"
    if exceeded := [one for one in _paying(budget) if _spent(counts, one) > _limit(one, wanted)]:
        what = "without progress" if budget != INFRASTRUCTURE else "because of infrastructure"
        number, total = _spent(counts, exceeded[0]), sum(counts.causes.values())
        which = f" {what}" if number == total else f", {number} of them {what}"
        # What is to be done with a trial is said of its search.
        advice = "" if wanted.is_trial else f"; {_advice(exceeded[0], wanted)}"
        reason = REASON_HANG if budget == HANG else REASON_RESTARTS_EXHAUSTED
        return reason, f"the job failed after {counted(total, 'attempt')}{which}; the last: {text}{advice}"
    if counts.attempts >= MOST_ATTEMPTS:
        most = f"the job failed after {counts.attempts} attempts, the most that are made; the last: {text}"
        return REASON_RESTARTS_EXHAUSTED, most
    return "", ""


def retries_left(counts: Counts, wanted: Declaration) -> int:
    """How many failures of the training the next JobSet may restart after."""
    return max(0, wanted.retries - _spent(counts, RETRIES))


def _is_further(before: Counts, ended: EndedAttempt) -> bool:
    """Whether the attempt has made progress, compared with every one before.

    In a job that keeps checkpoints, the steps after the last one are lost, so repeating them is no progress.
    """
    own, best = ended.position, before.best
    if own.checkpoint is None and best.checkpoint is not None:
        return False
    for reached, so_far in ((own.checkpoint, best.checkpoint), (own.step, best.step), (own.percent, best.percent)):
        if reached is not None:
            return so_far is None or reached > so_far
    return (ended.seconds or 0.0) >= PROGRESS_SECONDS


def _compare(counts: Counts, ended: EndedAttempt) -> None:
    """Count how often the same failure came. Ends by the cluster in between do not interrupt the row."""
    if ended.why.cause is not FailureCause.CODE:
        return
    if ended.fingerprint and (ended.fingerprint, ended.position.step) == (counts.same, counts.same_step):
        counts.times += 1
    else:
        counts.same, counts.same_step = ended.fingerprint, ended.position.step
        counts.times = 1 if ended.fingerprint else 0


_WITHIN = (MEMORY, HANG)
"""Budgets within the retries."""


def _paying(budget: str) -> tuple[str, ...]:
    """The budgets that a failure counts against, the one first that most of them count against."""
    return (RETRIES, budget) if budget in _WITHIN else (budget,)


def _spent(counts: Counts, budget: str) -> int:
    if budget == INFRASTRUCTURE:
        return counts.causes.get(FailureCause.INFRASTRUCTURE, 0)
    return sum(counts.row.get(one, 0) for one in ((RETRIES, *_WITHIN) if budget == RETRIES else (budget,)))


def _limit(budget: str, wanted: Declaration) -> float:
    limits = {RETRIES: wanted.retries, MEMORY: wanted.memory, INFRASTRUCTURE: wanted.infrastructure, HANG: wanted.hang}
    return limits.get(budget, float("inf"))


_FOR: Mapping[str, str] = {
    RETRIES: "",
    MEMORY: " for lack of memory",
    HANG: " for hangs",
    INFRASTRUCTURE: " for ends by the cluster",
}


def _paid(counts: Counts, budget: str, wanted: Declaration) -> str:
    if budget in (FREE, FINAL):
        return "at no charge" if budget == FREE else ""
    first, *within = _paying(budget)
    limit = int(_limit(first, wanted))
    noun = "infrastructure retries" if first == INFRASTRUCTURE else "retries"
    text = f"{min(_spent(counts, first), limit)} of {limit} {noun} used"
    for one in within:
        if (own := int(_limit(one, wanted))) < limit:
            text += f", {min(_spent(counts, one), own)} of {own}{_FOR[one]}"
    return text


def _advice(budget: str, wanted: Declaration) -> str:
    """Which budget is used up, and what raises it."""
    limit = int(_limit(budget, wanted))
    name = f"annotation {ANNOTATION_RETRIES} (local run: --retries)"
    if budget == INFRASTRUCTURE:
        name = "recovery.retriesInfrastructure of the manager's Configuration"
    if not limit:
        return f"it has no retries{_FOR[budget]}: {name} gives it some"
    used = f"its {limit} retries{_FOR[budget]} are" if limit > 1 else f"its only retry{_FOR[budget]} is"
    return f"{used} used up: raise {name}"


class Summary(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What is on record of a job's recovery."""

    jobset: str = ""
    """The uid of the JobSet whose attempts were judged last."""
    base: int = 0
    """Attempts before the first one of that JobSet, or before its last resume."""
    judged: int = 0
    """Attempts that have ended and are judged: the number of the last one, from 1."""
    counted: int = 0
    """How many of the JobSet's restarts count towards its limit, when the last attempt was judged."""
    counts: Counts = msgspec.field(default_factory=Counts)
    before: Counts = msgspec.field(default_factory=Counts)
    """The counts before the last attempt, for the case that its cause is corrected."""
    last_cause: str = ""
    provisional_until: str = ""
    """Until then, later evidence may correct the cause of the last attempt; empty: its cause is final."""
    hold_until: str = ""
    """The next attempt begins then; empty: at once."""
    hang: bool = False
    """Whether the ranks are being stopped, because the attempt that runs stands still."""
    replace: str = ""
    """The uid of the JobSet that gives way to a new one."""
    avoided: dict[str, str] = msgspec.field(default_factory=dict)
    """Nodes that the job avoids, and since when."""
    kept: list[str] = msgspec.field(default_factory=list)
    """Suspect nodes that it does not avoid, since there is a reason; users were told."""
    end_reason: str = ""
    """The job ends with this reason."""
    end_message: str = ""
    paid: str = ""
    """What the last attempt has cost, in words."""
    why: str = ""
    """Why the last attempt ended, in words."""

    def avoids(self, now: datetime) -> list[str]:
        """The nodes that are avoided, by name: a node that was repaired is used again after a day."""
        return sorted(node for node, at in self.avoided.items() if at >= format_time(now - AVOIDED))


NOTHING = Summary()
"""Of a job none of whose attempts has ended; all such jobs share it, so it is never changed."""


def summary_of(data: Mapping[str, str] | None) -> Summary | None:
    """The summary that a record holds; None: it holds none, or somebody has edited it so that it cannot be read."""
    text = (data or {}).get(KEY)
    if text is None:
        return None
    try:
        return msgspec.convert(load(text), Summary)
    except (ManifestError, msgspec.ValidationError):
        return None


def text_of(summary: Summary) -> str:
    """The summary as the record holds it."""
    return dump(msgspec.to_builtins(summary), sort_keys=False)


def count_from_jobset(summary: Summary, jobset: str, judged: int, counted: int) -> None:
    """Begin from what the JobSet has counted, where no record says how its attempts ended.

    `counted` of the attempts, which are `judged` before it and of it, count towards its limit.
    """
    if not judged or summary.counts.causes:
        return
    causes = {FailureCause.CODE: counted, FailureCause.INFRASTRUCTURE: judged - counted}
    summary.jobset, summary.judged, summary.counted = jobset, judged, counted
    summary.counts = Counts(
        causes={cause: n for cause, n in causes.items() if n}, row={RETRIES: counted} if counted else {}
    )


def position_of(report: TrainerStatus | None) -> Position:
    """The last step and percentage, and the step of the last checkpoint."""
    if report is None:
        return Position()
    metrics = {metric.name: metric.value for metric in report.metrics or ()}
    return _position(metrics, report.progress_percentage, report.last_updated_time)


def position_left(text: str) -> Position:
    """How far a training came that has left its last report as the termination message; nothing if it left none."""
    try:
        found = read(text)
    except ReadError:
        return Position()
    return _position(found.metrics, found.percentage, found.time.isoformat() if found.time is not None else "")


def _position(metrics: Mapping[str, str], percent: int | None, at: str | None) -> Position:
    checkpoint, step = (_number(metrics.get(name, "")) for name in (CHECKPOINT_STEP, _STEP))
    return Position(
        step=furthest(step, checkpoint),
        percent=percent,
        at=format_time(parse(at)) if at else "",
        checkpoint=checkpoint,
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_since(position: Position, span: Span, before: Span | None) -> bool:
    """Whether a report was made by this attempt or a later one; True where it is not known.

    `before` is the span of the attempt before; None: there is none.
    """
    if not position.at or span.began is None:
        return True
    at, began = parse(position.at), span.began.replace(microsecond=0)
    if at != began:
        return at > began
    # The second in which one attempt ended and the next one began does not tell: it counts as the earlier one's.
    return before is None or (before.ended is not None and before.ended.replace(microsecond=0) < at)
