# SPDX-License-Identifier: Apache-2.0
"""A node whose pods only pretend to run: they start, run and end at times and with exit codes that the seed decides."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.objects import Document, Key, deletion_timestamp_of, labels_of, name_of, namespace_of, uid_of
from trainwright.api.surroundings import present
from trainwright.api.times import format_micro_time, format_time
from trainwright.controller.runtime import (
    Client,
    Conflict,
    Done,
    Event,
    KubernetesError,
    Manager,
    NotFound,
    Result,
    RetryAfter,
)
from trainwright.controller.runtime.controller.sources import own_key

POD, NODE, LEASE = Pod.RESOURCE, Node.RESOURCE, Lease.RESOURCE
NAME = "simulated"
_LEASES = "kube-node-lease"
_BEAT_SECONDS = 40.0
_SIGTERM = 143
Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLives:
    """How long pods run, and how they end. Ranges are in seconds; the seed draws from them for each pod."""

    starts: Range = (0.1, 3.0)
    runs: Range = (5.0, 120.0)
    ends: Range = (0.05, 2.0)
    """How long a pod takes to end once it is deleted."""
    fails: float = 0.0
    """The chance of a pod to end with exit code 1."""
    reports: float = 0.0
    """How often a pod that trains reports, in seconds; 0: never."""
    hangs: float = 0.0
    """The chance of the pods of a workload to hang: they run until they are deleted, and `hangs_since` tells."""
    hangs_after: Range = (0.0, 60.0)
    """How long they train before."""


@dataclass(slots=True)
class _Life:
    starts_at: float
    ends_at: float
    code: int
    grace: float
    hangs_at: float = math.inf
    reports_at: float = 0.0
    deleted_at: float | None = field(default=None)


class SimulatedNode:
    """Stands for a kubelet. The seed decides the life of each pod, by the name of its workload and its attempt."""

    def __init__(
        self, manager: Manager, seed: str, lives: PodLives, report: Callable[[Document], Awaitable[None]]
    ) -> None:
        self._client: Client = manager.client
        self._cache = manager.cache
        self._seed, self._lives, self._report = seed, lives, report
        self._known: dict[str, _Life] = {}
        self._lost_until = 0.0

        def is_bound(event: Event[Any]) -> bool:
            return isinstance(event.obj, dict) and bool((event.obj.get("spec") or {}).get("nodeName"))

        builder = manager.controller("simulated-node").watches(POD, own_key, predicates=(is_bound,))
        builder.reconcile(self._reconcile, workers=8, needs_leader=False)

    async def register(self) -> None:
        moment = format_time(present().now())
        await self._client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}}, kind=NODE)
        room = {"cpu": "100000", "memory": "100000Gi", "pods": "100000", "nvidia.com/gpu": "100000"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        ready["lastTransitionTime"] = moment
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self._client.patch(NODE, NAME, "", {"status": status}, type="strategic", subresource="status")
        lease = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": NAME, "namespace": _LEASES}}
        await self._client.create({**lease, "spec": {"renewTime": format_micro_time(present().now())}}, kind=LEASE)

    def lose(self, seconds: float) -> None:
        """The node does not answer for a while: its pods stay as they are, and pods that are deleted do not end."""
        self._lost_until = max(self._lost_until, asyncio.get_running_loop().time() + seconds)

    def hangs_since(self, uid: str) -> float | None:
        """Since when a pod does nothing any more, on the clock of the loop; None: it does not hang."""
        life = self._known.get(uid)
        return life.hangs_at if life is not None and life.hangs_at <= asyncio.get_running_loop().time() else None

    async def beat(self) -> None:
        """Renew its Lease until cancelled. Without any change, the API server would send no bookmarks."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            patch = {"spec": {"renewTime": format_micro_time(present().now())}}
            with suppress(KubernetesError):  # while the process is paused
                await self._client.patch(LEASE, NAME, _LEASES, patch)

    def _life(self, pod: Document, now: float) -> _Life:
        uid = uid_of(pod)
        found = self._known.get(uid)
        if found is None:
            workload = name_of(pod).rpartition("-")[0]
            drawn = random.Random(f"{self._seed}/{workload}/{labels_of(pod).get(LABEL_ATTEMPT)}")  # noqa: S311
            lives = self._lives
            starts, runs = now + drawn.uniform(*lives.starts), drawn.uniform(*lives.runs)
            code = 1 if drawn.random() < lives.fails else 0
            found = self._known[uid] = _Life(starts, starts + runs, code, drawn.uniform(*lives.ends))
            if lives.hangs and drawn.random() < lives.hangs:
                found.hangs_at, found.ends_at = starts + drawn.uniform(*lives.hangs_after), math.inf
        return found

    async def _reconcile(self, key: Key) -> Result:
        pod: Any = self._cache.get(POD, key.name, key.namespace)
        if pod is None:
            return Done()
        now = asyncio.get_running_loop().time()
        if now < self._lost_until:
            return RetryAfter(self._lost_until - now)
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        life, is_over = self._life(pod, now), phase in ("Succeeded", "Failed")
        if deletion_timestamp_of(pod) is not None:
            life.deleted_at = now if life.deleted_at is None else life.deleted_at
            left = life.deleted_at + life.grace - now
            if not is_over and left > 0:
                return RetryAfter(left)
            if not is_over:
                await self._write(pod, "Failed", life.code or _SIGTERM)
            with suppress(NotFound, Conflict):  # somebody else was faster
                await self._client.delete(POD, key.name, key.namespace, uid=uid_of(pod), grace_period=0)
            is_over = True
        elif not is_over and now < life.starts_at:
            return RetryAfter(life.starts_at - now)
        elif not is_over and now < life.ends_at:
            if phase != "Running":
                await self._write(pod, "Running", 0)
            return await self._run(pod, life, now)
        elif not is_over:
            await self._write(pod, "Failed" if life.code else "Succeeded", life.code)
        if is_over:
            self._known.pop(uid_of(pod), None)
        return Done()

    async def _run(self, pod: Document, life: _Life, now: float) -> Result:
        """Report, unless the pod hangs, and look again when that or its end is due."""
        next_at = life.ends_at
        if self._lives.reports and now < life.hangs_at:
            if now >= life.reports_at:
                life.reports_at = now + self._lives.reports
                await self._report(pod)
            next_at = min(next_at, life.reports_at)
        return RetryAfter(next_at - now) if next_at < math.inf else Done()

    async def _write(self, pod: Document, phase: str, code: int) -> None:
        moment = format_time(present().now())
        running = phase == "Running"
        ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
        ended |= {"startedAt": moment, "finishedAt": moment}
        state = {"running": {"startedAt": moment}} if running else {"terminated": ended}
        shown = {"imageID": "", "ready": running, "restartCount": 0, "state": state}
        ready = {"type": "Ready", "status": "True" if running else "False", "lastTransitionTime": moment}
        status: Document = {
            "phase": phase,
            "conditions": [ready, {**ready, "type": "ContainersReady"}],
            "containerStatuses": [
                {"name": container["name"], "image": container.get("image", ""), **shown}
                for container in pod["spec"]["containers"]
            ],
        }
        if not (pod.get("status") or {}).get("startTime"):
            status["startTime"] = moment
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        name, namespace = name_of(pod), namespace_of(pod)
        with suppress(NotFound, Conflict):  # the pod is gone, or another has its name
            await self._client.patch(POD, name, namespace, patch, type="strategic", subresource="status")
