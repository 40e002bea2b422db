# SPDX-License-Identifier: Apache-2.0
"""Which pod of an attempt failed first, from the pods alone.

The others mostly fail because of the first: they lose their peers, or are killed. So the earliest end counts. The times
of kubelets have whole seconds; nodes of the local cluster say more. Of ends in the same second, one with a telling
reason goes first, then one that is no signal: whoever has seen the pods change knows better, see `recorder`.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from trainwright.api.conditions import find_true
from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOB_INDEX, LABEL_JOBSET_UID, LABEL_REPLICATED_JOB
from trainwright.api.messages import plain
from trainwright.api.objects import Document, annotations_of, dig, labels_of, name_of, number_in, uid_of
from trainwright.api.times import format_time, parse
from trainwright.controller.trainer.job.pods import (
    ANNOTATION_FAILURES,
    DISRUPTED,
    attempt_of,
    container_statuses,
    has_several_processes,
    rank_name,
)

_UNTOLD = frozenset({"", "Error", "Completed"})
"""Reasons that tell no more than the exit code."""
_SIGNALS = 128
"""Exit codes above it stand for a signal."""
EVICTED = "Evicted"
NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers that a node could not start."""
NO_PROGRAM = re.compile(r"no such file or directory|executable file not found|permission denied", re.IGNORECASE)
"""In a node's message: there is no such program, or it may not be executed."""
_BY_NODE = frozenset({"Terminated", "NodeShutdown", "Shutdown", "Preempting"})
"""Reasons of pods that a kubelet has ended for itself: its node shuts down, or it makes room for a critical pod."""
LATE_SECONDS = 60.0
"""A launcher may end that long after its program, and after peers of that. What ends later is no reason for them."""
_SECOND = len("2026-01-01T00:00:00")


class FailedRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A run of a container that failed, or a pod that failed as a whole: what the record keeps of it."""

    attempt: int
    pod: str
    pod_uid: str = ""
    jobset_uid: str = ""
    """Of the JobSet, which counts its attempts from 0; empty in old records."""
    replicated_job: str = ""
    job_index: int = 0
    """Which replica of the replicated job; mostly 0."""
    rank: int = 0
    """The completion index of the pod in its Job."""
    container: str = ""
    """Empty if the pod failed as a whole, as after an eviction."""
    exit_code: int | None = None
    """None without a container."""
    reason: str = ""
    message: str = ""
    finished_at: str = ""
    """RFC 3339; empty if the kubelet did not say."""
    exact: str = ""
    """The same moment with microseconds, where the node tells; its text sorts."""
    program_finished_at: str = ""
    """When the program ended, where the log tells that its launcher ended later."""
    stopped: bool = False
    """Whether the pod was being ended before: a victim, unless nothing else failed."""
    several: bool = False
    """Whether several processes train in the pod, so that its number is that of a node and not a rank."""

    @property
    def is_node(self) -> bool:
        """Whether the number of the pod is that of a node, whose processes have ranks of their own."""
        return self.several

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts failures of one attempt: the first is the one to tell of."""
        signalled = self.exit_code is not None and self.exit_code > _SIGNALS
        return (
            self.stopped,
            *self.end,
            self.reason in _UNTOLD,
            signalled,
            self.replicated_job,
            self.job_index,
            self.rank,
            self.container,
        )

    @property
    def end(self) -> tuple[bool, str, bool, str]:
        """When it ended, as exactly as is known; to be compared."""
        return not self.finished_at, self.finished_at[:_SECOND], not self.exact, self.exact

    @property
    def run(self) -> tuple[str, str, str, int | None]:
        """What identifies the run that failed."""
        return self.pod_uid, self.container, self.finished_at, self.exit_code

    @property
    def where(self) -> str:
        """The rank or the node, as users name it."""
        if not self.replicated_job:
            return f"pod {self.pod}"
        return rank_name(self.replicated_job, self.rank, replica=self.job_index or None, is_node=self.is_node)

    @property
    def what(self) -> str:
        """How it failed."""
        if not self.container:
            return f"the pod failed ({self.reason or 'no reason given'})"
        told = f" ({self.reason})" if self.reason else ""
        return f"container {self.container} ended with exit code {self.exit_code}{told}"


class Failure(FailedRun, frozen=True, kw_only=True):
    """A run that failed, as its pod shows it now."""

    previous: bool
    """Whether the container runs again, so that its log is that of the run before."""
    ended_again: bool = False
    """Whether that run has ended too. Then kubelets mostly have the log of that run alone."""
    node_run: int | None = None
    """The number of the run, where the node gives a log by it; a local one does."""
    runs_on: bool = False
    """Whether its container is about to run again, so that its log may be that of the next run at any moment."""


def first_failures(pods: Iterable[Document]) -> dict[int, Failure]:
    return {attempt: found[0] for attempt, found in failures_by_attempt(pods).items()}


def failures_by_attempt(pods: Iterable[Document]) -> dict[int, list[Failure]]:
    """The failures of each attempt, the first one first.

    Pods that the cluster has ended have not failed; an attempt without another failure is left out.
    """
    found: dict[int, list[Failure]] = {}
    own: set[int] = set()
    for pod in pods:
        for failure in _failures(pod):
            found.setdefault(failure.attempt, []).append(failure)
            if not is_disrupted(pod) and not (failure.stopped and ended_by_deletion(pod, failure.finished_at)):
                own.add(failure.attempt)
    return {attempt: sorted(found[attempt], key=lambda one: one.order) for attempt in sorted(own)}


def is_disrupted(pod: Document) -> bool:
    """Whether the cluster ended the pod for the sake of something else; an eviction counts as its failure."""
    status = pod.get("status") or {}
    reason = status.get("reason")
    return reason in _BY_NODE or (reason != EVICTED and find_true(status.get("conditions"), DISRUPTED) is not None)


def ended_by_deletion(pod: Document, finished_at: str) -> bool:
    """Whether a container that ended then was stopped since its pod is deleted.

    That its pod is deleted in the second of its end tells the same: a pod whose end is the reason for its deletion is
    seen before that.
    """
    metadata = pod.get("metadata") or {}
    try:
        gone = parse(metadata.get("deletionTimestamp") or "")
        began = gone - timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    except (ValueError, TypeError, OverflowError):
        return False
    return not finished_at or finished_at[:_SECOND] >= format_time(began)[:_SECOND]


class WrittenFailure(msgspec.Struct, frozen=True):
    """A container's end, as the node of a local cluster wrote it down."""

    container: str
    run: int
    code: int = msgspec.field(name="exitCode")
    at: str
    """RFC 3339 with microseconds, so that the text sorts as the time does."""
    stopped: bool = False
    """The node ended it: a victim."""

    def __post_init__(self) -> None:
        """Raises ValueError for a text that is no time."""
        parse(self.at)


_WRITTEN = msgspec.json.Decoder(list[WrittenFailure])


def written_failures(pod: Document) -> list[WrittenFailure]:
    """What the local node wrote down of a pod; a real one writes nothing."""
    try:
        return _WRITTEN.decode(annotations_of(pod).get(ANNOTATION_FAILURES, "[]"))
    except (msgspec.DecodeError, UnicodeEncodeError):  # changed by hand
        return []


def exact_end(written: Sequence[WrittenFailure], container: str, ended: Document) -> tuple[str, bool]:
    """The exact time of the first failure of a container, up to this run, and whether that was stopped."""
    run = _node_run(ended)
    some = [
        (one.stopped, one.at) for one in written if one.container == container and run is not None and one.run <= run
    ]
    stopped, at = min(some, default=(False, ""))
    return at, stopped


def _failures(pod: Document) -> Iterable[Failure]:
    status = pod.get("status") or {}
    found = list(_of_containers(pod, status))
    target: Document | None = find_true(status.get("conditions"), DISRUPTED)
    if found and not (target or is_disrupted(pod)):
        yield from found
    elif found or status.get("phase") == "Failed":
        first = min((one.finished_at for one in found if one.finished_at), default="")
        reason = status.get("reason") or dig(target, "reason")
        told = {"reason": reason, "message": status.get("message"), "finishedAt": first}
        yield _failure(pod, told, exact=min((one.exact for one in found if one.exact), default=""))


def _of_containers(pod: Document, status: Document) -> Iterable[Failure]:
    written = written_failures(pod)
    again = dig(pod, "spec.restartPolicy") in ("OnFailure", "Always") and status.get("phase") != "Failed"
    for container in container_statuses(pod):
        runs = [dig(container.get(state), "terminated") for state in ("lastState", "state")]
        for ended, previous in zip(runs, (True, False), strict=True):
            if ended and ended.get("exitCode"):
                exact, stopped = exact_end(written, container["name"], ended)
                finished = ended.get("finishedAt") or ""
                yield _failure(
                    pod,
                    ended,
                    container=container["name"],
                    exact=exact,
                    # A node that writes down exact times knows what it has stopped.
                    stopped=stopped if exact else ended_by_deletion(pod, finished),
                    previous=previous,
                    ended_again=previous and bool(runs[1]),
                    node_run=_node_run(ended),
                    runs_on=again and not previous and not dig(pod, "metadata.deletionTimestamp"),
                )


def _node_run(ended: Document) -> int | None:
    """`local://<uid>/<container>/<run>` is the container id of a local node."""
    scheme, _, path = str(ended.get("containerID") or "").partition("://")
    run = path.rpartition("/")[2]
    return int(run) if scheme == "local" and run.isascii() and run.isdigit() else None


def _failure(
    pod: Document, ended: dict[str, Any], *, container: str = "", previous: bool = False, **more: Any
) -> Failure:
    labels = labels_of(pod)
    return Failure(
        attempt=attempt_of(pod),
        pod=name_of(pod),
        pod_uid=uid_of(pod),
        jobset_uid=labels.get(LABEL_JOBSET_UID, ""),
        replicated_job=labels.get(LABEL_REPLICATED_JOB, ""),
        job_index=number_in(labels.get(LABEL_JOB_INDEX)),
        rank=number_in(labels.get(LABEL_INDEX)),
        container=container,
        exit_code=ended.get("exitCode") if container else None,
        reason=ended.get("reason") or "",
        message=plain(ended.get("message") or ""),
        finished_at=ended.get("finishedAt") or "",
        several=has_several_processes(pod),
        previous=previous,
        **more,
    )
