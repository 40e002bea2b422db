# SPDX-License-Identifier: Apache-2.0
"""Which pod of an attempt failed first, from the pods alone.

The others mostly fail because of the first: they lose their peers, or are killed. So the earliest end counts, and of
ends in the same second, the times of kubelets have no more, one with a telling reason, then one that is no signal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOB_INDEX, LABEL_JOBSET_UID, LABEL_REPLICATED_JOB
from trainwright.api.objects import Document, labels_of, name_of, uid_of
from trainwright.controller.trainer.job.pods import attempt_of, number

_UNTOLD = frozenset({"", "Error", "Completed"})
"""Reasons that tell no more than the exit code."""
_SIGNALS = 128
"""Exit codes above it stand for a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One pod that failed."""

    attempt: int
    pod: str
    pod_uid: str
    jobset_uid: str
    """Of the JobSet, which counts its attempts from 0; empty in old records."""
    replicated_job: str
    job_index: int
    """Which replica of the replicated job; mostly 0."""
    rank: int
    """The completion index of the pod in its Job."""
    container: str
    """Empty if the pod failed as a whole, as after an eviction."""
    exit_code: int | None
    """None without a container."""
    reason: str
    message: str
    finished_at: str
    """RFC 3339; empty if the kubelet did not say."""
    previous: bool
    """Whether the container runs again, so that its log is that of the run before."""

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts failures of one attempt: the first is the one to tell of."""
        signalled = self.exit_code is not None and self.exit_code > _SIGNALS
        return (
            not self.finished_at,
            self.finished_at,
            self.reason in _UNTOLD,
            signalled,
            self.replicated_job,
            self.job_index,
            self.rank,
            self.container,
        )

    @property
    def where(self) -> str:
        """The rank, as users name it."""
        job = self.replicated_job if not self.job_index else f"{self.replicated_job}[{self.job_index}]"
        return f"{job} rank {self.rank}" if job else f"pod {self.pod}"

    @property
    def what(self) -> str:
        """How it failed."""
        if not self.container:
            return f"the pod failed ({self.reason or 'no reason given'})"
        told = f" ({self.reason})" if self.reason else ""
        return f"container {self.container} ended with exit code {self.exit_code}{told}"


def first_failures(pods: Iterable[Document]) -> dict[int, Failure]:
    """The first failure of each attempt that has one."""
    found: dict[int, Failure] = {}
    for pod in pods:
        for failure in _failures(pod):
            known = found.get(failure.attempt)
            if known is None or failure.order < known.order:
                found[failure.attempt] = failure
    return dict(sorted(found.items()))


def _failures(pod: Document) -> Iterable[Failure]:
    status = pod.get("status") or {}
    any_container = False
    for name in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(name) or ():
            for state, previous in (("lastState", True), ("state", False)):
                ended = (container.get(state) or {}).get("terminated")
                if ended and ended.get("exitCode"):
                    any_container = True
                    yield _failure(pod, ended, container=container["name"], previous=previous)
    if not any_container and status.get("phase") == "Failed":
        yield _failure(pod, {"reason": status.get("reason"), "message": status.get("message")})


def _failure(pod: Document, ended: dict[str, Any], *, container: str = "", previous: bool = False) -> Failure:
    labels = labels_of(pod)
    return Failure(
        attempt=attempt_of(pod),
        pod=name_of(pod),
        pod_uid=uid_of(pod),
        jobset_uid=labels.get(LABEL_JOBSET_UID, ""),
        replicated_job=labels.get(LABEL_REPLICATED_JOB, ""),
        job_index=number(labels.get(LABEL_JOB_INDEX)),
        rank=number(labels.get(LABEL_INDEX)),
        container=container,
        exit_code=ended.get("exitCode") if container else None,
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        finished_at=ended.get("finishedAt") or "",
        previous=previous,
    )
