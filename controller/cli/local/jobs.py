# SPDX-License-Identifier: Apache-2.0
"""Submits a TrainJob and follows it: the lines of its ranks, what it waits for, how it ends.

Everything is asked of the API server, so it makes no difference in which process the cluster runs.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TextIO

from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.kubernetes.events.v1 import Event as ClusterEvent
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.local.reports import Reports
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request, Transport
from trainwright.controller.runtime.errors import KubernetesError, NotFound
from trainwright.controller.runtime.tasks import TaskScope

TRAINJOB = TrainJob.RESOURCE
_LOOK_SECONDS = 0.1
_DRAIN_SECONDS = 2.0
OUT_OF_TIME = 124
_TOLD_BY_STATUS = frozenset({"FailedScheduling", "Failed", "BackOff", "TrainJobResourcesCreationFailed"})
"""Reasons of events whose text is in the status of the pod or the job too, from where it is told."""


@dataclass
class Followed:
    """How a job ended."""

    code: int
    """Exit code of the command: 0 if it is Complete."""
    message: str


class Follower:
    """Follows one job to its end.

    Args:
        transport: the way to the API server.
        namespace: of the job.
        name: of the job.
        out: where lines go.
        stop_at_failure: end the job at the first failure of a container of the trainer.
        takes: whether the lines of a pod are shown; None: those of all.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        *,
        out: TextIO = sys.stdout,
        stop_at_failure: bool = True,
        takes: Callable[[Document], bool] | None = None,
    ) -> None:
        self._transport = transport
        self._client = Client(transport, user_agent="trainwright-local")
        self._namespace = namespace
        self._name = name
        self._out = out
        self._stop_at_failure = stop_at_failure
        self._takes = takes
        self._streams: set[tuple[str, str, int]] = set()
        self._told: set[str] = set()
        self._last = ""
        self._reports = Reports()
        self._started = False
        self._copies: list[asyncio.Task[None]] = []

    async def follow(self, *, start_seconds: float, seconds: float | None = None) -> Followed:
        """Follow until the job is finished, a container of it failed, or nothing started in time.

        Args:
            start_seconds: how long to wait for the first container that runs.
            seconds: how long the job may take from now on; None: as long as it likes.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + start_seconds
        end = None if seconds is None else loop.time() + seconds
        async with TaskScope("following") as tasks:
            while True:
                job = await self._job()
                self._tell_progress(job)
                pods = await self._pods()
                for pod in pods:
                    self._tell_waiting(pod)
                    if self._takes is None or self._takes(pod):
                        for container, restarts in _with_logs(pod):
                            self._show(tasks, pod, container, restarts)
                await self._tell_events(job, pods)
                ended = self._ended(job, pods)
                if ended is not None:
                    await self._drain()
                    return ended
                if not self._started and loop.time() > limit:
                    said = await self._why()
                    why = f": {said}" if said else ""
                    return Followed(OUT_OF_TIME, f"nothing of the job runs after {start_seconds:g} s{why}")
                if end is not None and loop.time() > end:
                    return Followed(OUT_OF_TIME, f"the job is not finished after {seconds:g} s")
                await asyncio.sleep(_LOOK_SECONDS)

    async def _why(self) -> str:
        """Why nothing runs: the sentence of `trainwright explain`; of a job that is only slow, what was said last."""
        # Imported here: most jobs start.
        from trainwright.controller.cli.explain import explaining_plugins  # noqa: PLC0415
        from trainwright.controller.trainer.explain import Reader  # noqa: PLC0415

        with suppress(KubernetesError):
            found = await Reader(self._client, explaining_plugins()).explain(self._namespace, self._name)
            if found.cause.reason not in ("Starting", "Running"):
                return found.cause.message
        return self._last

    async def _job(self) -> Document:
        return await self._client.get(TRAINJOB, self._name, self._namespace)

    async def _pods(self) -> list[Document]:
        listed = await self._client.list(Pod.RESOURCE, self._namespace, label_selector=f"{LABEL_JOBSET}={self._name}")
        return sorted(listed.items, key=rank_of)

    # ------------------------------------------------------------------ the end

    def _ended(self, job: Document, pods: list[Document]) -> Followed | None:
        conditions = {entry["type"]: entry for entry in (job.get("status") or {}).get("conditions") or ()}
        for kind, condition in conditions.items():
            if condition["status"] == "True":
                self._say(f"{kind}: {condition.get('message') or condition.get('reason')}")
        if conditions.get("Complete", {}).get("status") == "True":
            return Followed(0, "the job is Complete")
        failure = first_failure(pods)
        if conditions.get("Failed", {}).get("status") == "True":
            text = conditions["Failed"].get("message") or conditions["Failed"].get("reason") or "it failed"
            return Followed(failure.code if failure else 1, f"the job failed: {text}")
        if failure is not None and self._stop_at_failure:
            return Followed(failure.code, failure.text)
        return None

    # ------------------------------------------------------------------ what is said

    def _say(self, text: str) -> None:
        self._last = text
        if text not in self._told:
            self._told.add(text)
            print(f"| {text}", file=self._out, flush=True)

    def _tell_progress(self, job: Document) -> None:
        if line := self._reports.line(job):
            print(f"| {line}", file=self._out, flush=True)

    def _tell_waiting(self, pod: Document) -> None:
        rank = rank_of(pod)
        for status in container_statuses(pod):
            state = status.get("state") or {}
            waiting = state.get("waiting")
            if "running" in state or "terminated" in state:
                self._started = True
            if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                detail = f": {waiting['message']}" if waiting.get("message") else ""
                self._say(f"{rank} waits: {waiting['reason']}{detail}")
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                self._say(f"{rank} waits for room: {condition.get('message')}")

    async def _tell_events(self, job: Document, pods: list[Document]) -> None:
        uids = {uid_of(job), *(uid_of(pod) for pod in pods)}
        with suppress(KubernetesError):
            listed = await self._client.list(ClusterEvent.RESOURCE, self._namespace)
            for event in listed.items:
                regarding = event.get("regarding") or {}
                if event.get("type") != "Warning" or event.get("reason") in _TOLD_BY_STATUS:
                    continue
                if regarding.get("uid") in uids:
                    self._say(f"{regarding.get('name')}: {event.get('reason')}: {event.get('note')}")

    # ------------------------------------------------------------------ lines

    def _show(self, tasks: TaskScope, pod: Document, container: str, restarts: int) -> None:
        """Show the lines of the container's run, and of the one before if that was too short to be seen."""
        if restarts:
            self._stream(tasks, pod, container, restarts - 1, previous=True)
        # A container that fails is restarted at once. Where its first failure ends the job, the second run is noise.
        if not (restarts and self._stop_at_failure):
            self._stream(tasks, pod, container, restarts, previous=False)

    def _stream(self, tasks: TaskScope, pod: Document, container: str, run: int, *, previous: bool) -> None:
        key = (uid_of(pod), container, run)
        if key not in self._streams:
            self._streams.add(key)
            several = len(container_statuses(pod)) > 1
            prefix = f"[{rank_of(pod)}{f'/{container}' if several else ''}]"
            which = {"previous": "true"} if previous else {"follow": "true"}
            self._copies.append(tasks.start(f"log/{key[0]}", self._copy(name_of(pod), container, which, prefix)))

    async def _copy(self, pod: str, container: str, which: dict[str, str], prefix: str) -> None:
        request = Request(
            "GET",
            f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log",
            query={"container": container, **which},
            timeout=None,
        )
        with suppress(NotFound, KubernetesError):
            async with self._transport.open(request) as stream:
                if stream.status == 200:
                    async with aclosing(stream.chunks()) as chunks:
                        async for line in _lines(chunks):
                            print(f"{prefix} {line}", file=self._out, flush=True)

    async def _drain(self) -> None:
        """Let the streams of containers that have ended come to their end."""
        waiting = [copy for copy in self._copies if not copy.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=_DRAIN_SECONDS)


@dataclass(frozen=True, slots=True)
class Failure:
    """The first container that failed."""

    code: int
    text: str


def first_failure(pods: list[Document]) -> Failure | None:
    """The container of the job that ended first with an exit code other than 0, in its present or its last run."""
    found: list[tuple[str, int, str]] = []
    for pod in pods:
        for status in container_statuses(pod):
            for state in (status.get("lastState") or {}, status.get("state") or {}):
                ended = state.get("terminated")
                if ended and ended.get("exitCode"):
                    text = f"{rank_of(pod)} failed with exit code {ended['exitCode']} ({ended.get('reason')})"
                    if ended.get("reason") == "StartError" and ended.get("message"):
                        text += f": {ended['message']}"
                    found.append((str(ended.get("finishedAt")), int(ended["exitCode"]), text))
    if not found:
        return None
    _, code, text = min(found)
    return Failure(code, text)


def rank_of(pod: Document) -> str:
    """The pod as people call it: `node-0`."""
    labels = pod["metadata"].get("labels") or {}
    return f"{labels.get(LABEL_REPLICATED_JOB, 'pod')}-{labels.get(LABEL_INDEX, '0')}"


def container_statuses(pod: Document) -> list[Document]:
    """The statuses of all containers, those of initialisation first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _with_logs(pod: Document) -> list[tuple[str, int]]:
    return [
        (status["name"], status.get("restartCount") or 0)
        for status in container_statuses(pod)
        if {"running", "terminated"} & (status.get("state") or {}).keys()
    ]


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
    if rest:
        yield rest.decode(errors="replace")
