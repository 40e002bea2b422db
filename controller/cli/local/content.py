# SPDX-License-Identifier: Apache-2.0
"""What a cluster that runs holds, for `trainwright local status`: its node, and how much there is."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.messages import counted
from trainwright.api.objects import dig
from trainwright.api.quantity import Quantity
from trainwright.controller.cli.local.managing import jobs_of

_GPU = "nvidia.com/gpu"


def content_of(folder: Path) -> list[str]:
    """Lines about the node and the pods of a cluster that runs."""
    return asyncio.run(_content(folder))


async def _content(folder: Path) -> list[str]:
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
    if _GPU in allocatable:
        found.append(counted(Quantity.parse(allocatable[_GPU]).rounded_up(), "GPU"))
    return ", ".join(found)
