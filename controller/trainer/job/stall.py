# SPDX-License-Identifier: Apache-2.0
"""When a job whose pods run counts as stalled: its reports stopped, or they come and say the same.

Asked for by an annotation of the TrainJob, else by the Configuration. Time is counted by one process from what it sees,
so a manager that was away, or has just become leader, never blames a job for its own absence. Most jobs never report: a
job, and each rank of it, is compared with its own earlier reports. Only a job whose annotation says how long it may be
silent has promised to report.

Or ranks have ended while others of their kind run on: a training whose ranks need each other hangs then. A rank is
compared with those of its own replicated job only: an initializer ends before the trainer by design. That a rank says
nothing is no sign, because most ranks never report; its end is one, whatever its exit code.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOB_INDEX, LABEL_REPLICATED_JOB
from trainwright.api.objects import Document, annotations_of, deletion_timestamp_of, dig, labels_of, name_of, number_in
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_PROGRESS_STALL_AFTER, NODE
from trainwright.api.trainer.v1alpha1.progress import Problem, declared
from trainwright.controller.trainer.job.pods import INITIALIZERS, attempt_of, rank_of
from trainwright.controller.trainer.job.status import state_of
from trainwright.plugins.contract.picture import index_of

SHORTEST_SECONDS = 120.0
"""A shorter time would blame jobs for an evaluation or a checkpoint."""
DEFAULT_SECONDS = 600.0
"""How long others may run on after a rank has ended, where neither the job nor a command says it."""
COMPLETE = 100
"""The percentage with which a rank says that it is done."""
NAMED, NAMES_LENGTH = 5, 150
"""How many silent pods a message names, and how many characters their names may have."""
_STEP = "current_step"


class StallReason(StrEnum):
    RANK_ENDED = "RankEnded"
    RANK_SILENT = "RankSilent"
    NEVER_REPORTED = "NeverReported"
    NO_REPORT = "NoReport"
    NO_ADVANCE = "NoAdvance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    reason: StallReason
    message: str
    """The same text for the same stall."""


@dataclass(slots=True)
class StallClock:
    """What was seen of one job's reports, on a clock that never goes back."""

    reported_since: float
    """At first when this process began to look: such a clock may begin long before, with the machine."""
    position_since: float
    reported: str = ""
    """`lastUpdatedTime` of the last report; empty: none came."""
    position: tuple[int | None, str] = (None, "")
    """Percentage and step of that report."""
    attempt: Hashable = None
    """The life of all ranks in which that was seen."""

    @classmethod
    def begin(cls, now: float) -> "StallClock":
        """For a job that is seen for the first time."""
        return cls(reported_since=now, position_since=now)

    def see(self, job: TrainJob, now: float, *, running: bool, attempt: Hashable = None) -> None:
        """Note the job as it is now. While it does not run, no time counts.

        Nor does the time of an `attempt` before: its ranks may have been restarted too quickly for anybody to see that
        none ran.
        """
        reported = job.status_or_empty.trainer_status_or_empty.last_updated_time or ""
        position = _position(job)
        begins, self.attempt = not running or attempt != self.attempt, attempt
        if begins or reported != self.reported:
            self.reported, self.reported_since = reported, now
        if begins or position != self.position:
            self.position, self.position_since = position, now

    def heard(self, at: float, now: float, *, is_stuck: bool) -> None:
        """Note a report that this process took and that the job may not show yet, or never while it `is_stuck`."""
        self.reported_since = max(self.reported_since, at)
        if is_stuck:
            self.position_since = now


@dataclass(frozen=True, slots=True)
class StalledAttempt:
    """What this process has found of a job that stands still.

    The condition does not say of which attempt it is: it may be older than the ranks that run now.
    """

    attempt: Hashable
    """The life of all ranks, as `life_of_ranks` tells them apart."""
    stall: Stall


def stall_after(job: TrainJob, runtime: Mapping[str, str], default: float | None) -> float | None:
    """Seconds without progress after which the job counts as stalled; None: never.

    The job's annotation goes first, then its runtime's, then `default`.
    """
    declaration, _ = declared(annotations_of(job), runtime)
    return default if declaration.stall_after is None else declaration.stall_after


def problems(job: TrainJob) -> Iterator[Problem]:
    _, found = declared(annotations_of(job), {})
    return (problem for problem in found if problem.annotation == ANNOTATION_PROGRESS_STALL_AFTER)


def is_running(job: TrainJob) -> bool:
    """Whether pods that train are ready, so that reports can be expected. Initializers may load data for hours."""
    counts = job.status_or_empty.jobs_status or ()
    ready = any(one.ready for one in counts if one.name not in INITIALIZERS)
    return ready and state_of(job).state.is_active


def stall_of(
    clock: StallClock, after: float, now: float, *, pods: Collection[str] = (), promised: bool = True
) -> tuple[Stall | None, float]:
    """How the job stands still, if it does; and the seconds until that may change.

    `pods` are the names of those that reported to this process; `rank 0` for one that has a rank. Without `promised`,
    a job that has never reported does not stand still: neither it nor its runtime says how long it may be silent.
    """
    minutes = f"{after / 60:g} min" if after >= SHORTEST_SECONDS else f"{after:g} s"
    advice = "look at its logs, it may hang"
    who = f" from {_named(pods)}" if pods else ""
    left = clock.reported_since + after - now
    if not clock.reported and not promised:
        return None, after
    percent, step = clock.position
    if min(left, clock.position_since + after - now) <= 0 and (percent or 0) >= COMPLETE:
        text = (
            f"the rank that reports said more than {minutes} ago that it is done{who}, and the job runs on; look at "
            "the logs of the others, they may hang"
        )
        reason = StallReason.NO_ADVANCE if left > 0 else StallReason.NO_REPORT
        return Stall(reason=reason, message=text), max(left, 0) or after
    if left <= 0 and not clock.reported:
        text = f"the pods run, and no report of progress came for {minutes}; {advice}, or not report at all"
        return Stall(reason=StallReason.NEVER_REPORTED, message=text), after
    if left <= 0:
        text = f"no report of progress for {minutes}, the last at {clock.reported}{who}; {advice}"
        return Stall(reason=StallReason.NO_REPORT, message=text), after
    stands = clock.position_since + after - now
    if stands <= 0 and clock.position != (None, ""):
        where = " and ".join(
            filter(None, (f"step {step}" if step else "", f"{percent} %" if percent is not None else ""))
        )
        text = f"reports come, and have shown {where} for {minutes}; {advice}"
        return Stall(reason=StallReason.NO_ADVANCE, message=text), left
    return None, min(left, stands) if stands > 0 else left


def _named(pods: Collection[str]) -> str:
    """Up to five pods by name, as far as a message has room for them."""
    names = sorted(pods)
    shown = names[:NAMED]
    while len(shown) > 1 and len(", ".join(shown)) > NAMES_LENGTH:
        shown.pop()
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    noun = "" if names[0].startswith(("rank ", "node ")) else "pod " if len(names) == 1 else "pods "
    return f"{noun}{', '.join(shown)}{more}"


def _position(job: TrainJob) -> tuple[int | None, str]:
    status = job.status_or_empty.trainer_status_or_empty
    steps = [metric.value for metric in status.metrics or () if metric.name == _STEP]
    return status.progress_percentage, steps[0] if steps else ""


@dataclass(frozen=True, slots=True)
class EndedRank:
    name: str
    """As people call it: `rank 1`."""
    pod: str
    code: int
    at: datetime
    running: int

    def text(self) -> str:
        """What happened, in a sentence that stays the same."""
        others = "1 other runs" if self.running == 1 else f"{self.running} others run"
        return f"{self.name} ended with exit code {self.code} at {format_time(self.at)}, and {others} on"


def ended_ranks(pods: Iterable[Document]) -> list[EndedRank]:
    """The ranks of the latest attempt that have ended while others of their replicated job run, the first end first."""
    found = list(pods)
    latest = max(map(attempt_of, found), default=0)
    roles: dict[str, dict[tuple[int, int], list[Document]]] = {}
    for pod in found:
        if attempt_of(pod) == latest:
            replica, rank = number_in(labels_of(pod).get(LABEL_JOB_INDEX)), index_of(pod)
            places = roles.setdefault(labels_of(pod).get(LABEL_REPLICATED_JOB, ""), {})
            places.setdefault((replica, rank), []).append(pod)
    ended = (one for places in roles.values() for one in _of_role(places))
    return sorted(ended, key=lambda one: (one.at, one.pod))


def ended_ranks_message(ended: Sequence[EndedRank], after: float, now: datetime) -> tuple[str, float | None]:
    """What to say of ranks that ended `after` seconds ago or more; and the seconds until the next one is so old."""
    limit = now - timedelta(seconds=after)
    old = [one for one in ended if one.at <= limit]
    left = min(((one.at - limit).total_seconds() for one in ended if one.at > limit), default=None)
    if not old:
        return "", left
    more = f" ({len(old) - 1} more ended, too)" if old[1:] else ""
    return f"{old[0].text()}{more}; look at their logs, they may wait for it", left


def _of_role(places: dict[tuple[int, int], list[Document]]) -> Iterator[EndedRank]:
    several = len({replica for replica, _ in places}) > 1
    running = sum(any(runs(pod) and _end_of(pod) is None for pod in pods) for pods in places.values())
    if not running:
        return
    for pods in places.values():
        ends = [_end_of(pod) for pod in pods]
        # A pod that was replaced has ended; its rank has not.
        if all(end is not None for end in ends):
            pod, (code, at) = max(
                ((pod, end) for pod, end in zip(pods, ends, strict=True) if end is not None), key=lambda one: one[1][1]
            )
            yield EndedRank(rank_of(pod, several=several), name_of(pod), code, at, running)


def runs(pod: Document) -> bool:
    return dig(pod, "status.phase") == "Running" and deletion_timestamp_of(pod) is None


def _end_of(pod: Document) -> tuple[int, datetime] | None:
    """Exit code and time, of a pod whose containers have ended for good; None: it runs, starts or starts again.

    A container that trains and has ended with 0 is not started again, so containers beside it do not count.
    """
    status = pod.get("status") or {}
    ends = [
        (str(one.get("name")), state)
        for one in status.get("containerStatuses") or ()
        if (state := dig(one, "state.terminated")) is not None
    ]
    is_over = status.get("phase") in ("Succeeded", "Failed")
    counted = [state for name, state in ends if is_over or (name == NODE and not state.get("exitCode"))]
    known = [
        (int(state.get("exitCode") or 0), at)
        for state in counted
        if (at := moment(state.get("finishedAt"))) is not None
    ]
    return max(known, key=lambda one: (one[0] != 0, one[1])) if known else None
