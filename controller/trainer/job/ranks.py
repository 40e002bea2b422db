# SPDX-License-Identifier: Apache-2.0
"""Ranks that have ended while others of their kind run on: a training whose ranks need each other hangs then.

A rank is compared with those of its own replicated job only: an initializer ends before the trainer by design. That a
rank says nothing is no sign, because most ranks never report; its end is one, whatever its exit code.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOB_INDEX, LABEL_REPLICATED_JOB
from trainwright.api.objects import Document, deletion_timestamp_of, dig, labels_of, name_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.controller.trainer.job.pods import attempt_of, number
from trainwright.plugins.contract.picture import index_of

DEFAULT_SECONDS = 600.0
"""How long others may run on after a rank has ended, where neither the job nor a command says it."""


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
            replica, rank = number(labels_of(pod).get(LABEL_JOB_INDEX)), index_of(pod)
            places = roles.setdefault(labels_of(pod).get(LABEL_REPLICATED_JOB, ""), {})
            places.setdefault((replica, rank), []).append(pod)
    ended = (one for places in roles.values() for one in _of_role(places))
    return sorted(ended, key=lambda one: (one.at, one.pod))


def standing(ended: Sequence[EndedRank], after: float, now: datetime) -> tuple[str, float | None]:
    """What to say of ranks that ended `after` seconds ago or more; and the seconds until the next one is so old."""
    limit = now - timedelta(seconds=after)
    old = [one for one in ended if one.at <= limit]
    left = min(((one.at - limit).total_seconds() for one in ended if one.at > limit), default=None)
    if not old:
        return "", left
    more = f" ({len(old) - 1} more ended, too)" if old[1:] else ""
    return f"{old[0].text()}{more}; look at their logs, they may wait for it", left


def rank_name(pod: Document, *, several: bool = False) -> str:
    """The pod as people call it: `rank 1` of the trainer, else its replicated job with numbers.

    `several`: the replicated job has replicas, each of which counts its ranks from 0.
    """
    labels = labels_of(pod)
    role, rank = labels.get(LABEL_REPLICATED_JOB, ""), index_of(pod)
    if role in (NODE, "") and not several:
        return f"rank {rank}"
    replica = f"-{labels.get(LABEL_JOB_INDEX, '0')}" if several else ""
    return f"{role}{replica}-{rank}"


def _of_role(places: dict[tuple[int, int], list[Document]]) -> Iterator[EndedRank]:
    several = len({replica for replica, _ in places}) > 1
    running = sum(any(map(_runs, pods)) for pods in places.values())
    if not running:
        return
    for pods in places.values():
        ends = [_end_of(pod) for pod in pods]
        # A pod that was replaced has ended; its rank has not.
        if all(end is not None for end in ends):
            pod, (code, at) = max(
                ((pod, end) for pod, end in zip(pods, ends, strict=True) if end is not None), key=lambda one: one[1][1]
            )
            yield EndedRank(rank_name(pod, several=several), name_of(pod), code, at, running)


def _runs(pod: Document) -> bool:
    return dig(pod, "status.phase") == "Running" and deletion_timestamp_of(pod) is None and _end_of(pod) is None


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
