# SPDX-License-Identifier: Apache-2.0
"""What a running cluster is asked for people: its node, and how much there is."""

from pathlib import Path

from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.controller.cli.local.jobs import TRAINJOB
from trainwright.controller.runtime import Client, HTTPTransport, load_config

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
