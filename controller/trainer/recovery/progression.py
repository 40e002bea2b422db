# SPDX-License-Identifier: Apache-2.0
"""Judges the attempts of one job that have ended: what each has cost, and what follows. No I/O here.

What follows is in the summary, which is written to the record before anybody acts on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce

import msgspec

from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import dig, uid_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1.queues import is_queued
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.failures.record import Entry, name_of_record
from trainwright.controller.trainer.job.pods import INITIALIZERS, attempt_of
from trainwright.controller.trainer.recovery.attempts import (
    VERDICT_SECONDS,
    Glance,
    KnownAttempts,
    goes,
    is_partial,
    lacks_ranks,
)
from trainwright.controller.trainer.recovery.causes import (
    FREE,
    HANG,
    INFRASTRUCTURE,
    Attribution,
    FailureCause,
    Span,
    Witness,
    attribute,
    fingerprint,
)
from trainwright.controller.trainer.recovery.nodes import still_avoided, suspect, why_not
from trainwright.controller.trainer.recovery.verdict import (
    EndedAttempt,
    Judgement,
    Position,
    Summary,
    at_least,
    copied,
    is_since,
    judge,
    position_left,
)

_NODES = 8
"""Of an attempt, that the record names."""


@dataclass(slots=True)
class Progression:
    """What a look at the attempts has given."""

    summary: Summary
    entries: dict[int, Entry]
    requeue_after: float | None = None
    """Seconds; None: an event will come."""
    told: list[str] = field(default_factory=list)
    """What users are told."""
    uncertain: int | None = None
    """An attempt whose nodes are worth a look."""
    suspect: tuple[str, str] = ("", "")
    """A node that the next attempt is to avoid, and why; two empty texts: none."""
    avoided: str = ""
    """What users are told of that."""


def advance(known: KnownAttempts, glance: Glance, entries: Mapping[int, Entry], wanted: Declaration) -> Progression:
    """Judge the attempts that have ended since the last look; `entries` are the recorded culprits by attempt.

    Call `observe` first.
    """
    uid = uid_of(glance.jobset)
    restarts, counted = glance.restarts, glance.counted
    found = copied(known.summary)
    if not found.judged:
        found = at_least(
            found, jobset=uid, base=glance.base, restarts=max(0, restarts - 1), counted=max(0, counted - 1)
        )
        found.counted = min(found.counted, counted)
    step = Progression(found, dict(entries))
    if found.jobset != uid:
        found.jobset, found.counted, found.replace = uid, 0, ""
    found.base = glance.base
    if found.end_reason or glance.completed:
        return step
    if found.hang:
        _go_on_after_hang(known, glance, step)
    if found.replace == uid:
        return step  # what still happens to it is no attempt: the next one has its number
    look = _Look(known, glance, step, wanted)
    for attempt in range(found.judged, glance.ended):
        if not look.judge_one(attempt):
            return step
    look.judge_suspension()
    _resume_whole(known, glance, step)
    look.correct()
    return step


def leave_node(known: KnownAttempts, glance: Glance, step: Progression, nodes: Sequence[Node]) -> None:
    """Let a new JobSet avoid the suspect node, unless that does more harm than good."""
    found, (node, why) = step.summary, step.suspect
    avoided = still_avoided(found.avoided, glance.now)
    witness = known.witnesses.get(found.judged - 1)
    started = witness.started if witness is not None else 0
    reason = "its JobSet makes the volumes of its claims, which a new one could not keep"
    if not makes_claims(glance.jobset):
        reason = why_not(glance.jobset, nodes, avoided, node, started)
    if reason:
        found.kept = [*found.kept, node]
        step.avoided = f"{why}, and attempt {found.judged + 1} does not avoid it: {reason}"
        return
    found.avoided = {name: found.avoided[name] for name in avoided} | {node: format_time(glance.now)}
    found.replace = uid_of(glance.jobset)
    step.avoided = f"{why}, attempt {found.judged + 1} avoids it: ask its administrator to look at it"


def restart_stalled(
    known: KnownAttempts, glance: Glance, entries: Mapping[int, Entry], wanted: Declaration, how: str
) -> Progression:
    """End the present attempt, which stands still; `how` says it in words."""
    step, text = Progression(copied(known.summary), dict(entries)), how.partition(";")[0]
    found = step.summary
    outcome = _Look(known, glance, step, wanted).charge(glance.current, Attribution(FailureCause.HANG, text))
    where = f"ConfigMap {name_of_record(glance.job.name)} has their last lines"
    if outcome.reason:
        found.end_reason, found.end_message = outcome.reason, outcome.message
        return step
    found.hang = True
    found.hold_until = format_time(glance.now + timedelta(seconds=outcome.pause)) if outcome.pause else ""
    number = f"{found.counts.row.get(HANG, 0)} of {wanted.hang}"
    step.told.append(f"{text}; the ranks are restarted ({number}); {where}")
    return step


def stood(known: KnownAttempts, before: Progression, glance: Glance, where: str, end: tuple[str, str]) -> Progression:
    """Add where the ranks of an attempt stood that was stopped, and then let the job end, if it does.

    `end`: reason and message; two empty texts: it goes on.
    """
    step = Progression(copied(known.summary), dict(before.entries))
    found, attempt, (reason, message) = step.summary, glance.current, end
    if where:
        # The sentence of the end is short: where the ranks stood says more than since when.
        message = message.replace(found.why, f"it stood still: {where}")
        found.why = f"{found.why}; {where}"
        if attempt in step.entries:
            step.entries[attempt] = msgspec.structs.replace(step.entries[attempt], message=found.why)
        step.told.append(f"attempt {attempt + 1} stood still: {where}")
    elif reason:
        message = f"{message}; ConfigMap {name_of_record(glance.job.name)} has the last lines of all ranks"
    if reason:
        found.end_reason, found.end_message = reason, message
    return step


def _go_on_after_hang(known: KnownAttempts, glance: Glance, step: Progression) -> None:
    """The next attempt begins once no pod of the one that stood still runs.

    Pods that had succeeded before stay. A Job does not run such a rank again, so it takes a new JobSet.
    """
    found = step.summary
    if glance.failed_since is not None:
        # A rank failed while it was stopped, and Kubernetes had no retry left.
        found.hang = False
        found.judged = max(found.judged, glance.ended)
        found.replace = uid_of(glance.jobset) if not makes_claims(glance.jobset) else ""
    elif glance.jobset.spec_or_empty.suspend and not any(map(goes, glance.pods)):
        found.hang = False
        found.replace = uid_of(glance.jobset) if lacks_ranks(known, glance) and not makes_claims(glance.jobset) else ""


def _resume_whole(known: KnownAttempts, glance: Glance, step: Progression) -> None:
    """Let all ranks of a suspended job begin again when it is resumed, and at once.

    The time that it waits counts as its pause: a queue that admits it evicts it if its pods are not ready in time.
    """
    found = step.summary
    if glance.job.spec_or_empty.suspend:
        found.hold_until = ""
    if is_partial(known, glance) and not any(map(goes, glance.pods)):
        found.replace = uid_of(glance.jobset)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the attempts of a job: judges them, and puts what they have cost into `step`."""

    known: KnownAttempts
    glance: Glance
    step: Progression
    wanted: Declaration

    def judge_one(self, attempt: int) -> bool:
        """Judge one attempt that has ended. Returns False while evidence may still come that changes the end."""
        glance, step, found, now = self.glance, self.step, self.step.summary, self.glance.now
        is_last = attempt == glance.ended - 1
        why = self._why(attempt)
        failed_since = glance.failed_since if is_last else None
        left = VERDICT_SECONDS - (now - (failed_since or now)).total_seconds()
        if failed_since is not None and not why.is_certain and left > 0 and self._ends_without_more(attempt, why):
            step.uncertain, step.requeue_after = attempt, min(left, 10.0)
            return False
        is_counted = why.charged not in (FREE, INFRASTRUCTURE)
        outcome = self.charge(attempt, why, step.entries.get(attempt))
        found.counted = glance.counted if is_last else min(glance.counted, found.counted + int(is_counted))
        if not is_last:
            return True
        # Where a rule of its own has ended the JobSet, Kubernetes' verdict stands.
        is_ruled = failed_since is not None and glance.ended_by_rule and is_counted
        if is_ruled or outcome.reason:
            # What Kubernetes has ended keeps its reason. It is on record, too: somebody may delete the JobSet.
            failed = glance.failed
            reason, message = (failed.reason, failed.message) if failed else (outcome.reason, outcome.message)
            found.end_reason, found.end_message = reason, outcome.message or message
            return True
        if failed_since is not None:
            if makes_claims(glance.jobset):
                found.end_reason = glance.failed.reason if glance.failed is not None else ""
                found.end_message = (
                    "its JobSet has no restart left, and a new one could not keep the volumes of its claims; the last: "
                    f"{why.text}"
                )
                return True
            found.replace = uid_of(glance.jobset)
        if self.wanted.avoids_nodes:
            step.suspect = suspect(step.entries, attempt, (*still_avoided(found.avoided, now), *found.kept), now)
        started = any(attempt_of(pod) > attempt and dig(pod, "status.phase") == "Running" for pod in glance.pods)
        pause = 0.0 if started else outcome.pause
        found.hold_until = format_time(now + timedelta(seconds=pause)) if pause else ""
        held = f", in {pause:g} s" if pause else ""
        step.told.append(f"attempt {attempt + 2} begins{held} ({outcome.paid}): {why.text}")
        if pause and attempt in step.entries:
            step.entries[attempt] = msgspec.structs.replace(step.entries[attempt], held_seconds=int(pause))
        if not why.is_certain and left > 0:
            self._leave_open(attempt, format_time(now + timedelta(seconds=left)))
            step.uncertain, step.requeue_after = attempt, 10.0
        return True

    def _ends_without_more(self, attempt: int, why: Attribution) -> bool:
        """Whether the job ends with a Failed JobSet, unless evidence comes that the cluster was the reason.

        Where another attempt follows in any case, or none, nothing is waited for.
        """
        if makes_claims(self.glance.jobset):
            return False
        position, entry = self._credit(attempt), self.step.entries.get(attempt)
        counts, other = self.step.summary.counts, replace(why, cause=FailureCause.INFRASTRUCTURE)
        ends, ends_then = (
            judge(counts, self._ended(attempt, entry, one, position), self.wanted).reason for one in (why, other)
        )
        return bool(ends or self.glance.ended_by_rule) and not ends_then

    def judge_suspension(self) -> None:
        """An attempt that its owner or a queue has suspended has ended; the resume begins the next one."""
        glance, attempt = self.glance, self.glance.current
        is_suspended = glance.job.spec_or_empty.suspend and glance.jobset.spec_or_empty.suspend
        if not is_suspended or glance.failed_since is not None or self.step.summary.judged > attempt:
            return
        witness = self.known.witnesses.get(attempt)
        if witness is not None and witness.ran:
            self.charge(attempt, attribute(None, witness, self.wanted, suspended=True))

    def correct(self) -> None:
        """Judge the last attempt again, if evidence has come of another culprit, or that the cluster was the reason."""
        step, found, attempt = self.step, self.step.summary, self.step.summary.judged - 1
        if not found.provisional_until:
            return
        if found.provisional_until <= format_time(self.glance.now):
            self._leave_open(attempt, "")
            return
        step.uncertain = attempt
        step.requeue_after = min(step.requeue_after or 10.0, 10.0)
        witness = self.known.witnesses.get(attempt)
        if witness is None:
            return
        entry = step.entries.get(attempt)
        why = attribute(entry, witness, self.wanted)
        if (why.cause, why.text) == (found.last_cause, found.why):
            return
        until, hold = found.provisional_until, found.hold_until
        position = Position()
        if entry is not None:
            position = Position(entry.step, entry.percent, checkpoint=entry.checkpoint)
        ended = self._ended(attempt, entry, why, position)
        outcome = judge(found.before, ended, self.wanted)
        self._take(attempt, ended, outcome)
        found.hold_until = hold
        self._leave_open(attempt, "" if why.is_certain or outcome.reason else until)
        if outcome.reason:
            found.end_reason, found.end_message = outcome.reason, outcome.message
        step.told.append(f"attempt {attempt + 1} ended because of {why.cause} ({outcome.paid}): {why.text}")

    def charge(self, attempt: int, why: Attribution, entry: Entry | None = None) -> Judgement:
        """Judge an attempt that has ended now, and put what it has cost on record. `entry` is its culprit."""
        found, position = self.step.summary, self._credit(attempt)
        found.before = found.counts
        ended = self._ended(attempt, entry, why, position)
        outcome = judge(found.before, ended, self.wanted)
        self._take(attempt, ended, outcome)
        return outcome

    def _why(self, attempt: int) -> Attribution:
        glance, entry = self.glance, self.step.entries.get(attempt)
        if attempt < glance.base:
            return Attribution(FailureCause.INFRASTRUCTURE, "its JobSet was deleted")
        has_failed = attempt == glance.ended - 1 and glance.failed_since is not None
        if entry is not None and entry.replicated_job in INITIALIZERS and has_failed:
            return Attribution(FailureCause.CONFIGURATION, f"{entry.where} failed for good")
        witness = self.known.witnesses.get(attempt)
        if witness is None and entry is None and self._is_late_restart(attempt):
            return attribute(None, Witness(), self.wanted, suspended=True)
        if witness is None and entry is None:
            # No pod of it was seen, so what the JobSet has charged counts.
            is_counted = glance.counted > self.step.summary.counted or (has_failed and not glance.ended_by_rule)
            cause = FailureCause.CODE if is_counted else FailureCause.INFRASTRUCTURE
            return Attribution(cause, "it ended while no manager ran")
        return attribute(entry, witness or Witness(), self.wanted)

    def _is_late_restart(self, attempt: int) -> bool:
        """Whether JobSet has counted on without an attempt: a rank failed while its job was being suspended.

        The attempt of that rank had ended by the suspension already, and the next one begins when the job is resumed.
        """
        found = self.step.summary
        is_suspended = bool(self.glance.jobset.spec_or_empty.suspend)
        return is_suspended and attempt == found.judged and found.last_cause == FailureCause.SUSPENDED

    def _credit(self, attempt: int) -> Position:
        """How far an attempt came that has ended now.

        The job shows one report: perhaps a late one of the attempt before, or the first one of the next attempt.
        """
        found, own = self.step.summary, self._own(attempt)
        position = self.glance.position
        if self._is_of_next(position, attempt):
            best = found.counts
            return own or Position(best.step, best.percent, is_own=False, checkpoint=best.checkpoint)
        if self._is_since(position, attempt):
            return position.or_further(own) if own is not None else position
        self._credit_late(attempt - 1, position)
        return own or replace(position, is_own=False)

    def _own(self, attempt: int) -> Position | None:
        """What an attempt reported, as its containers have left it or as it was seen before; None: nothing is known."""
        witness, seen = self.known.witnesses.get(attempt), self.known.reported.get(attempt)
        # Of a file that was not read in time, or a report to another replica, the termination message tells.
        left = [position_left(text) for text in witness.left.values()] if witness is not None else []
        if seen is not None and not self._is_of_next(seen, attempt):
            left.append(seen)
        own = [one for one in left if one.at]
        return reduce(Position.or_further, own) if own else None

    def _credit_late(self, attempt: int, position: Position) -> None:
        """Credit an attempt with a report that was stored after the verdict: it may have made progress by it.

        The report may also be of the first second of the next attempt, so what is on record is never lowered.
        """
        found, last = self.step.summary, self.step.entries.get(attempt)
        cause = next((one for one in FailureCause if one == found.last_cause), None)
        # A record that was lost or edited does not say what the attempt has cost.
        is_known = sum(found.before.causes.values()) + 1 == sum(found.counts.causes.values())
        if last is None or cause is None or not is_known or not self._is_since(position, attempt):
            # The attempt cannot be judged again; later ones are still compared with what it reached.
            found.counts = found.counts.reached(position)
            return
        position = position.or_further(Position(last.step, last.percent, checkpoint=last.checkpoint))
        again = self._ended(attempt, last, Attribution(cause, found.why), position)
        found.counts = judge(found.before, again, self.wanted).counts
        self.step.entries[attempt] = msgspec.structs.replace(
            last, step=position.step, percent=position.percent, checkpoint=position.checkpoint
        )

    def _is_of_next(self, position: Position, attempt: int) -> bool:
        following = self._span(attempt + 1)
        return following.began is not None and is_since(position, following, self._span(attempt))

    def _is_since(self, position: Position, attempt: int) -> bool:
        return is_since(position, self._span(attempt), self._span(attempt - 1) if attempt else None)

    def _span(self, attempt: int) -> Span:
        """When an attempt began and ended, as it was seen or as the record says."""
        witness, entry = self.known.witnesses.get(attempt), self.step.entries.get(attempt)
        if witness is not None and witness.span.began is not None:
            return witness.span
        return Span(began=moment(entry.started) if entry is not None else None)

    def _ended(self, attempt: int, entry: Entry | None, why: Attribution, position: Position) -> EndedAttempt:
        witness = self.known.witnesses.get(attempt) or Witness()
        seen = (self.glance.now - witness.ran_since).total_seconds() if witness.ran_since is not None else None
        return EndedAttempt(
            why=why,
            fingerprint=fingerprint(entry) if entry is not None else "",
            position=position,
            # A manager that started in the middle of the attempt has seen less than its pods say.
            seconds=max(seen, witness.ran_seconds) if seen is not None else None,
            in_queue=is_queued(self.glance.job),
        )

    def _take(self, attempt: int, ended: EndedAttempt, outcome: Judgement) -> None:
        """Put what an attempt has cost on record."""
        found, why = self.step.summary, ended.why
        found.judged, found.counts = attempt + 1, outcome.counts
        found.last_cause, found.why, found.paid = why.cause, why.text, outcome.paid
        found.hold_until = ""
        self._leave_open(attempt - 1, "")
        entry = self.step.entries.get(attempt) or Entry(attempt=attempt, pod="", message=why.text)
        began = self._span(attempt).began
        self.step.entries[attempt] = msgspec.structs.replace(
            entry,
            cause=why.cause,
            charged=why.charged,
            provisional=False,
            started=format_time(began) if began is not None else "",
            ended=entry.ended or format_time(self.glance.now),
            nodes=self._nodes_of(attempt),
            node=why.node,
            hardware=why.is_hardware,
            step=ended.position.step if ended.position.is_own else None,
            percent=ended.position.percent if ended.position.is_own else None,
            checkpoint=ended.position.checkpoint if ended.position.is_own else None,
        )

    def _leave_open(self, attempt: int, until: str) -> None:
        """Let later evidence correct the cause of the last attempt until then; empty: its cause is final."""
        self.step.summary.provisional_until = until
        if attempt in self.step.entries:
            self.step.entries[attempt] = msgspec.structs.replace(self.step.entries[attempt], provisional=bool(until))

    def _nodes_of(self, attempt: int) -> tuple[str, ...]:
        """The nodes of an attempt for the record: eight of them, then how many more."""
        names = list(self.known.witnesses[attempt].nodes) if attempt in self.known.witnesses else []
        return tuple(names) if len(names) <= _NODES else (*names[:_NODES], f"{len(names) - _NODES} more")
