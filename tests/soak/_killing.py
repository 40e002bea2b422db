# SPDX-License-Identifier: Apache-2.0
"""Kills the manager at a certain point of a TrainJob's life, starts it again, and looks at how the job ends.

A proxy in front of the API server keeps the request of that point, or its answer, and then the manager is killed. Each
life has a namespace, a proxy and a manager of its own, which looks after that namespace only, so that several go on at
once in one cluster. The job is one of Open MPI: a snapshot, a hostfile, a Secret of generated keys, and a JobSet.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.e2e.conftest import NOWHERE
from tests.managers import start_manager
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.fault_proxy import Fault, FaultProxy
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually

JOB = "job"
SNAPSHOT, HOSTFILE, KEYS = f"{JOB}-runtime-snapshot", f"{JOB}-mpi-hostfile", f"{JOB}-mpi-ssh-auth"
OBJECTS = ((ConfigMap, SNAPSHOT), (ConfigMap, HOSTFILE), (Secret, KEYS), (JobSet, JOB))
SECONDS = 60.0
DEADLINE_SECONDS = 3


@dataclass(frozen=True)
class Life:
    """What is done with a job, and how it ends."""

    spec: Document
    pod: Document
    conditions: dict[str, tuple[str, str]]
    """Status and reason by type, in the end."""
    jobset_writes: int
    """How often the JobSet is written in all."""
    then: Document | None = None
    """A change of the spec, once all objects are there."""
    jobset_stays: bool = True
    jobset_suspended: bool = False


COMPLETE = Life({}, {}, {"Complete": ("True", "AllJobsCompleted")}, jobset_writes=1)
SUSPEND = Life(
    {},
    NOWHERE,
    {"Suspended": ("True", "Suspended")},
    jobset_writes=2,
    then={"suspend": True},
    jobset_suspended=True,
)
RESUME = Life(
    {"suspend": True},
    {},
    {"Suspended": ("False", "Resumed"), "Complete": ("True", "AllJobsCompleted")},
    jobset_writes=2,
    then={"suspend": False},
)
DEADLINE = Life(
    {"activeDeadlineSeconds": DEADLINE_SECONDS},
    NOWHERE,
    {"Failed": ("True", "DeadlineExceeded")},
    jobset_writes=1,
    jobset_stays=False,
)


@dataclass(frozen=True)
class Point:
    """Where the manager is killed: at a request, before the server has it or after it did it."""

    life: Life
    method: str
    path: str
    """End of the path."""
    done: bool
    contains: bytes = b""
    """Part of the body."""

    def fault(self) -> Fault:
        """For the proxy. Further tries of the same are kept as well: the client may lose patience."""

        def when(request: web.Request) -> bool:
            return request.method == self.method and request.path.endswith(self.path)

        return Fault(when, times=float("inf"), contains=self.contains, hold=True, lose=self.done)


STATUS = f"/trainjobs/{JOB}/status"
POINTS: dict[str, Point] = {
    "before the snapshot": Point(COMPLETE, "POST", "/configmaps", done=False),
    "after the snapshot": Point(COMPLETE, "POST", "/configmaps", done=True),
    "after the hostfile": Point(COMPLETE, "PATCH", f"/configmaps/{HOSTFILE}", done=True),
    "after the keys": Point(COMPLETE, "POST", "/secrets", done=True),
    "after the JobSet": Point(COMPLETE, "PATCH", f"/jobsets/{JOB}", done=True),
    "before the first status": Point(COMPLETE, "PATCH", STATUS, done=False),
    "after the first status": Point(COMPLETE, "PATCH", STATUS, done=True),
    "during suspend": Point(SUSPEND, "PATCH", f"/jobsets/{JOB}", done=True, contains=b'"suspend":true'),
    "during resume": Point(RESUME, "PATCH", f"/jobsets/{JOB}", done=True, contains=b'"suspend":false'),
    "after the deadline's mark": Point(DEADLINE, "PATCH", STATUS, done=True, contains=b"DeadlineExceeded"),
    "after the deadline's delete": Point(DEADLINE, "DELETE", f"/jobsets/{JOB}", done=True),
    "before Complete": Point(COMPLETE, "PATCH", STATUS, done=False, contains=b"Complete"),
}


async def kill_at(plane: ControlPlane, client: Client, name: str) -> list[str]:
    """Live one life with a kill; gives what is wrong about it in the end."""
    point = POINTS[name]
    namespace = await asyncio.to_thread(plane.create_namespace, "kill")
    async with FaultProxy(load_config(plane.kubeconfig)) as proxy:
        kubeconfig = plane.users.kubeconfig_with_token(namespace, plane.token, server=proxy.config.server)

        async def start() -> None:
            await asyncio.to_thread(
                start_manager, plane, f"--namespace={namespace}", name=namespace, kubeconfig=kubeconfig
            )

        fault = proxy.add(point.fault())
        await start()
        await client.create(runtime(namespace, point.life.pod), kind=TrainingRuntime.RESOURCE)
        await client.create(train_job(namespace, point.life.spec), kind=TrainJob.RESOURCE)
        if point.life.then is not None:
            await eventually(lambda: _is_settled(client, namespace, point.life), seconds=SECONDS)
            await client.patch(TrainJob, JOB, namespace, {"spec": point.life.then})
        async with asyncio.timeout(SECONDS):
            await fault.held.wait()
        await asyncio.to_thread(plane.stop_program, namespace, kill=True)
        before = await client.get(TrainJob.RESOURCE, JOB, namespace)
        proxy.clear()
        await start()
        try:
            with suppress(GaveUp):
                await eventually(lambda: _is_over(client, namespace, point.life), seconds=SECONDS)
            wrong = await _faults(plane, client, namespace, point.life, before)
            # What explains it is gone with the folder.
            return [*wrong, *_evidence(plane, namespace)] if wrong else []
        finally:
            await asyncio.to_thread(plane.stop_program, namespace)


async def kill_everywhere(plane: ControlPlane, *, at_once: int) -> dict[str, list[str]]:
    """Kill at all points, each in a life of its own; gives what is wrong, by point."""
    gate = asyncio.Semaphore(at_once)
    client = Client(HTTPTransport(load_config(plane.kubeconfig)), user_agent="kills")
    try:

        async def one(name: str) -> list[str]:
            async with gate:
                try:
                    return await kill_at(plane, client, name)
                except (GaveUp, TimeoutError):
                    return ["the point was not reached"]

        return dict(zip(POINTS, await asyncio.gather(*map(one, POINTS)), strict=True))
    finally:
        await client.close()


async def _is_settled(client: Client, namespace: str, life: Life) -> bool:
    """Whether the manager has done all that it does before `life.then`."""
    job = await client.get(TrainJob.RESOURCE, JOB, namespace)
    expected = {"Suspended"} if life.spec.get("suspend") else set()
    with suppress(NotFound):
        await client.get(JobSet.RESOURCE, JOB, namespace)
        return expected <= conditions(job).keys()
    return False


async def _is_over(client: Client, namespace: str, life: Life) -> bool:
    job = await client.get(TrainJob.RESOURCE, JOB, namespace)
    if conditions(job) != life.conditions:
        return False
    try:
        await client.get(JobSet.RESOURCE, JOB, namespace)
    except NotFound:
        return not life.jobset_stays
    return life.jobset_stays


async def _faults(plane: ControlPlane, client: Client, namespace: str, life: Life, before: Document) -> list[str]:
    """What is not as it would be without a kill."""
    wrong = []
    job = await client.get(TrainJob.RESOURCE, JOB, namespace)
    if conditions(job) != life.conditions:
        wrong.append(f"the conditions are {conditions(job)}")
    kept = {c["type"]: c for c in job.get("status", {}).get("conditions", [])}
    wrong += [
        f"{condition} was written again"
        for condition in before.get("status", {}).get("conditions", [])
        if condition["status"] == life.conditions[condition["type"]][0] and kept.get(condition["type"]) != condition
    ]
    for kind, name in OBJECTS:
        try:
            found = await client.get(kind.RESOURCE, name, namespace)
        except NotFound:
            if kind is not JobSet or life.jobset_stays:
                wrong.append(f"{kind.RESOURCE.kind} {name} is missing")
            continue
        if kind is JobSet and not life.jobset_stays:
            wrong.append("the JobSet is still there")
        if kind is JobSet and bool(found["spec"].get("suspend")) != life.jobset_suspended:
            wrong.append(f"suspend of the JobSet is {found['spec'].get('suspend')}")
    calls = [call for call in plane.audit_log.calls() if call.namespace == namespace and call.code < 300]
    ours = [call for call in calls if call.user_agent.endswith("trainwright") and call.is_write]
    writes = Counter((call.verb, call.resource, call.name) for call in ours if call.subresource == "")
    expected = Counter(
        {
            ("create", "configmaps", SNAPSHOT): 1,
            ("patch", "configmaps", HOSTFILE): 1,
            ("create", "secrets", KEYS): 1,
            ("patch", "jobsets", JOB): life.jobset_writes,
        }
    )
    if not life.jobset_stays:
        expected["delete", "jobsets", JOB] = 1
    if writes != expected:
        wrong.append(f"the writes are {dict(writes)}")
    if twice := [c.name for c in calls if c.verb == "create" and c.resource == "jobs" and c.subresource == ""][2:]:
        wrong.append(f"the JobSet made jobs again: {twice}")
    return wrong


def _evidence(plane: ControlPlane, namespace: str) -> list[str]:
    """The manager's log, over both of its lives, and what the API server was asked in the namespace."""
    log = (plane.folder / f"{namespace}.log").read_text().splitlines()
    calls = [call for call in plane.audit_log.calls() if call.namespace == namespace]
    return [*log[-60:], *(f"{call.verb} {call.resource} {call.name} {call.code} {call.user_agent}" for call in calls)]


def conditions(job: Document) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    return {c["type"]: (c["status"], c["reason"]) for c in job.get("status", {}).get("conditions", [])}


def runtime(namespace: str, pod: Document) -> Document:
    """Open MPI with one launcher, which is a node, and one more node."""

    def replicated(name: str, step: str | None) -> dict[str, Any]:
        job = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "example.com/none"}], **pod}}}}
        labels = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}}} if step else {}
        return {"name": name, "template": {**labels, **job}}

    mpi = {"numProcPerNode": 1, "mpiImplementation": "OpenMPI", "runLauncherAsNode": True}
    jobs = [replicated("launcher", "trainer"), replicated("node", None)]
    return {
        "apiVersion": TrainingRuntime.RESOURCE.api_version,
        "kind": "TrainingRuntime",
        "metadata": {"name": "mpi", "namespace": namespace},
        "spec": {"mlPolicy": {"numNodes": 2, "mpi": mpi}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


def train_job(namespace: str, spec: Document) -> Document:
    """A job of that runtime."""
    return {
        "apiVersion": TrainJob.RESOURCE.api_version,
        "kind": "TrainJob",
        "metadata": {"name": JOB, "namespace": namespace},
        "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "mpi"}, **spec},
    }
