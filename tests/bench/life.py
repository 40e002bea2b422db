# SPDX-License-Identifier: Apache-2.0
"""What the life of a TrainJob costs the manager: CPU, API calls, memory, and writes after a restart.

The control plane has no controllers of JobSet: this program writes the status of JobSets as they would. First lives are
led at leisure (created, two changes of the status, completed) and the CPU of the manager is read from /proc, beside
that of bare applies in this process. Then each JobSet changes three times in a row, and the calls are counted in the
audit log. Then many lives are led at once. Then so many jobs are created and left running, for the memory, and the
manager is killed and started again, for what it writes then.

`--profile` leads the lives under a sampling profiler and prints where their CPU time goes.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from functools import partial
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
    WORKERS,
    BareClient,
    cpu_seconds,
    managed,
    resident_mib,
    spread,
    train_job,
)
from tests.bench.runtime import bare_session, in_parallel, loop_factory, own_apply, raw_apply
from tests.managers import MANAGER, start_manager
from tests.profiling import rooms
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import eventually

MERGE = "application/merge-patch+json"
TORCH = {**RUNTIME, "spec": {**RUNTIME["spec"], "mlPolicy": {"numNodes": 1, "torch": {}}}}
COMPANY_SECONDS = 0.25
"""Three updates of a JobSet within this time are to cost one write."""
BARE = 2000
"""Bare applies to measure; these, and the lives, after WARM ones that are not."""
WARM = 100
ROUNDS = 5
"""Lives and bare applies take turns so often."""
IDLE_SECONDS = 10.0
"""How long the manager has nothing to do, for what it costs then. The kernel counts in hundredths of a second."""
FUNCTIONS = 40
"""How many functions a profile names."""
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


class Bare:
    """Applies in a loop, nothing decoded, in this process."""

    def __init__(self, apply: Callable[[str, int], Coroutine[Any, Any, None]], namespace: str) -> None:
        self._apply, self._namespace = apply, namespace
        self._done = 0
        self.seconds = 0.0
        """CPU of all rounds so far."""

    async def round(self, count: int) -> None:
        """Make so many more."""
        numbers = range(self._done, self._done + count)
        self._done += count
        before = time.process_time()
        await in_parallel([partial(self._apply, self._namespace, number) for number in numbers], WORKERS)
        self.seconds += time.process_time() - before


@asynccontextmanager
async def bare_applies(control_plane: ControlPlane) -> AsyncIterator[tuple[Bare, Bare]]:
    """Warm ones: with aiohttp, and over our transport."""
    config = load_config(control_plane.kubeconfig)
    client = Client(HTTPTransport(config))
    try:
        async with bare_session(config) as session:
            made = (
                Bare(partial(raw_apply, session), control_plane.create_namespace("bare")),
                Bare(partial(own_apply, client), control_plane.create_namespace("own")),
            )
            for each in made:
                await each.round(WARM)
                each.seconds = 0.0
            yield made
    finally:
        await client.close()


@asynccontextmanager
async def sampled(pid: int, samples: Path | None) -> AsyncIterator[None]:
    """Sample the manager's stacks meanwhile, if `samples` names a file for them."""
    if samples is None:
        yield
        return
    os.kill(pid, signal.SIGUSR1)
    yield
    os.kill(pid, signal.SIGUSR1)
    await eventually(samples.exists, what="the samples of the manager")


async def at_leisure(client: BareClient, namespace: str, names: list[str]) -> None:
    """Lead lives whose steps are half a second apart and more."""
    await managed(client, namespace, names)
    for each in STATUSES:

        async def change(name: str, each: dict[str, Any] = each) -> None:
            await report(client, namespace, name, each)

        await asyncio.sleep(0.5)
        await spread(names, change)
    await completed(client, namespace, len(names))


async def lives(
    control_plane: ControlPlane, client: BareClient, pid: int, count: int, samples: Path | None = None
) -> None:
    """CPU, then API calls."""
    names = [f"job-{index:05}" for index in range(count)]
    # As before the bare applies: connections are open, and what is made once in a process is there.
    await at_leisure(client, control_plane.create_namespace("leisure-warm"), [f"warm-{index}" for index in range(WARM)])
    before, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (cpu_seconds(pid) - before) / (time.monotonic() - began)
    used = 0.0
    # In turns: machines change their speed within seconds, and the ratio is the figure that counts. A profile is one.
    rounds = ROUNDS if samples is None else 1
    places = [control_plane.create_namespace("leisure") for _ in range(rounds)]
    async with bare_applies(control_plane) as bares:
        for index, place in enumerate(places):
            before = cpu_seconds(pid)
            async with sampled(pid, samples):
                await at_leisure(client, place, names[index::rounds])
            used += cpu_seconds(pid) - before
            for each in bares:
                await each.round(BARE // rounds)
    cpu = 1000 * used / count
    bare, own = (1000 * each.seconds / BARE for each in bares)
    print(f"  CPU of the idle manager           {1000 * idle:8.2f} ms a second")
    print(f"  CPU per life, torch               {cpu:8.2f} ms")
    print(f"  CPU of a bare apply, aiohttp      {bare:8.3f} ms   ratio {cpu / bare:5.1f} (budget 10)")
    print(f"    the same over our transport     {own:8.3f} ms   ratio {cpu / own:5.1f}")
    print_calls(control_plane, places, set(names), "API calls per life, at leisure")
    if samples is not None:
        print(rooms.table(rooms.read(samples), cpu, functions=FUNCTIONS))

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
    if not quick:
        print("  API calls per life, torch: this machine is too busy for three updates within 250 ms")
        return
    print_calls(control_plane, [namespace], quick, "API calls per life, torch", 3.0)


def print_calls(
    control_plane: ControlPlane,
    namespaces: Collection[str],
    names: Collection[str],
    what: str,
    budget: float | None = None,
) -> None:
    """The manager's calls about these TrainJobs, from the audit log."""
    calls = [
        call
        for call in control_plane.audit_log.calls(user_agent="trainwright")
        if call.namespace in namespaces and call.name.removesuffix("-runtime-snapshot") in names
    ]
    count = len(names)
    limit = f"budget {budget}; " if budget is not None else ""
    print(f"  {what:<34}{len(calls) / count:8.2f}    ({limit}{count} lives)")
    for kind, times in Counter(
        " ".join(filter(None, (c.verb, c.resource, c.subresource))) for c in calls
    ).most_common():
        print(f"    {kind:<32}{times / count:8.2f}")


async def at_once(control_plane: ControlPlane, client: BareClient, pid: int, count: int) -> None:
    """Lead all lives at the same time: each job's JobSet changes as soon as it is there, as fast as requests go."""
    names = {f"job-{index:05}" for index in range(count)}
    namespace = control_plane.create_namespace("burst")
    version = (await client.call("GET", f"{JOBSET}/namespaces/{namespace}/jobsets"))["metadata"]["resourceVersion"]
    before, began = cpu_seconds(pid), time.monotonic()
    async with asyncio.TaskGroup() as group:

        async def follow() -> None:
            seen = 0
            async for added in client.added_jobsets(namespace, version):
                group.create_task(report(client, namespace, added, *STATUSES))
                seen += 1
                if seen == count:
                    return

        group.create_task(follow())
        for name in names:
            group.create_task(client.create(train_job(namespace, name)))
    await completed(client, namespace, count)
    took, cpu = time.monotonic() - began, cpu_seconds(pid) - before
    await asyncio.sleep(SETTLE_SECONDS)
    print(f"{count} lives at once: {took:.1f} s, CPU per life {1000 * cpu / count:.2f} ms")
    print_calls(control_plane, [namespace], names, "API calls per life, at once", 3.1)


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
    began = time.monotonic()
    component = await asyncio.to_thread(start_manager, control_plane)
    took = time.monotonic() - began
    cpu = cpu_seconds(component.program_pid)
    print(f"  restart until all lists are there {took:8.2f} s     CPU {cpu:.2f} s, its start included")
    await asyncio.sleep(2 * SETTLE_SECONDS)
    calls = list(control_plane.audit_log.calls(user_agent="trainwright"))[before:]
    writes = [call for call in calls if call.is_write]
    print(f"  API writes after a restart        {len(writes):8}    (budget 0)")
    print(f"  resident memory after it          {resident_mib(component.program_pid):8.1f} MiB")


async def measure(
    control_plane: ControlPlane, count: int, sizes: list[int], burst: int, samples: Path | None = None
) -> None:
    """All of it; with `samples` the lives alone."""
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", TORCH)
        component = start_manager(control_plane, samples=samples)
        print(f"lives of {count} TrainJobs")
        await lives(control_plane, client, component.program_pid, count, samples)
        if burst:
            await at_once(control_plane, client, component.program_pid, burst)
        if samples is not None:
            return
        control_plane.stop_program(MANAGER)
        for namespace in ("leisure", "hurry", "burst"):
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
            await restarted(control_plane)
            component = control_plane.components[MANAGER]
        if burst and len(sizes) > 1:
            print(f"beside {known} running jobs:")
            await at_once(control_plane, client, component.program_pid, burst)
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the life of a TrainJob costs the manager.")
    parser.add_argument("--lives", type=int, default=300, help="how many lives (default: %(default)s)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1000, 10000], help="running jobs to measure the memory at"
    )
    parser.add_argument("--at-once", type=int, default=1000, help="how many to lead at once (default: %(default)s)")
    parser.add_argument(
        "--profile", action="store_true", help="print where the CPU time of the lives goes, and measure no memory"
    )
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        samples = control_plane.folder / "samples.json" if arguments.profile else None
        work = measure(control_plane, arguments.lives, sorted(arguments.sizes), arguments.at_once, samples)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work)


if __name__ == "__main__":
    main()
