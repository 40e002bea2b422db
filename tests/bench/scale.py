# SPDX-License-Identifier: Apache-2.0
"""Bursts of many TrainJobs, beside another manager in the same run.

All jobs are created as fast as 16 connections go; each JobSet runs and completes as soon as it is there, as its
controller would have it. What counts is when the last JobSet is there and when the last TrainJob is Complete, and the
CPU, the resident memory and the API calls of the manager. Each manager has a control plane of its own, one after the
other, so that none finds what the other has left.

TRAINWRIGHT_PEER names the binary of the Go manager, of the module github.com/kubeflow/trainer/v2 in the version that
config/ names. Then the sizes of `--jobs` are run with both, and the ratios are printed. The sizes of `--alone` are run
with our manager only: 10,000 and more take minutes, and as a rule the API server and etcd are what is measured.

With a peer, the same writes are made once more by a bare client of 16 connections, without any manager: so long the API
server takes by itself. Its CPU, with that of etcd, tells if all others wait for it: two processors have two seconds
of it in each second.

With `--shards`, each of two managers leads as many jobs in a namespace of its own. Figures are of both.

This program keeps the names of jobs that are not complete, and nothing else of them.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.burst import (
    JOBSET,
    ROOT,
    RUNTIME,
    SETTLE_SECONDS,
    TRAINER,
    BareClient,
    cpu_seconds,
    probe,
    resident_mib,
    spread,
    train_job,
    write_as_manager,
)
from tests.bench.life import MERGE, STATUSES, report
from tests.managers import MANAGER, start_manager
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneComponent
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port

PEER = "TRAINWRIGHT_PEER"
OURS, THEIRS = "ours", "peer"
WANTED = {"last JobSet": 0.40, "all complete": 0.50, "CPU": 0.33, "memory": 0.70, "API calls": 1.00}
"""The ratios to the Go manager that the project wants to reach, at most."""
SHARDS = 2
SECONDS_A_JOB = 0.25
"""Limit of a burst, after a minute for its start."""
COMPLETE = {
    "conditions": [
        {
            "type": "Complete",
            "status": "True",
            "reason": "JobsCompleted",
            "message": "by hand",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}
GO_CONFIGURATION = """\
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
health: {{healthProbeBindAddress: "127.0.0.1:{probes}"}}
metrics: {{bindAddress: "0", secureServing: false}}
webhook: {{host: "127.0.0.1", port: {webhooks}}}
leaderElection: {{leaderElect: false}}
certManagement: {{enable: false}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a burst has cost."""

    last_jobset: float
    """Seconds."""
    complete: float
    """Seconds."""
    cpu: float
    """Seconds of the manager."""
    memory: float
    """MiB at the end."""
    idle: float
    """MiB before the first job."""
    calls: float
    """A job."""
    server: float
    """Seconds of CPU of the API server and etcd, until the last completion and some seconds longer."""

    def rows(self) -> dict[str, tuple[float, str]]:
        return {
            "last JobSet": (self.last_jobset, "s"),
            "all complete": (self.complete, "s"),
            "CPU": (self.cpu, "s"),
            "memory": (self.memory, "MiB"),
            "API calls": (self.calls, "a job"),
        }


def start_peer(control_plane: ControlPlane, binary: Path) -> ControlPlaneComponent:
    """Run the Go manager; its webhooks are served, and nobody asks them."""
    probes, webhooks = free_port(), free_port()
    certificates = control_plane.folder / "peer" / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    files = ["-keyout", str(certificates / "tls.key"), "-out", str(certificates / "tls.crt")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=peer", *files],
        check=True,
        capture_output=True,
    )
    file = control_plane.folder / "peer.yaml"
    file.write_text(GO_CONFIGURATION.format(probes=probes, webhooks=webhooks))
    # Its certificates are looked for in the folder for temporary files.
    command = ["env", f"TMPDIR={control_plane.folder / 'peer'}", str(binary), f"--config={file}"]
    command.append(f"--kubeconfig={control_plane.kubeconfig}")
    return control_plane.launch(THEIRS, command, ready=lambda: answers(f"http://127.0.0.1:{probes}/readyz"))


def server_cpu(control_plane: ControlPlane) -> float:
    """Seconds of CPU that the API server and etcd have used."""
    return sum(cpu_seconds(control_plane.components[name].program_pid) for name in ("etcd", "kube-apiserver"))


class Follower:
    """Leads the JobSets of a namespace through their lives, and waits until their TrainJobs are Complete."""

    def __init__(self, client: BareClient, namespace: str, names: set[str]) -> None:
        self._client, self._namespace, self._names = client, namespace, names
        self._session = client.session
        self.last_jobset = self.complete = 0.0
        """When, by the monotonic clock."""

    async def follow_jobsets(self, version: str) -> None:
        """Let each JobSet run and complete; return when all did."""
        left = len(self._names)
        async with (
            asyncio.TaskGroup() as group,
            aclosing(self._client.added_jobsets(self._namespace, version)) as added,
        ):
            async for name in added:
                group.create_task(report(self._client, self._namespace, name, *STATUSES))
                left -= 1
                if left == 0:
                    self.last_jobset = time.monotonic()
                    return

    async def wait_complete(self, version: str) -> None:
        """Return when all TrainJobs are Complete."""
        left = set(self._names)
        async with aclosing(self._trainjobs(version)) as jobs:
            async for job in jobs:
                conditions = job.get("status", {}).get("conditions", ())
                if any(one["type"] == "Complete" and one["status"] == "True" for one in conditions):
                    left.discard(job["metadata"]["name"])
                if not left:
                    self.complete = time.monotonic()
                    return

    async def _trainjobs(self, version: str) -> AsyncGenerator[dict[str, Any], None]:
        path = f"{TRAINER}/namespaces/{self._namespace}/trainjobs?watch=true&resourceVersion="
        while True:  # on a busy machine the server closes a watch that it cannot serve in time
            async with self._session.get(path + version, timeout=aiohttp.ClientTimeout()) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise SystemExit(f"error: the watch of TrainJobs failed: {event['object'].get('message')}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    yield event["object"]


async def burst(client: BareClient, namespace: str, jobs: int) -> tuple[float, float]:
    """Seconds until the last JobSet, and until the last completion."""
    names = [f"job-{index:05}" for index in range(jobs)]
    follower = Follower(client, namespace, set(names))

    async def create(name: str) -> None:
        await client.create(train_job(namespace, name))

    version = (await client.call("GET", f"{JOBSET}/namespaces/{namespace}/jobsets"))["metadata"]["resourceVersion"]
    began = time.monotonic()
    try:
        async with asyncio.timeout(60 + SECONDS_A_JOB * jobs), asyncio.TaskGroup() as group:
            group.create_task(follower.follow_jobsets(version))
            group.create_task(follower.wait_complete(version))
            group.create_task(spread(names, create))
    except TimeoutError:
        raise SystemExit(f"error: {jobs} jobs were not complete after {60 + SECONDS_A_JOB * jobs:.0f} s") from None
    return follower.last_jobset - began, follower.complete - began


async def measured(control_plane: ControlPlane, jobs: int, peer: Path | None) -> Figures:
    """One burst with our manager, or with the peer."""
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME)
        manager = start_manager(control_plane) if peer is None else start_peer(control_plane, peer)
        agent, pid = (MANAGER, manager.program_pid) if peer is None else (peer.name, manager.program_pid)
        await asyncio.sleep(SETTLE_SECONDS)
        idle = resident_mib(pid)
        await probe(client, control_plane.create_namespace("warm"), "first")
        await asyncio.sleep(SETTLE_SECONDS)
        before, cpu = sum(1 for _ in control_plane.audit_log.calls(user_agent=agent)), cpu_seconds(pid)
        server = server_cpu(control_plane)
        last_jobset, complete = await burst(client, control_plane.create_namespace("burst"), jobs)
        await asyncio.sleep(SETTLE_SECONDS)
        cpu, memory = cpu_seconds(pid) - cpu, resident_mib(pid)
        server = server_cpu(control_plane) - server
        calls = sum(1 for _ in control_plane.audit_log.calls(user_agent=agent)) - before
    finally:
        await client.close()
    return Figures(
        last_jobset=last_jobset, complete=complete, cpu=cpu, memory=memory, idle=idle, calls=calls / jobs, server=server
    )


async def sharded(control_plane: ControlPlane, jobs: int) -> Figures:
    """A burst of so many jobs in each of two namespaces, with a manager for each."""
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME)
        namespaces = [control_plane.create_namespace("burst") for _ in range(SHARDS)]
        managers = [
            start_manager(control_plane, f"--namespace={namespace}", name=f"{MANAGER}-{namespace}")
            for namespace in namespaces
        ]
        pids = [manager.program_pid for manager in managers]
        for namespace in namespaces:
            await probe(client, namespace, "first")
        await asyncio.sleep(SETTLE_SECONDS)
        idle = sum(map(resident_mib, pids))
        before = sum(1 for _ in control_plane.audit_log.calls(user_agent=MANAGER))
        cpu, server = sum(map(cpu_seconds, pids)), server_cpu(control_plane)
        bursts = await asyncio.gather(*(burst(client, namespace, jobs) for namespace in namespaces))
        await asyncio.sleep(SETTLE_SECONDS)
        calls = sum(1 for _ in control_plane.audit_log.calls(user_agent=MANAGER)) - before
        return Figures(
            last_jobset=max(last_jobset for last_jobset, _ in bursts),
            complete=max(complete for _, complete in bursts),
            cpu=sum(map(cpu_seconds, pids)) - cpu,
            memory=sum(map(resident_mib, pids)),
            idle=idle,
            calls=calls / (SHARDS * jobs),
            server=server_cpu(control_plane) - server,
        )
    finally:
        await client.close()


async def by_hand(control_plane: ControlPlane, jobs: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU of the API server and etcd, that all writes of a burst take without a manager."""
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME)
        start_manager(control_plane)
        jobset = await probe(client, control_plane.create_namespace("warm"), "first")
        control_plane.stop_program(MANAGER)
        namespace = control_plane.create_namespace("burst")

        async def life(name: str) -> None:
            await write_as_manager(client, namespace, name, jobset)
            await report(client, namespace, name, *STATUSES)
            path = f"{TRAINER}/namespaces/{namespace}/trainjobs/{name}/status"
            await client.call("PATCH", path, {"status": COMPLETE}, kind=MERGE)

        began, server = time.monotonic(), server_cpu(control_plane)
        await spread([f"job-{index:05}" for index in range(jobs)], life)
        return time.monotonic() - began, server_cpu(control_plane) - server
    finally:
        await client.close()


@contextmanager
def fresh() -> Iterator[ControlPlane]:
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        yield control_plane


def run(jobs: int, peer: Path | None) -> Figures:
    with fresh() as control_plane:
        return asyncio.run(measured(control_plane, jobs, peer))


def print_alone(jobs: int, figures: Figures, who: str = "our manager alone") -> None:
    print(f"{jobs} TrainJobs, {who}")
    for what, (value, unit) in figures.rows().items():
        print(f"  {what:<14}{value:10.2f} {unit}")
    print(f"  {'CPU, server':<14}{figures.server:10.2f} s")
    print(f"  {'a job':<14}{1000 * figures.cpu / jobs:10.2f} ms of CPU")
    print(f"  {'a job':<14}{1024 * (figures.memory - figures.idle) / jobs:10.2f} KiB", flush=True)


def print_both(jobs: int, ours: Figures, theirs: Figures, bare: tuple[float, float]) -> None:
    print(f"{jobs} TrainJobs          ours        peer   ratio  wanted")
    other = theirs.rows()
    for what, (value, unit) in ours.rows().items():
        their = other[what][0]
        print(f"  {what:<14}{value:10.2f}  {their:10.2f}  {value / their:6.2f}  {WANTED[what]:6.2f}  {unit}")
    print(f"  {'memory, idle':<14}{ours.idle:10.2f}  {theirs.idle:10.2f}  {ours.idle / theirs.idle:6.2f}")
    seconds, server = bare
    print(f"  {'CPU, server':<14}{ours.server:10.2f}  {theirs.server:10.2f}  {ours.server / theirs.server:6.2f}")
    print(f"  the same writes by a bare client: {seconds:.2f} s, {server:.2f} s of CPU of the API server and etcd")
    print(
        f"  all complete / these: ours {ours.complete / seconds:.2f}, peer {theirs.complete / seconds:.2f}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure bursts of TrainJobs, beside another manager if there is one.")
    parser.add_argument(
        "--jobs", type=int, nargs="*", default=[1000], help=f"sizes to run with both, if {PEER} names a manager"
    )
    parser.add_argument("--alone", type=int, nargs="*", default=[], help="sizes to run with our manager only")
    parser.add_argument("--shards", type=int, nargs="*", default=[], help="sizes of each half with two managers")
    arguments = parser.parse_args()
    named = os.environ.get(PEER, "")
    peer = Path(named).resolve() if named else None
    if peer is not None and not os.access(peer, os.X_OK):
        parser.error(f"{PEER} names {named}, which is no program")
    for jobs in arguments.jobs:
        ours = run(jobs, None)
        if peer is None:
            print_alone(jobs, ours)
        else:
            theirs = run(jobs, peer)
            with fresh() as control_plane:
                print_both(jobs, ours, theirs, asyncio.run(by_hand(control_plane, jobs)))
    for jobs in arguments.alone:
        print_alone(jobs, run(jobs, None))
    for jobs in arguments.shards:
        with fresh() as control_plane:
            print_alone(SHARDS * jobs, asyncio.run(sharded(control_plane, jobs)), f"{SHARDS} managers, a half each")


if __name__ == "__main__":
    main()
