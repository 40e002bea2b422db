# SPDX-License-Identifier: Apache-2.0
"""The jobs of a local cluster without kubectl: list, show, stop, resume and delete them, and wait for their end."""

import asyncio
import fnmatch
import json
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trainwright.api.errors import UserError
from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, name_of, namespace_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.cli import state
from trainwright.controller.cli.local.follower import OUT_OF_TIME, TRAINJOB
from trainwright.controller.cli.local.outputs import KeptOutput, folder_of_job
from trainwright.controller.cli.local.pods import by_rank, first_failure, has_ended, pods_of, still_running
from trainwright.controller.local.node.folders import ended_pods
from trainwright.controller.runtime import Client, Conflict, HTTPTransport, NotFound, load_config
from trainwright.controller.trainer.failures.first import written_failures
from trainwright.controller.trainer.job.pods import attempt_of, container_statuses, rank_of
from trainwright.controller.views import actions, text
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.ended import Ended
from trainwright.controller.views.job import History, JobView, sorted_views, view_of

END_SECONDS = 60.0
"""How long `stop` and `delete` wait for pods to end; their grace is 30 s by default."""
_LOOK_SECONDS = 0.1
_SUSPENDED, _FAILED, _GONE = "suspended", 1, 1
GPU = "nvidia.com/gpu"


class RefusedError(UserError):
    """The job is not in a state for what is asked; the text says why."""


@dataclass(frozen=True, slots=True)
class LocalJobs:
    """The TrainJobs of one namespace of a cluster; of all, to list them, if it is empty.

    `logs` is the folder of the node's logs, which has those of pods that are gone; None: it is not here.
    """

    client: Client
    namespace: str
    logs: Path | None = None

    # ------------------------------------------------------------------ looking

    async def all(self) -> list[Document]:
        """All jobs. Raises KubernetesError."""
        return (await self.client.list(TRAINJOB, self.namespace)).items

    async def searches(self) -> list[OptimizationJob]:
        """All OptimizationJobs; none where the cluster does not serve them. Raises KubernetesError."""
        try:
            return (await self.client.list(OptimizationJob, self.namespace)).items
        except NotFound:
            return []

    async def ended(self, jobs: Sequence[Document]) -> Ended:
        found = Ended(self.client)
        await found.read(map(typed, jobs))
        return found

    async def get(self, name: str) -> Document:
        """One job. Raises RefusedError if there is none of that name."""
        try:
            return await self.client.get(TRAINJOB, name, self.namespace)
        except NotFound as error:
            if any(one.name == name for one in await self.searches()):
                raise RefusedError(
                    f"{name} is a search; its trials are the TrainJobs {name}-1, {name}-2 and so on: name one, or "
                    f"see all with: trainwright explain {name}"
                ) from error
            raise RefusedError(f"there is no TrainJob {name} in namespace {self.namespace}") from error

    async def matching(self, name: str) -> list[str]:
        """The names of the jobs that a pattern such as `sw-*` means, the oldest first; the name itself if it is none.

        Raises RefusedError if it means no job.
        """
        if not any(letter in name for letter in "*?["):
            return [name]
        found = [job for job in await self.all() if fnmatch.fnmatchcase(name_of(job), name)]
        if not found:
            raise RefusedError(f"there is no TrainJob in namespace {self.namespace} whose name is like {name}")
        return [
            name_of(job) for job in sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], name_of(job)))
        ]

    async def pods(self, name: str) -> list[Document]:
        """The pods of a job, by rank."""
        return await pods_of(self.client, self.namespace, name)

    async def all_pods(self, job: Document) -> list[Document]:
        """The pods of a job, also those that are gone and whose lines are kept, by attempt and rank."""
        found = await self.pods(name_of(job))
        if self.logs is not None:
            known = set(map(uid_of, found))
            ended = await asyncio.to_thread(ended_pods, self.logs, uid_of(job))
            found += [one.gone for one in ended if uid_of(one.document) not in known]
        return sorted(found, key=lambda pod: (attempt_of(pod), *by_rank(pod), name_of(pod)))

    # ------------------------------------------------------------------ changing

    async def stop(self, name: str) -> str:
        """Suspend a job and wait until its pods have ended; returns what to say. Raises RefusedError."""
        changed = await self._suspend(name, on=True)
        if pods := await still_running(self.client, self.namespace, name, END_SECONDS):
            raise RefusedError(
                f"TrainJob {name} is suspended, but {counted(len(pods), 'pod')} did not end within "
                f"{END_SECONDS:.0f} s: {', '.join(map(name_of, pods))}"
            )
        return f"TrainJob {name}: {'stopped' if changed else 'is stopped already'}"

    async def resume(self, name: str) -> str:
        """Let a stopped job go on; returns what to say. Raises RefusedError."""
        changed = await self._suspend(name, on=False)
        return f"TrainJob {name}: {'resumed' if changed else 'is not stopped'}"

    async def delete(self, name: str) -> str:
        """Delete a job and wait until it is gone, its pods first; returns what to say. Raises RefusedError."""
        if not await delete(self.client, await self.get(name), END_SECONDS):
            raise RefusedError(
                f"TrainJob {name} is being deleted, and is still there after {END_SECONDS:.0f} s; "
                f"it waits for {', '.join(map(name_of, await self.pods(name))) or 'its finalizers'}"
            )
        return f"TrainJob {name}: deleted"

    async def _suspend(self, name: str, *, on: bool) -> bool:
        try:
            return await actions.suspend(self.client, await self.get(name), on=on)
        except Conflict as error:
            raise RefusedError(error.message) from error

    # ------------------------------------------------------------------ waiting

    async def wait(self, name: str, until: str, seconds: float | None) -> tuple[int, str]:
        """Wait for a job; returns the exit code and what to say. Raises RefusedError if there is no such job.

        `until` is `end`, `running` (a container of it runs) or `suspended` (and none of its pods is left).
        """
        first = await self.get(name)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while (job := await _same(self.client, first)) is not None:
            reached = await self._reached(job, until)
            if reached is not None:
                return reached, f"TrainJob {name}: {_state(job)}"
            if time.monotonic() >= deadline:
                return OUT_OF_TIME, f"TrainJob {name} after {seconds:g} s: {_state(job)}"
            await asyncio.sleep(_LOOK_SECONDS)
        return _GONE, f"TrainJob {name} was deleted"

    async def _reached(self, job: Document, until: str) -> int | None:
        """The exit code, if there is nothing to wait for any more."""
        view = _view(job)
        if view.is_over:
            if until == "end":
                return 0 if view.state == "Complete" else await self._code(job)
            return _FAILED
        if until == "running":
            # The job says so a moment after its pods.
            waits = view.state in ("Suspended", "Blocked", "Pending")
            return 0 if not waits and any(map(_runs, await self.pods(name_of(job)))) else None
        if until == _SUSPENDED:
            stopped = all(map(has_ended, await self.pods(name_of(job))))
            return 0 if view.state == "Suspended" and stopped else None
        return None

    async def _code(self, job: Document) -> int:
        failure = first_failure(await self.all_pods(job))
        return failure.code if failure is not None else _FAILED


async def delete(client: Client, job: Document, seconds: float) -> bool:
    """Delete this very job and wait until it and its pods are gone, but not longer; returns whether they are."""
    await actions.delete(client, job)
    deadline = time.monotonic() + seconds
    while await _same(client, job) is not None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def _same(client: Client, job: Document) -> Document | None:
    """The job as it is now; None once it is deleted, also if another one got its name."""
    found = await if_there(client.get(TRAINJOB, name_of(job), namespace_of(job)))
    return found if found is not None and uid_of(found) == uid_of(job) else None


@asynccontextmanager
async def jobs_of(folder: Path, namespace: str) -> AsyncIterator[LocalJobs]:
    client = Client(HTTPTransport(load_config(folder / "kubeconfig")), user_agent="trainwright-local")
    try:
        yield LocalJobs(client, namespace, folder / "logs")
    finally:
        await client.close()


async def in_use_of(chosen: Sequence[KeptOutput]) -> Mapping[Path, str]:
    """The outputs of jobs that have not ended, and why they are in use."""
    found: dict[Path, str] = {}
    clusters = {one.owner.cluster for one in chosen if one.owner.cluster}
    for cluster in map(Path, sorted(clusters)):
        its = [one for one in chosen if one.owner.cluster == str(cluster)]
        if state.running(cluster) is not None:
            going = await _going(cluster)
            found |= {one.folder: f"TrainJob {one.owner.job} has not ended" for one in its if one.owner.uid in going}
        elif state.is_held(cluster):
            found |= {one.folder: f"a `run` uses the cluster {cluster.name}; wait for its end" for one in its}
    return found


async def _going(cluster: Path) -> set[str]:
    async with jobs_of(cluster, "") as jobs:
        return {job["metadata"]["uid"] for job in await jobs.all() if not _view(job).is_over}


async def content_of(folder: Path) -> list[str]:
    """Lines about the node and the pods of a cluster that runs."""
    async with jobs_of(folder, "") as local:
        nodes = (await local.client.list(Node.RESOURCE)).items
        pods = (await local.client.list(Pod.RESOURCE)).items
        jobs = await local.all()
    running = sum(dig(pod, "status.phase") == "Running" for pod in pods)
    return [
        *(f"room         {room_of(dig(node, 'status.allocatable') or {})}" for node in nodes),
        f"work         {counted(len(jobs), 'TrainJob')}, {running} of {counted(len(pods), 'pod')} running",
    ]


def room_of(allocatable: Mapping[str, str]) -> str:
    """How much pods can request, as people say it: `1.8 CPUs, 21695 MiB of memory, 2 GPUs`."""
    found: list[str] = []
    if "cpu" in allocatable:
        cpus = Quantity.parse(allocatable["cpu"]).milli() / 1000
        found.append(f"{cpus:g} CPU{'' if cpus == 1 else 's'}")
    if "memory" in allocatable:
        found.append(f"{Quantity.parse(allocatable['memory']).rounded_up() // 2**20} MiB of memory")
    if GPU in allocatable:
        found.append(counted(Quantity.parse(allocatable[GPU]).rounded_up(), "GPU"))
    return ", ".join(found)


# ---------------------------------------------------------------------- text


def table(jobs: Sequence[Document], now: datetime, *, namespaces: bool, ended: Ended | None = None) -> list[str]:
    """The jobs as a table, what trains first. `ended`: has read why jobs failed."""
    views = sorted_views(
        [
            view_of(job, History(), now, failure=ended.sentence(job), brief=ended.brief(job))
            if ended is not None
            else view_of(job, History(), now)
            for job in map(typed, jobs)
        ]
    )
    columns: dict[str, Callable[[JobView], str]] = {"NAMESPACE": lambda view: view.namespace} if namespaces else {}
    columns |= {
        "NAME": lambda view: text.printable(view.name),
        "STATE": text.state,
        "RUNTIME": lambda view: view.runtime or text.NONE,
        "NODES": _nodes,
        "PROGRESS": text.percent,
        "AGE": lambda view: _between(view.created, now),
        "TOOK": lambda view: _between(view.created, view.ended),
    }
    if any(map(text.why, views)):
        columns["WHY"] = text.why
    return text.aligned([list(columns), *([cell(view) for cell in columns.values()] for view in views)])


def details(job: Document, pods: Sequence[Document], now: datetime) -> list[str]:
    """All about one job: how it stands, what it reported, and each rank."""
    view = _view(job)
    nodes = _nodes(view) if view.nodes is not None else "as many as the runtime says"
    shown = [("runtime", view.runtime or text.NONE), ("nodes", nodes), ("age", _between(view.created, now))]
    if view.is_over:
        shown.append(("took", _between(view.created, view.ended)))
    if (output := folder_of_job(job)) is not None:
        shown.append(("output", str(output)))
    told = text.details(view, now, ascii_only=True)
    shown = [told[0], *shown, *(told[1:] if view.reported is not None else [])]
    lines = text.titled(view, shown)
    if pods:
        rows = [["RANK", "STATE", "RESTARTS", "POD"], *(_row(pod) for pod in pods)]
        lines += ["", *(f"  {line}" for line in text.aligned(rows))]
    return lines


def show_objects(found: Document | list[Document], form: str) -> None:
    """Print an object, or a list of objects, as `json` or `yaml`, without the fields that only machines read."""
    several = isinstance(found, list)
    shown = {"apiVersion": "v1", "kind": "List", "items": [*map(_plain, found)]} if several else _plain(found)
    if form == "json":
        print(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        yaml.safe_dump(shown, sys.stdout, sort_keys=False, allow_unicode=True)


def _plain(found: Any) -> Any:
    metadata = {name: value for name, value in found["metadata"].items() if name != "managedFields"}
    return {**found, "metadata": metadata}


def _row(pod: Document) -> list[str]:
    statuses = container_statuses(pod)
    restarts = sum(status.get("restartCount") or 0 for status in statuses)
    return [rank_of(pod), _pod_state(pod, statuses), str(restarts), name_of(pod)]


def _pod_state(pod: Document, statuses: Sequence[Document]) -> str:
    """What a pod does: the state of the container that says most, else its phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Ending"
    for status in statuses:
        ended = dig(status, "state.terminated") or {}
        if ended.get("exitCode"):
            stopped = any(one.stopped and one.container == status["name"] for one in written_failures(pod))
            return f"{'Stopped' if stopped else 'Failed'} (exit code {ended['exitCode']})"
        waiting = dig(status, "state.waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"Waiting ({waiting['reason']})"
    return str(dig(pod, "status.phase") or "Pending")


def _runs(pod: Document) -> bool:
    return any("running" in (status.get("state") or {}) for status in container_statuses(pod))


def typed(job: Document) -> TrainJob:
    return msgspec.convert(job, TrainJob)


def _view(job: Document) -> JobView:
    return view_of(typed(job), History(), wall_clock())


def _state(job: Document) -> str:
    return text.state(_view(job))


def _nodes(view: JobView) -> str:
    return str(view.nodes) if view.nodes is not None else text.NONE


def _between(begin: datetime | None, end: datetime | None) -> str:
    if begin is None or end is None:
        return text.NONE
    return text.duration(max(0.0, (end - begin).total_seconds()))
