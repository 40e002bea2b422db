# SPDX-License-Identifier: Apache-2.0
"""The pods of a job and its attempts, from the objects that the API server has."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT, LABEL_JOB_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.objects import Document, deletion_timestamp_of, dig, labels_of, name_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime import Client, KubernetesError
from trainwright.controller.trainer.failures.first import FailedRun
from trainwright.controller.trainer.job.pods import attempt_of, rank_of
from trainwright.plugins.contract.picture import Picture, condition_of, index_of

_STATES: tuple[contract.ContainerState, ...] = ("running", "terminated", "waiting")
PODS = Resource(group="metrics.k8s.io", version="v1beta1", kind="PodMetrics", plural="pods", namespaced=True)
GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"
READ_SECONDS = 3.0
"""The page does not wait longer for it."""
AGAIN_SECONDS = 60.0
"""It is not asked for again so soon where it could not be read."""
_NANO = 10**9


def pods_of(picture: Picture, gone: Iterable[Document] = ()) -> list[contract.Pod]:
    """All pods of the job that exist, by replicated job, replica and rank; then those that are gone and have logs.

    A pod that is gone counts as one of the present attempt if none of its rank has come after it.
    """
    gone = list(gone)
    current = {uid_of(pod) for pod in picture.present_pods}
    taken = {_place(pod) for pod in picture.present_pods}
    for pod in sorted(gone, key=lambda pod: str(dig(pod, "metadata.creationTimestamp") or ""), reverse=True):
        if picture.is_of_present_attempt(pod) and _place(pod) not in taken:
            taken.add(_place(pod))
            current.add(uid_of(pod))
    found = [_pod(pod, current=uid_of(pod) in current) for pod in picture.pods]
    for pod in gone:
        told = _pod(pod, current=uid_of(pod) in current)
        told.message = told.message or "the pod is gone, and its log is kept"
        found.append(told)
    return found


def _place(pod: Document) -> tuple[str, str, int]:
    labels = labels_of(pod)
    return labels.get(LABEL_REPLICATED_JOB, ""), labels.get(LABEL_JOB_INDEX, ""), index_of(pod)


def failure_of(failure: FailedRun, log: Iterable[str]) -> contract.FailureView:
    shared = set(FailedRun.__struct_fields__) & set(contract.FailureView.__struct_fields__)
    told = {name: getattr(failure, name) for name in shared}
    return contract.FailureView(**told, who=failure.where, finished=failure.finished_at or None, log=list(log))


def _pod(pod: Document, *, current: bool) -> contract.Pod:
    spec, status, labels = pod.get("spec") or {}, pod.get("status") or {}, labels_of(pod)
    containers = [
        _container(one, statuses.get(one.get("name"), {}), init=init)
        for key, found, init in (
            ("initContainers", "initContainerStatuses", True),
            ("containers", "containerStatuses", False),
        )
        for statuses in [{state.get("name"): state for state in status.get(found) or ()}]
        for one in spec.get(key) or ()
    ]
    reason, message = _why(pod, containers)
    return contract.Pod(
        name=name_of(pod),
        uid=uid_of(pod),
        replicated_job=labels.get(LABEL_REPLICATED_JOB, ""),
        rank=index_of(pod),
        who=rank_of(pod),
        attempt=attempt_of(pod) + 1 if LABEL_ATTEMPT in labels else None,
        current=current,
        phase="Terminating" if deletion_timestamp_of(pod) else str(status.get("phase") or "Unknown"),
        reason=reason,
        message=message,
        node=str(spec.get("nodeName") or ""),
        restarts=sum(one.restarts for one in containers),
        created=dig(pod, "metadata.creationTimestamp"),
        containers=containers,
    )


def _why(pod: Document, containers: list[contract.ContainerView]) -> tuple[str, str]:
    """Reason and message of the pod, else of what keeps it from running, else of the container that failed."""
    status, scheduled = pod.get("status") or {}, condition_of(pod, "PodScheduled") or {}
    for told, counts in ((status, status.get("reason")), (scheduled, scheduled.get("status") == "False")):
        if counts:
            return str(told.get("reason") or ""), str(told.get("message") or "")
    for one in containers:
        if (one.state == "waiting" and one.reason) or (one.state == "terminated" and one.exit_code):
            return one.reason, one.message
    return "", ""


def _container(spec: Mapping[str, Any], status: Mapping[str, Any], *, init: bool) -> contract.ContainerView:
    name = str(spec.get("name") or "")
    now: Mapping[str, Any] = status.get("state") or {}
    before: Mapping[str, Any] = (status.get("lastState") or {}).get("terminated") or {}
    state: contract.ContainerState = next((one for one in _STATES if one in now), "unknown")
    told: Mapping[str, Any] = now.get(state) or {}
    ended: Mapping[str, Any] = now.get("terminated") or before
    started = told.get("startedAt")
    return contract.ContainerView(
        name=name,
        init=init,
        state=state,
        reason=str(told.get("reason") or ""),
        message=str(told.get("message") or ""),
        restarts=int(status.get("restartCount") or 0),
        exit_code=ended.get("exitCode"),
        signal=ended.get("signal"),
        started=started,
        log=bool(started or before),
        previous_log=bool(before),
    )


class Usage:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._not_before: dict[str, float] = {}
        """By namespace; time of the event loop."""

    async def read(self, namespace: str, job: str) -> dict[str, contract.UsageView]:
        """By the names of the job's pods; empty where it is not known."""
        clock = asyncio.get_running_loop().time
        if clock() < self._not_before.get(namespace, 0.0):
            return {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._client.list(PODS, namespace, label_selector=f"{LABEL_JOBSET}={job}")
        except (KubernetesError, TimeoutError):
            self._not_before[namespace] = clock() + AGAIN_SECONDS
            return {}
        return {str(dig(one, "metadata.name")): usage_of(one) for one in found.items}


def usage_of(metrics: Document) -> contract.UsageView:
    used = [one.get("usage") or {} for one in metrics.get("containers") or ()]
    memory, gpu_memory = _sum(used, "memory"), _sum(used, GPU_MEMORY)
    return contract.UsageView(
        cpu=_sum(used, "cpu"),
        memory=int(memory) if memory is not None else None,
        gpu=_sum(used, GPU),
        gpu_memory=int(gpu_memory) if gpu_memory is not None else None,
    )


def _sum(used: Sequence[Any], name: str) -> float | None:
    """The sum of a resource; None if no container tells it."""
    found = []
    for one in used:
        try:
            found.append(Quantity.parse(str(one[name])).nanos / _NANO)
        except (KeyError, ValueError, TypeError):
            continue
    return sum(found) if found else None
