# SPDX-License-Identifier: Apache-2.0
"""Reading of progress files: how many commands run, how evenly, and what they cost the manager.

One manager with the feature gate ProgressPull over the real API server, TrainJobs with pods on many nodes, and one
process that plays all kubelets. One node hangs: its commands never start. Printed are the reads a second and at once,
the pause between two reads of a job on a node that works, and the manager's CPU. Limits are in brackets. Reads are
counted where they arrive: on a busy machine, some that started a second apart arrive together.
"""

import argparse
import asyncio
import copy
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import machine
from tests.bench.burst import JOBSET, RUNTIME, TRAINER, BareClient, cpu_seconds, managed, resident_mib, spread
from tests.managers import start_manager
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority

ROOT = Path(__file__).parents[2]
NODES = 25
HANGS = "node-00"
MERGE = "application/merge-patch+json"
COMMAND_SECONDS = 0.1
"""How long a container runtime takes for a command."""
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


class Kubelets:
    """All kubelets, at one port."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}
        """The node of each pod."""
        self.times: dict[str, list[float]] = defaultdict(list)
        """When commands began, by pod."""
        self.running: Counter[str] = Counter()
        self.most = 0
        self.most_on_a_node = 0

    async def exec(self, request: web.Request) -> web.StreamResponse:
        pod = request.match_info["pod"]
        node = self.nodes[pod]
        self.times[pod].append(time.monotonic())
        self.running[node] += 1
        self.most = max(self.most, self.running.total())
        self.most_on_a_node = max(self.most_on_a_node, self.running[node])
        socket = web.WebSocketResponse(protocols=PROTOCOLS, compress=False)
        try:
            await socket.prepare(request)
            if node == HANGS:
                await socket.receive()  # until the manager gives up
                return socket
            await socket.send_bytes(b"\x01")
            await asyncio.sleep(COMMAND_SECONDS)
            step = len(self.times[pod])
            await socket.send_bytes(b"\x01" + json.dumps({"progressPercentage": min(99, step), "step": step}).encode())
            await socket.send_bytes(SUCCESS)
            await socket.close()
        finally:
            self.running[node] -= 1
        return socket


async def serve(kubelets: Kubelets, folder: Path, port: int) -> web.AppRunner:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*Authority(folder).server("kubelet"))
    application = web.Application()
    application.router.add_get("/exec/{namespace}/{pod}/{container}", kubelets.exec)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    return runner


async def make_nodes(client: BareClient, port: int) -> None:
    for index in range(NODES):
        name = f"node-{index:02}"
        await client.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
        }
        await client.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, kind=MERGE)


async def make_pods(client: BareClient, namespace: str, names: list[str], kubelets: Kubelets) -> None:
    """The pod of each job, which runs, and what JobSet counts."""

    async def make(name: str) -> None:
        pod, node = f"{name}-node-0-0", f"node-{int(name[-5:]) % NODES:02}"
        kubelets.nodes[pod] = node
        labels = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "jobset.sigs.k8s.io/job-index": "0",
            "batch.kubernetes.io/job-completion-index": "0",
        }
        spec = {"nodeName": node, "containers": [{"name": "node", "image": "example/none"}]}
        pods = f"/api/v1/namespaces/{namespace}/pods"
        await client.call("POST", pods, {"metadata": {"name": pod, "labels": labels}, "spec": spec})
        state = {"name": "node", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True}
        container = {**state, "image": "i", "imageID": "i", "restartCount": 0}
        status: dict[str, Any] = {"phase": "Running", "containerStatuses": [container]}
        await client.call("PATCH", f"{pods}/{pod}/status", {"status": status}, kind=MERGE)
        counts = {"name": "node", "ready": 1, "active": 1, "succeeded": 0, "failed": 0, "suspended": 0}
        path = f"{JOBSET}/namespaces/{namespace}/jobsets/{name}/status"
        await client.call("PATCH", path, {"status": {"replicatedJobsStatus": [counts]}}, kind=MERGE)

    await spread(names, make)


async def measure(control_plane: ControlPlane, jobs: int, seconds: float, folder: Path) -> None:
    names = [f"job-{index:05}" for index in range(jobs)]
    namespace, client, port = control_plane.create_namespace("reads"), BareClient(control_plane), free_port()
    kubelets = Kubelets()
    runner = await serve(kubelets, folder, port)
    runtime = copy.deepcopy(RUNTIME)
    marks = {"trainwright.dev/progress": "file"}
    runtime["metadata"]["annotations"] = marks
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", runtime)
        await make_nodes(client, port)
        settings: dict[str, Any] = {"featureGates": {"ProgressPull": True}, "progress": {"pull": {"interval": "10s"}}}
        started = await asyncio.to_thread(start_manager, control_plane, **settings)
        pid = started.program_pid
        await managed(client, namespace, names)
        await make_pods(client, namespace, names, kubelets)
        cpu, begin = cpu_seconds(pid), time.monotonic()
        await asyncio.sleep(seconds)
        cpu, took = cpu_seconds(pid) - cpu, time.monotonic() - begin
        say(kubelets, jobs, begin, took)
        factor = machine.factor(*machine.measured())
        share = 100 * cpu / took
        print(
            f"  CPU of the manager                    {share:8.1f} % of a processor, "
            f"{share / factor:.1f} % by the machine factor of {factor:.2f}"
        )
        print(f"  memory of the manager                 {resident_mib(pid):8.0f} MiB")
    finally:
        await client.close()
        await runner.cleanup()


def say(kubelets: Kubelets, jobs: int, begin: float, took: float) -> None:
    times = sorted(at for pod in kubelets.times for at in kubelets.times[pod])
    within = [at for at in times if begin <= at < begin + took]
    most = max((sum(1 for at in within[index : index + 50] if at < first + 1) for index, first in enumerate(within)))
    pauses = [
        later - earlier
        for pod, node in kubelets.nodes.items()
        if node != HANGS
        for earlier, later in pairwise(kubelets.times[pod])
    ]
    silent = sum(1 for pod, node in kubelets.nodes.items() if node != HANGS and not kubelets.times[pod])
    interval = max(10.0, jobs / 10)
    print(f"{jobs} TrainJobs on {NODES} nodes, one of which hangs; {took:.0f} s")
    print(f"  reads                                 {len(within) / took:8.1f} /s  (10)")
    print(f"  reads in one second, most             {most:8}  (10)")
    print(f"  reads at once, most                   {kubelets.most:8}  (16)")
    print(f"  reads at once on a node, most         {kubelets.most_on_a_node:8}  (4)")
    if pauses:
        middle, longest = statistics.median(pauses), max(pauses)
        print(f"  pause between two reads, median/most  {middle:8.1f} / {longest:.1f} s  ({interval:.0f})")
    print(f"  jobs on nodes that work, never read   {silent:8}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500, help="how many TrainJobs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the measurement (default: %(default)s)")
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd]) as control_plane,
    ):
        asyncio.run(measure(control_plane, arguments.jobs, arguments.seconds, Path(folder)))


if __name__ == "__main__":
    main()
