# SPDX-License-Identifier: Apache-2.0
"""What the life of a TrainJob costs the manager: CPU, API calls, memory, and writes after a restart.

The control plane has no controllers of JobSet: this program writes the status of JobSets as they would. First lives are
led at leisure (created, two changes of the status, completed) and the CPU of the manager is read from /proc. Then each
JobSet changes three times in a row, and the calls are counted in the audit log. Then so many jobs are created and left
running, for the memory, and the manager is killed and started again, for what it writes then.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.burst import (
    JOBSET,
    READY_SECONDS,
    ROOT,
    RUNTIME,
    SETTLE_SECONDS,
    TRAINER,
    BareClient,
    cpu_seconds,
    managed,
    resident_mib,
    spread,
)
from tests.managers import MANAGER, start_manager
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.binaries import provide

MERGE = "application/merge-patch+json"
TORCH = {**RUNTIME, "spec": {**RUNTIME["spec"], "mlPolicy": {"numNodes": 1, "torch": {}}}}
COMPANY_SECONDS = 0.25
"""Three updates of a JobSet within this time are to cost one write."""
TIME = "2026-01-02T03:04:05Z"
COMPLETED = {"type": "Completed", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}


def status(*, active: int = 0, ready: int = 0, succeeded: int = 0) -> dict[str, Any]:
    """Of a JobSet; it is completed once something succeeded."""
    counts = {"name": "node", "active": active, "ready": ready, "succeeded": succeeded, "failed": 0, "suspended": 0}
    return {"replicatedJobsStatus": [counts], "restarts": 0, **({"conditions": [COMPLETED]} if succeeded else {})}


STATUSES = (status(active=1), status(active=1, ready=1), status(succeeded=1))


async def report(client: BareClient, namespace: str, name: str, *statuses: dict[str, Any]) -> None:
    """Write the status of a JobSet, as its controller would."""
    for each in statuses:
        path = f"{JOBSET}/namespaces/{namespace}/jobsets/{name}/status"
        await client.call("PATCH", path, {"status": each}, kind=MERGE)


async def completed(client: BareClient, namespace: str, wanted: int) -> None:
    """Return when so many TrainJobs are Complete."""
    limit = time.monotonic() + READY_SECONDS
    while True:
        items = (await client.call("GET", f"{TRAINER}/namespaces/{namespace}/trainjobs"))["items"]
        done = sum(any(c["type"] == "Complete" for c in i.get("status", {}).get("conditions", ())) for i in items)
        if done == wanted:
            return
        if time.monotonic() > limit:
            raise SystemExit(f"error: {done} of {wanted} TrainJobs are Complete")
        await asyncio.sleep(0.5)


async def lives(control_plane: ControlPlane, client: BareClient, pid: int, count: int) -> None:
    """CPU, then API calls."""
    names = [f"job-{index:05}" for index in range(count)]
    namespace = control_plane.create_namespace("leisure")
    before = cpu_seconds(pid)
    await managed(client, namespace, names)
    for each in STATUSES:

        async def change(name: str, each: dict[str, Any] = each) -> None:
            await report(client, namespace, name, each)

        await asyncio.sleep(0.5)
        await spread(names, change)
    await completed(client, namespace, count)
    cpu = 1000 * (cpu_seconds(pid) - before) / count
    print(f"  CPU per life, torch               {cpu:8.2f} ms (budget 3.5)")

    namespace = control_plane.create_namespace("hurry")
    await managed(client, namespace, names)

    quick = set()
    for name in names:
        began = time.monotonic()
        await report(client, namespace, name, *STATUSES)
        if time.monotonic() - began <= COMPANY_SECONDS:
            quick.add(name)
    await completed(client, namespace, count)
    await asyncio.sleep(SETTLE_SECONDS)
    calls = [
        call
        for call in control_plane.audit_log.calls(user_agent="trainwright")
        if call.namespace == namespace and call.name.removesuffix("-runtime-snapshot") in quick
    ]
    if not quick:
        print("  API calls per life, torch: this machine is too busy for three updates within 250 ms")
        return
    count = len(quick)
    print(f"  API calls per life, torch         {len(calls) / count:8.2f}    (budget 3.0; {count} lives)")
    for kind, times in Counter(
        " ".join(filter(None, (c.verb, c.resource, c.subresource))) for c in calls
    ).most_common():
        print(f"    {kind:<32}{times / count:8.2f}")


async def running(control_plane: ControlPlane, client: BareClient, pid: int, count: int, known: int) -> None:
    """Create jobs until there are `count`, and leave them running."""
    names = [f"job-{index:05}" for index in range(count - known)]
    namespace = control_plane.create_namespace("running")
    await managed(client, namespace, names)

    async def ready(name: str) -> None:
        await report(client, namespace, name, STATUSES[1])

    await spread(names, ready)
    await asyncio.sleep(SETTLE_SECONDS)
    budget = {1000: 90, 10000: 250}.get(count)
    note = f" (budget {budget})" if budget else ""
    print(f"  resident memory, {count:6} jobs      {resident_mib(pid):8.1f} MiB{note}")


async def restarted(control_plane: ControlPlane) -> None:
    """Kill the manager and start it again."""
    before = sum(1 for _ in control_plane.audit_log.calls(user_agent="trainwright"))
    control_plane.stop_program(MANAGER, kill=True)
    component = await asyncio.to_thread(start_manager, control_plane)
    await asyncio.sleep(2 * SETTLE_SECONDS)
    calls = list(control_plane.audit_log.calls(user_agent="trainwright"))[before:]
    writes = [call for call in calls if call.is_write]
    print(f"  API writes after a restart        {len(writes):8}    (budget 0)")
    print(f"  resident memory after it          {resident_mib(component.program_pid):8.1f} MiB")


async def measure(control_plane: ControlPlane, count: int, sizes: list[int]) -> None:
    """All of it."""
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", TORCH)
        start_manager(control_plane)
        print(f"lives of {count} TrainJobs")
        await lives(control_plane, client, control_plane.components[MANAGER].program_pid, count)
        control_plane.stop_program(MANAGER)
        for namespace in ("leisure", "hurry"):
            for found in (await client.call("GET", "/api/v1/namespaces"))["items"]:
                if found["metadata"]["name"].startswith(namespace):
                    for plural in ("trainjobs", "jobsets"):
                        group = TRAINER if plural == "trainjobs" else JOBSET
                        await client.call("DELETE", f"{group}/namespaces/{found['metadata']['name']}/{plural}")
        # Without what the lives left in its memory.
        component = start_manager(control_plane)
        known = 0
        for size in sizes:
            await running(control_plane, client, component.program_pid, size, known)
            known = size
            if size == sizes[0]:
                await restarted(control_plane)
                component = control_plane.components[MANAGER]
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the life of a TrainJob costs the manager.")
    parser.add_argument("--lives", type=int, default=300, help="how many lives (default: %(default)s)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1000, 10000], help="running jobs to measure the memory at"
    )
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        asyncio.run(measure(control_plane, arguments.lives, sorted(arguments.sizes)))


if __name__ == "__main__":
    main()
