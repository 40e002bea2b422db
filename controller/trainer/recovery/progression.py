# SPDX-License-Identifier: Apache-2.0
"""Judges the attempts of one job that have ended: what each has cost, and what follows. No I/O here.

What follows is in the summary, which is written to the record before anybody acts on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

import msgspec

from trainwright.api.conditions import is_true
from trainwright.api.jobset.v1alpha2 import JobSet, ReplicatedJob
from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.messages import counted
from trainwright.api.nodes import selects
from trainwright.api.objects import Document, dig, name_of, wire
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
from trainwright.controller.trainer.recovery.verdict import (
    AVOIDED,
    Counts,
    EndedAttempt,
    Judgement,
    Position,
    Summary,
    copied,
    count_from_jobset,
    is_since,
    judge,
    position_left,
)

_NODES = 8
"""Of an attempt, that the record names."""
MOST_AVOIDED = 8
_REPEATED = 2
_SHARE = 10
_TOPOLOGY = ("kueue.x-k8s.io/podset-", "-topology")


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
    end: tuple[str, str] = ("", "")
    """Reason and message of the end of a job whose ranks are to be stopped first; two empty texts: it goes on."""


def advance(known: KnownAttempts, glance: Glance, entries: Mapping[int, Entry], wanted: Declaration) -> Progression:
    """Judge the attempts that have ended since the last look; `entries` are the recorded culprits by attempt.

    Call `observe` first.
    """
    found = copied(known.summary)
    if not found.judged:
        begun, limited = glance.base + max(0, glance.restarts - 1), max(0, glance.counted - 1)
        count_from_jobset(found, glance.uid, begun, limited)
    step = Progression(found, dict(entries))
    if found.jobset != glance.uid:
        found.jobset, found.counted, found.replace = glance.uid, 0, ""
    found.base = glance.base
    if found.end_reason or glance.completed:
        return step
    if found.hang and (glance.failed_since is not None or (glance.is_suspended and not any(map(goes, glance.pods)))):
        # The ranks are stopped. Where one has failed meanwhile and Kubernetes had no retry left, and where one had
        # succeeded, which its Job does not run again, it takes a new JobSet.
        found.hang, found.judged = False, max(found.judged, glance.ended)
        is_new = glance.failed_since is not None or lacks_ranks(known, glance)
        found.replace = glance.uid if is_new and not makes_claims(glance.jobset) else ""
    if found.replace == glance.uid:
        return step  # what still happens to it is no attempt: the next one has its number
    look = _Look(known, glance, step, wanted)
    for attempt in range(found.judged, glance.ended):
        if not look.judge_one(attempt):
            return step
    look.judge_suspension()
    if glance.job.spec_or_empty.suspend:
        # The time that it waits counts as its pause: a queue evicts a job whose pods are not ready in time.
        found.hold_until = ""
    if is_partial(known, glance) and not any(map(goes, glance.pods)):
        found.replace = glance.uid
    look.correct()
    return step


def leave_node(known: KnownAttempts, glance: Glance, step: Progression, nodes: Sequence[Node]) -> None:
    """Let a new JobSet avoid the suspect node, unless that does more harm than good."""
    found, (node, why) = step.summary, step.suspect
    avoided = found.avoids(glance.now)
    witness = known.witnesses.get(found.judged - 1)
    reason = "its JobSet makes the volumes of its claims, which a new one could not keep"
    if not makes_claims(glance.jobset):
        reason = why_not(glance.jobset, nodes, avoided, node, witness.started if witness is not None else 0)
    if reason:
        found.kept = [*found.kept, node]
        step.avoided = f"{why}, and attempt {found.judged + 1} does not avoid it: {reason}"
        return
    found.avoided = {name: found.avoided[name] for name in avoided} | {node: format_time(glance.now)}
    found.replace = glance.uid
    step.avoided = f"{why}, attempt {found.judged + 1} avoids it: ask its administrator to look at it"


def restart_stalled(
    known: KnownAttempts, glance: Glance, entries: Mapping[int, Entry], wanted: Declaration, how: str
) -> Progression:
    """End the present attempt, which stands still; `how` says it in words. `stood` says what follows."""
    step, text = Progression(copied(known.summary), dict(entries)), how.partition(";")[0]
    found = step.summary
    outcome = _Look(known, glance, step, wanted).charge(glance.current, Attribution(FailureCause.HANG, text))
    found.hang, step.end = True, (outcome.reason, outcome.message)
    if not outcome.reason:
        found.hold_until = format_time(glance.now + timedelta(seconds=outcome.pause)) if outcome.pause else ""
        number, where = found.counts.row.get(HANG, 0), f"ConfigMap {name_of_record(glance.job.name)}"
        told = f"{text}; the ranks are restarted ({number} of {wanted.hang}); {where} has their last lines"
        step.told.append(told)
    return step


def stood(known: KnownAttempts, before: Progression, glance: Glance, where: str) -> Progression:
    """Add where the ranks of an attempt stood that was stopped, and then let the job end, if it does."""
    step = Progression(copied(known.summary), dict(before.entries))
    found, attempt, (reason, message) = step.summary, glance.current, before.end
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
        is_open = not why.is_certain and left > 0
        if is_open and failed_since is not None and self._ends_without_more(attempt, why):
            step.uncertain, step.requeue_after = attempt, min(left, 10.0)
            return False
        is_counted = why.charged not in (FREE, INFRASTRUCTURE)
        outcome = self.charge(attempt, why)
        found.counted = glance.counted if is_last else min(glance.counted, found.counted + int(is_counted))
        if not is_last:
            return True
        # Where a rule of its own has ended the JobSet, Kubernetes' verdict stands.
        if outcome.reason or (glance.ended_by_rule and is_counted):
            # What Kubernetes has ended keeps its reason. It is on record, too: somebody may delete the JobSet.
            failed = glance.failed
            reason, message = (failed.reason, failed.message) if failed else (outcome.reason, outcome.message)
            found.end_reason, found.end_message = reason, outcome.message or message
            return True
        if glance.failed is not None and makes_claims(glance.jobset):
            text = "its JobSet has no restart left, and a new one could not keep the volumes of its claims; the last: "
            found.end_reason, found.end_message = glance.failed.reason, f"{text}{why.text}"
            return True
        if glance.failed is not None:
            found.replace = glance.uid
        if self.wanted.avoids_nodes:
            step.suspect = suspect(step.entries, attempt, (*found.avoids(now), *found.kept), now)
        started = any(attempt_of(pod) > attempt and dig(pod, "status.phase") == "Running" for pod in glance.pods)
        pause = 0.0 if started else outcome.pause
        found.hold_until = format_time(now + timedelta(seconds=pause)) if pause else ""
        held = f", in {pause:g} s" if pause else ""
        step.told.append(f"attempt {attempt + 2} begins{held} ({outcome.paid}): {why.text}")
        self._note(attempt, held_seconds=int(pause))
        if is_open:
            self._leave_open(attempt, format_time(now + timedelta(seconds=left)))
            step.uncertain, step.requeue_after = attempt, 10.0
        return True

    def _ends_without_more(self, attempt: int, why: Attribution) -> bool:
        """Whether the job ends with a Failed JobSet, unless evidence comes that the cluster was the reason.

        Where another attempt follows in any case, or none, nothing is waited for.
        """
        if makes_claims(self.glance.jobset):
            return False
        position, _ = self._credit(attempt)
        counts, other = self.step.summary.counts, replace(why, cause=FailureCause.INFRASTRUCTURE)
        ends, ends_then = (self._judged(counts, attempt, one, position).reason for one in (why, other))
        return bool(ends or self.glance.ended_by_rule) and not ends_then

    def judge_suspension(self) -> None:
        """An attempt that its owner or a queue has suspended has ended; the resume begins the next one."""
        glance, attempt = self.glance, self.glance.current
        is_suspended = glance.job.spec_or_empty.suspend and glance.is_suspended
        if not is_suspended or glance.failed_since is not None or self.step.summary.judged > attempt:
            return
        witness = self.known.witnesses.get(attempt)
        if witness is not None and witness.started:
            self.charge(attempt, attribute(None, witness, self.wanted, suspended=True))

    def correct(self) -> None:
        """Judge the last attempt again, if evidence has come of another culprit, or that the cluster was the reason."""
        step, found, attempt = self.step, self.step.summary, self.step.summary.judged - 1
        until, hold, entry = found.provisional_until, found.hold_until, step.entries.get(attempt)
        if until and until <= format_time(self.glance.now):
            self._leave_open(attempt, "")
        if not found.provisional_until:
            return
        step.uncertain, step.requeue_after = attempt, min(step.requeue_after or 10.0, 10.0)
        witness = self.known.witnesses.get(attempt)
        why = attribute(entry, witness, self.wanted) if witness is not None else None
        if why is None or (why.cause, why.text) == (found.last_cause, found.why):
            return
        position = _position_in(entry)
        outcome = self._judged(found.before, attempt, why, position)
        self._take(attempt, why, position, outcome)
        found.hold_until = hold
        self._leave_open(attempt, "" if why.is_certain or outcome.reason else until)
        if outcome.reason:
            found.end_reason, found.end_message = outcome.reason, outcome.message
        step.told.append(f"attempt {attempt + 1} ended because of {why.cause} ({outcome.paid}): {why.text}")

    def charge(self, attempt: int, why: Attribution) -> Judgement:
        """Judge an attempt that has ended now, and put what it has cost on record."""
        found, (position, is_own) = self.step.summary, self._credit(attempt)
        found.before = found.counts
        outcome = self._judged(found.before, attempt, why, position)
        self._take(attempt, why, position if is_own else Position(), outcome)
        return outcome

    def _why(self, attempt: int) -> Attribution:
        glance, found, entry = self.glance, self.step.summary, self.step.entries.get(attempt)
        if attempt < glance.base:
            return Attribution(FailureCause.INFRASTRUCTURE, "its JobSet was deleted")
        has_failed = attempt == glance.ended - 1 and glance.failed_since is not None
        if entry is not None and entry.replicated_job in INITIALIZERS and has_failed:
            return Attribution(FailureCause.CONFIGURATION, f"{entry.where} failed for good")
        witness = self.known.witnesses.get(attempt)
        if witness is not None or entry is not None:
            return attribute(entry, witness or Witness(), self.wanted)
        if glance.is_suspended and attempt == found.judged and found.last_cause == FailureCause.SUSPENDED:
            # JobSet has counted on without an attempt: a rank failed while its job was being suspended. The next one
            # begins when the job is resumed.
            return attribute(None, Witness(), self.wanted, suspended=True)
        # No pod of it was seen, so what the JobSet has charged counts.
        is_counted = glance.counted > found.counted or (has_failed and not glance.ended_by_rule)
        cause = FailureCause.CODE if is_counted else FailureCause.INFRASTRUCTURE
        return Attribution(cause, "it ended while no manager ran")

    def _credit(self, attempt: int) -> tuple[Position, bool]:
        """How far an attempt came that has ended now, and whether it has reported that itself.

        The job shows one report: perhaps a late one of the attempt before, or the first one of the next attempt.
        """
        shown, seen, own = self.glance.position, self.known.reported.get(attempt), []
        witness = self.known.witnesses.get(attempt)
        if witness is not None:
            # Of a file that was not read in time, or a report to another replica, the termination message tells.
            own = [one for one in map(position_left, witness.left.values()) if one.at]
        if seen is not None and seen.at and not self._is_of_next(seen, attempt):
            own.append(seen)
        if self._is_of_next(shown, attempt):
            shown = self.step.summary.counts.best
        elif self._is_since(shown, attempt):
            own.insert(0, shown)
        else:
            self._credit_late(attempt - 1, shown)
        return reduce(Position.or_further, own) if own else shown, bool(own)

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
        position = position.or_further(_position_in(last))
        found.counts = self._judged(found.before, attempt, Attribution(cause, found.why), position).counts
        self._note(attempt, step=position.step, percent=position.percent, checkpoint=position.checkpoint)

    def _is_of_next(self, position: Position, attempt: int) -> bool:
        return self._span(attempt + 1).began is not None and self._is_since(position, attempt + 1)

    def _is_since(self, position: Position, attempt: int) -> bool:
        return is_since(position, self._span(attempt), self._span(attempt - 1) if attempt else None)

    def _span(self, attempt: int) -> Span:
        """When an attempt began and ended, as it was seen or as the record says."""
        witness, entry = self.known.witnesses.get(attempt), self.step.entries.get(attempt)
        if witness is not None and witness.span.began is not None:
            return witness.span
        return Span(began=moment(entry.started) if entry is not None else None)

    def _judged(self, counts: Counts, attempt: int, why: Attribution, position: Position) -> Judgement:
        entry, witness = self.step.entries.get(attempt), self.known.witnesses.get(attempt)
        seconds = None
        if witness is not None and witness.ran_since is not None:
            # A manager that started in the middle of the attempt has seen less than its pods say.
            seconds = max((self.glance.now - witness.ran_since).total_seconds(), witness.ran_seconds)
        ended = EndedAttempt(
            why=why,
            fingerprint=fingerprint(entry) if entry is not None else "",
            position=position,
            seconds=seconds,
            in_queue=is_queued(self.glance.job),
        )
        return judge(counts, ended, self.wanted)

    def _take(self, attempt: int, why: Attribution, own: Position, outcome: Judgement) -> None:
        """Put what an attempt has cost on record; `own` is what it has reported."""
        found, step = self.step.summary, self.step
        found.judged, found.counts = attempt + 1, outcome.counts
        found.last_cause, found.why, found.paid, found.hold_until = why.cause, why.text, outcome.paid, ""
        self._leave_open(attempt - 1, "")
        entry = step.entries.setdefault(attempt, Entry(attempt=attempt, pod="", message=why.text))
        began = self._span(attempt).began
        nodes = list(self.known.witnesses[attempt].nodes) if attempt in self.known.witnesses else []
        self._note(
            attempt,
            cause=why.cause,
            charged=why.charged,
            provisional=False,
            started=format_time(began) if began is not None else "",
            ended=entry.ended or format_time(self.glance.now),
            nodes=(*nodes[:_NODES], *([f"{len(nodes) - _NODES} more"] if nodes[_NODES:] else ())),
            node=why.node,
            hardware=why.is_hardware,
            step=own.step,
            percent=own.percent,
            checkpoint=own.checkpoint,
        )

    def _leave_open(self, attempt: int, until: str) -> None:
        """Let later evidence correct the cause of the last attempt until then; empty: its cause is final."""
        self.step.summary.provisional_until = until
        self._note(attempt, provisional=bool(until))

    def _note(self, attempt: int, **fields: Any) -> None:
        if attempt in self.step.entries:
            self.step.entries[attempt] = msgspec.structs.replace(self.step.entries[attempt], **fields)


def _position_in(entry: Entry | None) -> Position:
    return Position(entry.step, entry.percent, checkpoint=entry.checkpoint) if entry is not None else Position()


def suspect(entries: Mapping[int, Entry], attempt: int, avoided: Iterable[str], now: datetime) -> tuple[str, str]:
    """The node that is to be avoided after this attempt, and why; two empty texts: none.

    A node is suspect if the log of its rank reports broken hardware, or if two attempts failed there first and none
    anywhere else.
    """
    # Affinity of a JobSet cannot be changed, so leaving a node takes a new JobSet.
    last = entries.get(attempt)
    if last is None or not last.node or last.node in avoided:
        return "", ""
    if last.hardware:
        return last.node, f"the log of an attempt on node {last.node} reports broken hardware"
    since = format_time(now - AVOIDED)
    culprits = [one.node for one in entries.values() if one.node and one.node not in avoided and one.ended >= since]
    if culprits.count(last.node) < _REPEATED or set(culprits) != {last.node}:
        return "", ""
    return last.node, f"node {last.node} failed first in two attempts"


def why_not(jobset: JobSet, nodes: Sequence[Node], avoided: Sequence[str], node: str, started: int) -> str:
    """Why the job does not leave a node, in words; empty: it may.

    `started`: how many pods of the attempt had started.
    """
    ranks = [one for one in jobset.spec_or_empty.replicated_jobs or () if one.name not in INITIALIZERS]
    wanted = sum(map(_pods_of, ranks))
    if any(_asks_for_topology(one) for one in ranks):
        return "its queue chooses nodes by topology"
    if started * 2 < wanted:
        return f"only {started} of its {wanted} pods had started"
    for one in ranks:
        spec = msgspec.to_builtins(one.template.spec_or_empty.template.spec_or_empty)
        fitting = [found for found in nodes if _fits(found, spec)]
        left = [found for found in fitting if name_of(found) not in (*avoided, node)]
        if len(avoided) >= MOST_AVOIDED or len(avoided) * _SHARE >= len(fitting):
            return f"it avoids {len(avoided)} of {len(fitting)} matching nodes already"
        if len(left) < _pods_of(one):
            return f"{counted(len(left), 'matching node')} would be left for {counted(_pods_of(one), 'pod')}"
    return ""


def _pods_of(one: ReplicatedJob) -> int:
    parallelism = one.template.spec_or_empty.parallelism
    return (1 if one.replicas is None else one.replicas) * (1 if parallelism is None else parallelism)


def _asks_for_topology(one: ReplicatedJob) -> bool:
    metadata = one.template.spec_or_empty.template.metadata_or_empty
    return any(name.startswith(_TOPOLOGY[0]) and name.endswith(_TOPOLOGY[1]) for name in metadata.annotations or {})


def _fits(node: Node, spec: Document) -> bool:
    """Whether a pod may run there, by selector, affinity and state; taints and room are the scheduler's."""
    if not is_true(node.status_or_empty.conditions, "Ready") or node.spec_or_empty.unschedulable:
        return False
    return selects(spec, wire(node))
