# SPDX-License-Identifier: Apache-2.0
"""The local cluster: how fast it is there, what it holds in memory, and what it answers beside the real API server.

Each start is a new process with warm bytecode. The load comes from this process, over HTTPS, as that of any client, 32
requests at a time. A ratio is the local cluster's time over that of the real programs for the same work in the same
run: a slow machine changes the figure and not the ratio. "1,000 TrainJobs" is the time of their creation, as the client
waits for it, and not of what controllers make of them later.
"""

import argparse
import asyncio
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.managers import start_manager
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod
from trainwright.api.manifest import documents
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.cli import state
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import equals, eventually

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "trainwright.controller.cli.main", "local")
AT_ONCE = 32
PODS = 10
RATE = 100
RATE_SECONDS = 5
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: default}
spec:
  suspend: true
  runtimeRef: {name: xgboost-distributed}
  trainer: {numNodes: 2, command: [python, -c, "print('first line')"]}
"""


def memory(pid: int) -> int:
    """Resident memory of a process in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


@contextmanager
def cluster(folder: Path, *arguments: str) -> Iterator[tuple[float, state.ClusterRun]]:
    """A cluster in a process of its own; yields the seconds until it was ready, and how it runs."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*COMMAND, "up", "--foreground", f"--dir={folder}", *arguments], stdout=subprocess.DEVNULL
    ) as process:
        while (run := state.running(folder)) is None:
            assert process.poll() is None, "the cluster ended"
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        try:
            yield seconds, run
        finally:
            process.terminate()


def start(*arguments: str) -> float:
    """Seconds until a cluster in a new folder is ready, the best of three."""
    found = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), *arguments) as (seconds, _run):
            found.append(seconds)
    return min(found)


def first_line(folder: Path) -> float:
    """Seconds from the command to the first line of a job's log."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*COMMAND, "run", f"--dir={folder}", "--file=-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write(JOB.replace("suspend: true", "suspend: false"))
        run.stdin.close()
        for line in run.stdout:
            if "first line" in line:
                seconds = time.perf_counter() - began
                break
        else:
            raise SystemExit("the job wrote nothing")
        run.stdout.read()
    return seconds


async def create_jobs(kubeconfig: Path, count: int) -> float:
    """Seconds to create so many suspended TrainJobs, some at a time."""
    transport = HTTPTransport(load_config(kubeconfig))
    client = Client(transport, user_agent="bench")
    job = next(iter(documents(JOB))).data
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        one: dict[str, Any] = copy.deepcopy(job)
        one["metadata"]["name"] = f"job-{number}"
        async with gate:
            await client.create(one, kind=TrainJob.RESOURCE)

    began = time.perf_counter()
    await asyncio.gather(*(create(number) for number in range(count)))
    seconds = time.perf_counter() - began
    await client.close()
    return seconds


async def prepare(kubeconfig: Path) -> None:
    """The definitions and one runtime, on an API server alone."""
    client = Client(
        HTTPTransport(load_config(kubeconfig)),
        user_agent="bench",
    )
    discovery = Discovery(client)
    for file in sorted((ROOT / "config" / "crd").glob("trainer*.yaml")):
        document = next(iter(documents(file.read_text()))).data
        await client.apply(document, kind=await discovery.resource_of(document), field_manager="bench")
    await asyncio.sleep(1.0)
    runtime = next(iter(documents((ROOT / "config" / "runtimes" / "xgboost-distributed.yaml").read_text()))).data
    await client.apply(runtime, kind=ClusterTrainingRuntime.RESOURCE, field_manager="bench")
    await client.close()


async def latencies(kubeconfig: Path) -> list[float]:
    """Milliseconds from a PUT to the event at a watcher."""
    transport = HTTPTransport(load_config(kubeconfig))
    client = Client(transport, user_agent="bench")
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched", "namespace": "default"}}
    await client.create(document, kind=ConfigMap.RESOURCE)
    sent: dict[str, float] = {}
    seen: list[float] = []
    count = RATE * RATE_SECONDS

    async def watch() -> None:
        request = Request(
            "GET",
            "/api/v1/namespaces/default/configmaps",
            query={"watch": "true", "fieldSelector": "metadata.name=watched"},
            timeout=None,
        )
        rest = b""
        async with transport.open(request) as stream:
            async for chunk in stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    number = line.partition(b'"number":"')[2].partition(b'"')[0].decode()
                    if number in sent:
                        seen.append((time.perf_counter() - sent.pop(number)) * 1000)
                if len(seen) == count:
                    return

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.5)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / RATE - loop.time()))
        sent[str(number)] = time.perf_counter()
        await client.update({**document, "data": {"number": str(number)}}, kind=ConfigMap.RESOURCE)
    await asyncio.wait_for(watching, 10)
    await client.close()
    return seen


async def fill(kubeconfig: Path, count: int) -> float:
    """Create so many ConfigMaps of 1 KB; returns the writes per second."""
    client = Client(HTTPTransport(load_config(kubeconfig)), user_agent="bench")
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(number: int) -> None:
        async with gate:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c-{number}", "namespace": "default"},
            }
            await client.create({**body, "data": {"text": "x" * 1000}}, kind=ConfigMap.RESOURCE)

    began = time.perf_counter()
    await asyncio.gather(*(create(number) for number in range(count)))
    seconds = time.perf_counter() - began
    await client.close()
    return count / seconds


async def run_pods(kubeconfig: Path, count: int) -> None:
    """Run so many pods that wait, and return when all of them run."""
    client = Client(HTTPTransport(load_config(kubeconfig)), user_agent="bench")
    command = ["python", "-c", "import time; time.sleep(600)"]
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "python", "command": command}]}
    for number in range(count):
        metadata = {"name": f"waits-{number}", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, kind=Pod.RESOURCE)

    async def running() -> int:
        found = (await client.list(Pod.RESOURCE, "default")).items
        waiting = [pod for pod in found if pod["metadata"]["name"].startswith("waits-")]
        return sum((pod.get("status") or {}).get("phase") == "Running" for pod in waiting)

    await eventually(running, equals(count), seconds=60.0)
    await client.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="TrainJobs to create (default: %(default)s)")
    parser.add_argument("--objects", type=int, default=10_000, help="objects of the restart (default: %(default)s)")
    arguments = parser.parse_args()
    provide(("etcd", "kube-apiserver", "kube-controller-manager", "jobset-manager"))
    print(f"start, API server alone: {start('--only=apiserver'):.2f} s (budget 1.0)")
    print(f"start, with controllers, node and manager: {start():.2f} s (budget 2.0)")
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as (_, run):
        asyncio.run(run_pods(Path(name) / "kubeconfig", PODS))
        print(f"memory with {PODS} pods, without their processes: {memory(run.pid)} MiB (budget 150)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(
            f"run, no cluster running, to the first line: {min(first_line(folder) for _ in range(3)):.2f} s (budget 3)"
        )
        with cluster(folder) as (_, run):
            print(f"run, one running: {min(first_line(folder) for _ in range(3)):.2f} s (target 0.7)")
            with_webhooks = asyncio.run(create_jobs(folder / "kubeconfig", arguments.jobs))
            print(f"memory with {arguments.jobs} suspended TrainJobs: {memory(run.pid)} MiB (target 350)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with cluster(folder, "--only=apiserver"):
            asyncio.run(prepare(folder / "kubeconfig"))
            alone = asyncio.run(create_jobs(folder / "kubeconfig", arguments.jobs))
            found = sorted(asyncio.run(latencies(folder / "kubeconfig")))
            print(
                f"PUT to watcher at {RATE} writes/s: median {statistics.median(found):.1f} ms, "
                f"p99 {found[int(len(found) * 0.99)]:.1f} ms (target 20)"
            )
            writes = asyncio.run(fill(folder / "kubeconfig", arguments.objects))
        with cluster(folder, "--only=apiserver") as (seconds, _):
            print(f"restart with {arguments.objects} objects: {seconds:.2f} s (target 3)")
    with ControlPlane(crds=[ROOT / "config" / "crd"]) as real:
        asyncio.run(prepare(real.kubeconfig))
        beside = asyncio.run(create_jobs(real.kubeconfig, arguments.jobs))
        real_writes = asyncio.run(fill(real.kubeconfig, arguments.objects))
    with ControlPlane(crds=[ROOT / "config" / "crd"], jobset=True, controller_manager=True) as real:
        start_manager(real, webhooks=True)
        asyncio.run(prepare(real.kubeconfig))
        beside_with_webhooks = asyncio.run(create_jobs(real.kubeconfig, arguments.jobs))
    print(
        f"ConfigMaps of 1 KB: {writes:.0f} writes/s, the real API server {real_writes:.0f}, "
        f"{real_writes / writes:.1f} times its time"
    )
    for what, seconds, compared in (
        ("real API server", beside, beside),
        ("ours without webhooks (budget 4 times the real one's time)", alone, beside),
        ("real API server, manager and webhooks, JobSet", beside_with_webhooks, beside_with_webhooks),
        ("ours with all of them (budget 2.5 times the real one's time)", with_webhooks, beside_with_webhooks),
    ):
        rate = arguments.jobs / seconds
        print(f"{arguments.jobs} TrainJobs, {what}: {seconds:.2f} s, {rate:.0f}/s, {seconds / compared:.1f} times")


if __name__ == "__main__":
    main()
