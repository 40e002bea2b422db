# SPDX-License-Identifier: Apache-2.0
"""`trainwright local status` and `list`: which clusters there are, and what one of them holds."""

import argparse
import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path

from trainwright.api.kubernetes.core.v1 import Node, Pod
from trainwright.api.quantity import Quantity
from trainwright.controller.cli import state
from trainwright.controller.cli.local import limits
from trainwright.controller.cli.local.jobs import TRAINJOB
from trainwright.controller.cli.local.options import options_of
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.trainer.explain.words import counted

_GPU = "nvidia.com/gpu"
_MODES = {
    "namespaces": "in namespaces of the kernel, with their own names and paths",
    "rewrite": "beside each other; names and paths in what they are given are rewritten",
    "none": "none: the API server alone",
}


def status(arguments: argparse.Namespace) -> int:
    """Say how a cluster is; returns the exit code: 1 if it does not run."""
    if arguments.limits:
        print(*limits.lines(), sep="\n")
        return 0
    options = options_of(arguments)
    run = state.running(options.folder)
    if run is None:
        said = f"does not run; start it with: {options.command('up')}"
        print(f"cluster {options.name}: {state.HELD if state.is_held(options.folder) else said}")
        return 1
    print(f"cluster {run.name}: runs since {run.began} as process {run.pid}, version {run.version}")
    print(f"  API server   {run.server}")
    print(f"  kubeconfig   {options.folder / 'kubeconfig'}")
    print(f"  folder       {options.folder}")
    print(f"  pods         {_MODES[run.mode]}")
    if run.options:
        print(f"  options      {shlex.join(run.options)}")
    if run.mode == "none":
        return 0
    print(f"  dashboard    {run.dashboard or 'none'}")
    for line in asyncio.run(_content(options.folder)):
        print(f"  {line}")
    return 0


def clusters(_: argparse.Namespace) -> int:
    """List the clusters of this user; returns the exit code."""
    found = state.all_running()
    if not found:
        print("no cluster; start one with: trainwright local up")
    for folder, run in found:
        print(f"{folder.name:<20} {'runs at ' + run.server if run else 'does not run':<32} {folder}")
    return 0


async def _content(folder: Path) -> list[str]:
    """Lines about the node and the pods of a cluster that runs."""
    transport = HTTPTransport(load_config(folder / "kubeconfig"))
    try:
        client = Client(transport, user_agent="trainwright-local")
        lines: list[str] = []
        for node in (await client.list(Node.RESOURCE)).items:
            allocatable = (node.get("status") or {}).get("allocatable") or {}
            lines.append(f"room         {room_of(allocatable)}")
        pods = (await client.list(Pod.RESOURCE)).items
        running = sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
        jobs = (await client.list(TRAINJOB)).items
        lines.append(f"work         {counted(len(jobs), 'TrainJob')}, {running} of {counted(len(pods), 'pod')} running")
        return lines
    finally:
        await transport.close()


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
