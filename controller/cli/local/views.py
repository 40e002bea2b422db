# SPDX-License-Identifier: Apache-2.0
"""What a running cluster is asked for people: its node, its jobs, the lines of a job."""

import asyncio
import sys
from pathlib import Path

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.objects import name_of
from trainwright.controller.cli.local.jobs import TRAINJOB, Follower, container_statuses, rank_of
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import NotFound

_SHOWN = ("cpu", "memory", "nvidia.com/gpu")


async def status(folder: Path) -> list[str]:
    """Lines about the node and the pods of a cluster that runs."""
    transport = HTTPTransport(load_config(folder / "kubeconfig"))
    try:
        client = Client(transport, user_agent="trainwright-local")
        lines: list[str] = []
        for node in (await client.list(Node.RESOURCE)).items:
            allocatable = (node.get("status") or {}).get("allocatable") or {}
            room = ", ".join(f"{name} {allocatable[name]}" for name in _SHOWN if name in allocatable)
            lines.append(f"room         {room}")
        pods = (await client.list(Pod.RESOURCE)).items
        running = sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
        jobs = (await client.list(TRAINJOB)).items
        lines.append(f"work         {len(jobs)} TrainJobs, {running} of {len(pods)} pods running")
        return lines
    finally:
        await transport.close()


async def logs(folder: Path, namespace: str, job: str, *, follow: bool) -> int:
    """Show the lines of a job; returns the exit code."""
    transport = HTTPTransport(load_config(folder / "kubeconfig"))
    try:
        client = Client(transport, user_agent="trainwright-local")
        try:
            await client.get(TRAINJOB, job, namespace)
        except NotFound:
            print(f"error: there is no TrainJob {job} in namespace {namespace}", file=sys.stderr)
            return 1
        if follow:
            ended = await Follower(transport, namespace, job, stop_at_failure=False).follow(start_seconds=3600.0)
            print(ended.message, file=sys.stderr)
            return ended.code
        listed = await client.list(Pod.RESOURCE, namespace, label_selector=f"{LABEL_JOBSET}={job}")
        for pod in sorted(listed.items, key=rank_of):
            for container in container_statuses(pod):
                path = f"/api/v1/namespaces/{namespace}/pods/{name_of(pod)}/log"
                answer = await transport.send(Request("GET", path, query={"container": container["name"]}))
                if answer.status == 200:
                    for line in answer.body.decode(errors="replace").splitlines():
                        print(f"[{rank_of(pod)}] {line}")
        return 0
    finally:
        await transport.close()
        await asyncio.sleep(0)
