# SPDX-License-Identifier: Apache-2.0
"""What the gate `Explain` costs a manager of 1,000 healthy jobs: memory of a pod, CPU at rest and while pods change.

Budgets: 3 KiB a pod, 5 % of a CPU; no condition and no event is written. The API server is the local one, in a process
of its own; the CPU is the manager's.
"""

import argparse
import asyncio
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from tests import builders
from tests.bench.machine import budget
from tests.integration.trainer.reporting import definitions
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.runtime import Client, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.job.pods import trimmed
from trainwright.plugins.testing import runtime_document

AT_ONCE = 32
PODS_A_JOB = 2
CHANGES_A_SECOND = 20


def pod(job: str, index: int, jobset_uid: str) -> Document:
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 30} for number in range(30)]
    containers = [{"name": "node", "image": "python", "env": env}]
    made = builders.pod(index, job=job, namespace="default", jobset_uid=jobset_uid, containers=[], nodeName="n")
    return {**made, "spec": {**made["spec"], "containers": containers}}


def status(restarts: int = 0) -> dict[str, Any]:
    time_of = "2026-01-01T00:00:00Z"
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": time_of} for kind in kinds]
    state = {"running": {"startedAt": time_of}}
    container = {
        "name": "node",
        "ready": True,
        "restartCount": restarts,
        "state": state,
        "image": "python",
        "imageID": "",
    }
    return {"phase": "Running", "startTime": time_of, "conditions": conditions, "containerStatuses": [container]}


def bytes_of_a_pod(count: int = 5000) -> float:
    """What a pod takes in the cache, decoded from the wire and trimmed."""
    documents = [
        msgspec.json.encode({**pod(f"job-{number}", 0, "u" * 36), "status": status()}) for number in range(count)
    ]
    gc.collect()
    tracemalloc.start()
    kept = [trimmed(msgspec.json.decode(document)) for document in documents]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(kept)


async def serve(folder: Path) -> None:
    """The API server, until this process is ended."""
    async with api_server(folder, memory=True) as api:
        client = Client(api.transport())
        await install(client, definitions(), owner="bench")
        await eventually(lambda: client.list(ClusterTrainingRuntime), lambda _: True, ignore=(NotFound,))
        await client.create(
            runtime_document("r", namespace="", policy={"numNodes": PODS_A_JOB}), kind=ClusterTrainingRuntime.RESOURCE
        )
        print("ready", flush=True)
        await asyncio.Event().wait()


async def fill(client: Client, jobs: int) -> None:
    """Make the pods of all jobs, and let their JobSets be ready."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        name = f"job-{number}"
        async with limit:
            jobset = await client.get(JobSet, name, "default")
            assert jobset.metadata is not None
            for index in range(PODS_A_JOB):
                made = pod(name, index, jobset.metadata.uid or "")
                await client.create(made, kind=Pod.RESOURCE)
                await client.patch(
                    Pod.RESOURCE, made["metadata"]["name"], "default", {"status": status()}, subresource="status"
                )
            counts = {"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}
            ready = {"status": {"replicatedJobsStatus": [counts]}}
            await client.patch(JobSet.RESOURCE, name, "default", ready, subresource="status")

    await asyncio.gather(*(one(number) for number in range(jobs)))


async def create(client: Client, jobs: int) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        document = {
            "apiVersion": TrainJob.RESOURCE.api_version,
            "kind": "TrainJob",
            "metadata": {"name": f"job-{number}", "namespace": "default"},
            "spec": {"runtimeRef": {"name": "r"}},
        }
        async with limit:
            await client.create(document, kind=TrainJob.RESOURCE)

    await asyncio.gather(*(one(number) for number in range(jobs)))


async def measure(kubeconfig: Path, *, gate: bool, seconds: float, jobs: int, changes: bool) -> float:
    """CPU seconds of a manager of its own process in so many seconds; this function runs in it."""
    configuration = Configuration(feature_gates={"Explain": gate})
    settings = settings_of(configuration)
    config = load_config(kubeconfig)
    manager = await make_manager(config, settings, user_agent=f"bench-{gate}")
    async with TaskScope("bench") as tasks:
        running = tasks.start("manager", manager.run())
        await manager.wait_ready()
        await asyncio.sleep(15)  # what a start costs is over
        changer = None
        if changes:
            command = [
                sys.executable,
                __file__,
                "--change",
                str(kubeconfig),
                "--jobs",
                str(jobs),
                "--seconds",
                str(seconds),
            ]
            changer = await asyncio.create_subprocess_exec(*command)
            await asyncio.sleep(2)
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
        if changer is not None:
            changer.terminate()
            await changer.wait()
        manager.stop()
        await asyncio.wait({running})
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def change(kubeconfig: Path, jobs: int, seconds: float) -> None:
    """Pods that change now and then, as in a busy cluster."""
    client = Client(HTTPTransport(load_config(kubeconfig)))
    end, number = time.monotonic() + seconds + 10, 0
    while time.monotonic() < end:
        name = f"job-{number % jobs}-node-0-0"
        await client.patch(Pod.RESOURCE, name, "default", {"status": status(number)}, subresource="status")
        number += 1
        await asyncio.sleep(1 / CHANGES_A_SECOND)


def manager_process(kubeconfig: Path, arguments: argparse.Namespace, *, gate: bool, changes: bool) -> float:
    command = [sys.executable, __file__, "--measure", str(kubeconfig), "--jobs", str(arguments.jobs)]
    command += ["--seconds", str(arguments.seconds), *(["--gate"] if gate else []), *(["--changes"] if changes else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


async def prepare(kubeconfig: Path, jobs: int) -> None:
    """All jobs run: a manager makes their JobSets, and their pods are ready."""
    client = Client(HTTPTransport(load_config(kubeconfig)))
    await create(client, jobs)
    manager = await make_manager(load_config(kubeconfig), settings_of(Configuration()), user_agent="bench")
    async with TaskScope("bench") as tasks:
        running = tasks.start("manager", manager.run())
        await eventually(lambda: client.list(JobSet, "default"), lambda made: len(made.items) == jobs, seconds=600)
        await fill(client, jobs)
        await asyncio.sleep(3)
        manager.stop()
        await asyncio.wait({running})
    await client.close()


async def written(kubeconfig: Path) -> tuple[int, int]:
    """Conditions and events that the manager wrote."""
    client = Client(HTTPTransport(load_config(kubeconfig)))
    jobs = (await client.list(TrainJob, "default")).items
    conditions = sum(bool(job.status and job.status.conditions) for job in jobs)
    events = len((await client.list(Event, "default")).items)
    await client.close()
    return conditions, events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    for internal in ("--serve", "--measure", "--change"):
        parser.add_argument(internal, type=Path, help=argparse.SUPPRESS)
    for internal in ("--gate", "--changes"):
        parser.add_argument(internal, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
    elif arguments.change:
        asyncio.run(change(arguments.change, arguments.jobs, arguments.seconds))
    elif arguments.measure:
        options = {"gate": arguments.gate, "seconds": arguments.seconds, "jobs": arguments.jobs}
        print(asyncio.run(measure(arguments.measure, changes=arguments.changes, **options)))
    else:
        print(f"a pod in the cache: {bytes_of_a_pod() / 1024:.2f} KiB (budget 3)")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--serve", folder]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == "ready\n"
                run(Path(folder) / "kubeconfig", arguments)
            finally:
                server.terminate()
                server.wait()


def run(kubeconfig: Path, arguments: argparse.Namespace) -> None:
    asyncio.run(prepare(kubeconfig, arguments.jobs))
    for changes, what in ((False, "at rest"), (True, f"with {CHANGES_A_SECOND} changes of pods a second")):
        off, on = (manager_process(kubeconfig, arguments, gate=gate, changes=changes) for gate in (False, True))
        share = (on - off) / arguments.seconds * 100
        print(
            f"{arguments.jobs} healthy jobs, {what}: {off:.2f} s of CPU without the gate, {on:.2f} s with it, in "
            f"{arguments.seconds:g} s: {share:.1f} % of a CPU ({budget(5)})"
        )
    conditions, events = asyncio.run(written(kubeconfig))
    print(f"conditions written: {conditions}, events: {events} (budget 0)")


if __name__ == "__main__":
    main()
