# SPDX-License-Identifier: Apache-2.0
"""The attempts of one job, as far as the cache shows them and this process has seen them. No I/O here.

An attempt is one life of all ranks. Its number counts on over the JobSets of a job and over resumes: the base that the
pods carry, and how often their JobSet was restarted. `progression` judges those that have ended.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from trainwright.api.conditions import find_true, is_true
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import Document, deletion_timestamp_of, dig, labels_of, number_in, uid_of
from trainwright.api.times import moment, parse
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_AVOIDED_NODES
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.failures.record import Entry
from trainwright.controller.trainer.job.decision import RecoveryDecision
from trainwright.controller.trainer.job.pods import INITIALIZERS, attempt_of, base_of, mark_of
from trainwright.controller.trainer.job.stall import StalledAttempt, StallReason
from trainwright.controller.trainer.recovery.causes import (
    FailureCause,
    Witness,
    finished_ranks,
)
from trainwright.controller.trainer.recovery.verdict import (
    LONGEST_HOLD,
    NOTHING,
    Position,
    Summary,
    is_since,
    position_of,
)
from trainwright.plugins.contract import RecoveryFacts

VERDICT_SECONDS = 60.0
"""How long a JobSet may be Failed before its TrainJob is, and how long a cause may be corrected."""
_BY_RULE = "FailJobSetFailurePolicyAction"
"""Reason of a JobSet that a rule has failed: an exit code that ends it, or an initializer."""


@dataclass(slots=True)
class KnownAttempts:
    """What is known of one job's attempts."""

    summary: Summary = NOTHING
    """Replaced by a copy, never changed."""
    witnesses: dict[int, Witness] = field(default_factory=dict)
    begun: int = 0
    """How many attempts were seen to begin."""
    reported: dict[int, Position] = field(default_factory=dict)
    """What each attempt had reported when its pods were looked at last."""
    evidence: dict[str, str] = field(default_factory=dict)
    """The key of the record with the last lines of ranks that stood still, the last time."""
    jobset: str = ""
    """The uid of the JobSet that was seen last."""
    retries_left: int | None = None
    """Failures of code that a new JobSet may restart after; None: not known yet."""


@dataclass(frozen=True, kw_only=True)
class Glance:
    """What the cache shows of a job."""

    job: TrainJob
    jobset: JobSet
    """The job's own one."""
    pods: Sequence[Document]
    """Of that JobSet."""
    now: datetime
    report: TrainerStatus | None = None
    """The newest one; the job may show it later."""
    is_synced: bool = True
    """Whether the cache shows pods already."""

    @cached_property
    def uid(self) -> str:
        return uid_of(self.jobset)

    @property
    def is_suspended(self) -> bool:
        return bool(self.jobset.spec_or_empty.suspend)

    @cached_property
    def position(self) -> Position:
        """What the newest report says."""
        return position_of(self.report or self.job.status_or_empty.trainer_status)

    @cached_property
    def base(self) -> int:
        """The base that the pods of the JobSet carry."""
        return base_of(self.jobset)

    @property
    def restarts(self) -> int:
        return self.jobset.status_or_empty.restarts or 0

    @property
    def counted(self) -> int:
        """How many of the restarts count towards the limit of the JobSet."""
        return self.jobset.status_or_empty.restarts_count_towards_max or 0

    @property
    def current(self) -> int:
        """The attempt that the JobSet makes now, or has made last; from 0."""
        return self.base + self.restarts

    @cached_property
    def failed(self) -> Condition | None:
        """The end that Kubernetes has given the JobSet; None: it is not Failed."""
        return find_true(self.jobset.status_or_empty.conditions, "Failed")

    @cached_property
    def failed_since(self) -> datetime | None:
        return parse(self.failed.last_transition_time) if self.failed is not None else None

    @property
    def ended_by_rule(self) -> bool:
        """Whether a rule has ended the JobSet for good."""
        return self.failed is not None and self.failed.reason == _BY_RULE

    @property
    def completed(self) -> bool:
        return is_true(self.jobset.status_or_empty.conditions, "Completed")

    @property
    def ended(self) -> int:
        return self.current + (1 if self.failed_since is not None else 0)


def observe(known: KnownAttempts, glance: Glance) -> None:
    """Note what the pods show, before any of it is gone."""
    found, current = known.summary, glance.current
    # Pods of the next attempt may have begun a moment before it is held back.
    is_replaced = found.replace == glance.uid
    is_stopped = glance.is_suspended or found.hang or is_replaced or held_for(found, glance.now) > 0
    if known.jobset not in ("", glance.uid):
        # An attempt may just have begun in the JobSet before; the one of this number is another one now.
        _forget(known, [attempt for attempt in known.witnesses if attempt >= found.judged])
        for kept in known.witnesses.values():
            kept.finished.clear()  # the new one runs all ranks
    known.jobset = glance.uid
    by_attempt: dict[int, list[Document]] = {}
    for pod in glance.pods:
        by_attempt.setdefault(attempt_of(pod), []).append(pod)
    for attempt, pods in by_attempt.items():
        witness = known.witnesses.setdefault(attempt, Witness())
        is_current = attempt == current and glance.failed_since is None
        witness.see(pods, is_current=is_current, is_ours=is_stopped)
        if witness.started:
            witness.ran_since = witness.ran_since or glance.now
            known.begun = max(known.begun, attempt + 1)
    # The next attempt may report before this one is judged.
    before, own, following = (known.witnesses.get(n, Witness()).span for n in (current - 1, current, current + 1))
    is_known = own.began is not None and is_since(glance.position, own, before if current else None)
    if is_known and (following.began is None or not is_since(glance.position, following, own)):
        known.reported[current] = glance.position
    # Keep the last judged one: its cause may be corrected, and its end tells which attempt made a report.
    _forget(known, [attempt for attempt in known.witnesses if attempt < found.judged - 1])


def _forget(known: KnownAttempts, attempts: Iterable[int]) -> None:
    for attempt in attempts:
        known.witnesses.pop(attempt, None)
        known.reported.pop(attempt, None)


def entries_of_present(entries: Mapping[int, Entry], found: Summary, jobset: str) -> dict[int, Entry]:
    """The recorded culprits, but for attempts that another JobSet had begun, and that were not judged.

    `jobset` is the uid of the present JobSet, which makes attempts with the same numbers.
    """
    return {n: one for n, one in entries.items() if n < found.judged or one.jobset_uid in ("", jobset)}


def is_calm(known: KnownAttempts, glance: Glance) -> bool:
    """Whether nothing has ended that is not judged, and no cause may change."""
    found = known.summary
    witness = known.witnesses.get(glance.current)
    if found.judged < glance.ended or (witness is not None and (witness.ended or witness.signs)):
        return False
    if found.hang or found.provisional_until or found.replace == glance.uid:
        return False
    return not glance.job.spec_or_empty.suspend and not is_partial(known, glance)


def stalled(known: KnownAttempts, glance: Glance, wanted: Declaration, still: StalledAttempt | None) -> str:
    """How the present attempt stands still, if its ranks are to be restarted for it; else empty.

    `still` is what was found of an attempt that stands still; it may be an earlier one.
    """
    found = known.summary
    is_busy = found.hang or found.end_reason or found.judged > glance.current or glance.failed_since is not None
    if not wanted.restarts_stalled or still is None or is_busy or glance.completed:
        return ""
    if still.attempt != (glance.uid, glance.current):
        return ""
    has_reported = found.counts.step is not None or found.counts.percent is not None
    reasons = (StallReason.NO_REPORT, StallReason.NO_ADVANCE, *((StallReason.NEVER_REPORTED,) if has_reported else ()))
    return still.stall.message if still.stall.reason in reasons else ""


def is_partial(known: KnownAttempts, glance: Glance) -> bool:
    """Whether a suspended JobSet would not run all ranks when it is resumed, and may give way to a new one."""
    is_stopped = glance.is_suspended and glance.failed_since is None
    return is_stopped and lacks_ranks(known, glance) and not makes_claims(glance.jobset)


def lacks_ranks(known: KnownAttempts, glance: Glance) -> bool:
    """Whether the JobSet, resumed, would not run each rank again: a Job keeps those that have succeeded.

    Not if it is about to complete.
    """
    # Pods of Jobs that JobSet has replaced may still be there. A rank that ends with 0 when it is stopped leaves none.
    shown = [pod for pod in glance.pods if number_in(labels_of(pod).get(LABEL_ATTEMPT)) == glance.restarts]
    witness = known.witnesses.get(glance.current)
    if witness is None and known.summary.last_cause == FailureCause.SUSPENDED:
        # Its pods end in the attempt that the suspension has ended: the next one begins with the resume.
        witness = known.witnesses.get(glance.current - 1)
    ranks = finished_ranks(shown) | (witness.finished if witness is not None else {})
    done = Counter(ranks.values())
    if not done:
        return False
    policy = glance.jobset.spec_or_empty.success_policy
    targets = set((policy.target_replicated_jobs if policy is not None else None) or ())
    deciding = [
        (one, (one.replicas or 1) * (one.template.spec_or_empty.completions or 1))
        for one in glance.jobset.spec_or_empty.replicated_jobs or ()
        if (one.name in targets if targets else one.name not in INITIALIZERS)
    ]
    whole = [done[one.name] >= count for one, count in deciding]
    is_any = policy is not None and policy.operator == "Any"
    return not (any(whole) if is_any else all(whole))


def held_for(summary: Summary, now: datetime) -> float:
    """Seconds until the next attempt may begin."""
    until = moment(summary.hold_until)
    left = (until - now).total_seconds() if until is not None else 0.0
    return left if 0.0 < left <= LONGEST_HOLD else 0.0


def decision_of(known: KnownAttempts, glance: Glance | None, now: datetime) -> RecoveryDecision:
    """What the record says of the end of the job and of its JobSet; `glance` is None where there is no JobSet."""
    found = known.summary
    if found.end_reason:
        return RecoveryDecision(reason=found.end_reason, message=found.end_message)
    held = held_for(found, now) or None
    if glance is None or found.replace == glance.uid:
        return RecoveryDecision(
            ignore_failure=glance is not None, replaces_jobset=bool(found.replace), requeue_after=held
        )
    since = glance.failed_since
    if since is None or (found.jobset == glance.uid and found.judged >= glance.ended):
        return RecoveryDecision(requeue_after=held)
    # Without a verdict, that of Kubernetes counts.
    left = VERDICT_SECONDS + 5.0 - (now - since).total_seconds()
    return RecoveryDecision(ignore_failure=left > 0, requeue_after=max(left, 1.0))


def facts_of(known: KnownAttempts, glance: Glance | None, now: datetime) -> RecoveryFacts:
    """What the next JobSet or the next resume begins with."""
    found = known.summary
    is_held = bool(found.hang) or held_for(found, now) > 0
    if glance is not None and not glance.is_suspended:
        # Pods of the next attempt that run already are not stopped.
        running = (attempt_of(pod) for pod in glance.pods if dig(pod, "status.phase") == "Running")
        is_held = bool(found.hang) or (is_held and glance.is_synced and not any(n >= found.judged for n in running))
    elif glance is not None:
        is_held = is_held or is_partial(known, glance)
    if glance is None or deletion_timestamp_of(glance.jobset) is not None:
        # A JobSet that somebody has deleted takes its attempt along.
        begun = found.judged if found.replace else max(found.judged, known.begun)
        left = known.retries_left if found.judged else None
        return RecoveryFacts(attempts=begun, retries=left, avoided_nodes=tuple(found.avoids(now)), held=is_held)
    base, policy = glance.base, glance.jobset.spec_or_empty.failure_policy
    if glance.is_suspended and found.jobset == glance.uid:
        base = max(base, found.judged - glance.restarts)
    left = policy.max_restarts if policy is not None else None
    avoided = mark_of(glance.jobset, ANNOTATION_AVOIDED_NODES)
    return RecoveryFacts(
        attempts=base, retries=left, avoided_nodes=tuple(filter(None, avoided.split(","))), held=is_held
    )


def goes(pod: Document) -> bool:
    """Whether a pod of a suspended JobSet is still to end, or to go."""
    is_over = dig(pod, "status.phase") in ("Succeeded", "Failed")
    return not is_over or deletion_timestamp_of(pod) is not None
