# SPDX-License-Identifier: Apache-2.0
"""What a trial of an OptimizationJob costs the manager beside the TrainJob that it is, and its memory with the gate on.

The control plane has no controllers of JobSet: this program writes the status of JobSets, and the last report of each
training. The same number of TrainJobs is led first without a search and then as its trials, in turns.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.burst import JOBSET, READY_SECONDS, ROOT, TRAINER, BareClient, cpu_seconds, resident_mib, train_job
from tests.bench.life import MERGE, STATUSES, TIME, TORCH, report
from tests.bench.runtime import loop_factory
from tests.managers import MANAGER, start_manager
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide

PARALLEL = 4
PAUSE = 0.2
REPORT = {
    "progressPercentage": 100,
    "metrics": [{"name": "loss", "value": "0.5"}],
    "lastUpdatedTime": TIME,
}
GATES = {"ProgressPull": True}


async def until(look: Callable[[], Any], what: str) -> None:
    limit = time.monotonic() + READY_SECONDS
    while not await look():
        if time.monotonic() > limit:
            raise SystemExit(f"error: waited for {what}")
        await asyncio.sleep(PAUSE)


async def live(client: BareClient, namespace: str, name: str) -> None:
    """Lead the rest of the life of a TrainJob: its JobSet runs, it reports, it is complete."""

    async def has_jobset() -> bool:
        path = f"{JOBSET}/namespaces/{namespace}/jobsets?fieldSelector=metadata.name%3D{name}"
        return bool((await client.call("GET", path))["items"])

    async def is_complete() -> bool:
        path = f"{TRAINER}/namespaces/{namespace}/trainjobs/{name}"
        conditions = (await client.call("GET", path)).get("status", {}).get("conditions", ())
        return any(one["type"] == "Complete" for one in conditions)

    await until(has_jobset, f"the JobSet of {name}")
    for status in STATUSES[:-1]:
        await report(client, namespace, name, status)
        await asyncio.sleep(PAUSE)
    path = f"{TRAINER}/namespaces/{namespace}/trainjobs/{name}/status"
    await client.call("PATCH", path, {"status": {"trainerStatus": REPORT}}, kind=MERGE)
    await report(client, namespace, name, STATUSES[-1])
    await until(is_complete, f"the end of {name}")


async def alone(client: BareClient, namespace: str, count: int) -> None:
    """TrainJobs without a search, four at a time."""

    async def worker(first: int) -> None:
        for number in range(first, count + 1, PARALLEL):
            await client.create(train_job(namespace, f"alone-{number}"))
            await live(client, namespace, f"alone-{number}")

    async with asyncio.TaskGroup() as group:
        for first in range(1, PARALLEL + 1):
            group.create_task(worker(first))


async def searched(client: BareClient, namespace: str, count: int) -> None:
    """The trials of a search, four at a time."""
    template = {"spec": train_job(namespace, "template")["spec"]}
    spec = {
        "objectives": [{"metric": "loss"}],
        "numTrials": count,
        "parallelTrials": PARALLEL,
        "parameters": [{"name": "lr", "searchSpace": {"logUniform": {"min": "1e-5", "max": "1e-1"}}}],
        "trainJobTemplate": template,
    }
    document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "OptimizationJob", "spec": spec}
    path = f"{TRAINER}/namespaces/{namespace}/optimizationjobs"
    await client.call("POST", path, {**document, "metadata": {"name": "search"}})
    led: set[str] = set()
    async with asyncio.TaskGroup() as group:
        while len(led) < count:
            items = (await client.call("GET", f"{TRAINER}/namespaces/{namespace}/trainjobs"))["items"]
            for name in (one["metadata"]["name"] for one in items):
                if name.startswith("search-") and name not in led:
                    led.add(name)
                    group.create_task(live(client, namespace, name))
            await asyncio.sleep(PAUSE)

    async def is_complete() -> bool:
        conditions = (await client.call("GET", f"{path}/search"))["status"]["conditions"]
        return any(one["type"] == "Complete" for one in conditions)

    await until(is_complete, "the end of the search")


async def started(control_plane: ControlPlane, gates: dict[str, bool]) -> int:
    """The id of a manager that has nothing to do."""
    component = start_manager(control_plane, featureGates=gates)
    await asyncio.sleep(5)
    return component.program_pid


async def measure(control_plane: ControlPlane, trials: int, rounds: int) -> None:
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", TORCH)
        off = await started(control_plane, GATES)
        size = resident_mib(off)
        control_plane.stop_program(MANAGER)
        pid = await started(control_plane, {**GATES, "OptimizationJob": True})
        print(f"memory of the idle manager: {size:.1f} MiB, with the gate {resident_mib(pid):.1f} MiB (budget +3)")
        used = [0.0, 0.0]
        for number in range(rounds):
            for which, lead in enumerate((alone, searched)):
                namespace = control_plane.create_namespace(f"{lead.__name__}-{number}")
                before = cpu_seconds(pid)
                await lead(client, namespace, trials)
                await asyncio.sleep(1)
                used[which] += cpu_seconds(pid) - before
        job, trial = (1000 * seconds / trials / rounds for seconds in used)
        print(f"CPU of a TrainJob {job:.2f} ms, of a trial {trial:.2f} ms")
        print(f"  a trial beside its TrainJob: ratio {(trial - job) / job:.2f} (budget 0.5)")
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a trial of an OptimizationJob costs the manager.")
    parser.add_argument("--trials", type=int, default=100, help="of each search (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="how many searches (default: %(default)s)")
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with (
        ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd]) as control_plane,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(measure(control_plane, arguments.trials, arguments.rounds))


if __name__ == "__main__":
    main()
