# SPDX-License-Identifier: Apache-2.0
"""A burst of TrainJobs: how long until the last JobSet, beside a bare HTTP client that makes the same writes.

Both run in one control plane without JobSet's own controllers, so that what is measured is ours: first the bare client
(one process that creates a TrainJob, its snapshot and its JobSet, as many jobs at a time as the manager has workers),
then the manager, with the same client creating the TrainJobs only. Printed are both times, their ratio, and the CPU,
memory and API calls of the manager, the latter counted in the audit log by user agent. At last the same burst goes
through the manager's webhooks as well, whose calls the API server measures.
"""

import argparse
import asyncio
import copy
import json
import os
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import builders
from tests.managers import MANAGER, start_manager
from trainwright.api.objects import wire
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.plugins.testing import runtime_document

ROOT = Path(__file__).parents[2]
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2"
WEBHOOKS = ".trainjob.trainer.kubeflow.org"
"""How the names of the webhooks for TrainJobs end."""
WORKERS = 16
SETTLE_SECONDS = 3.0
READY_SECONDS = 60.0

RUNTIME = runtime_document("burst", namespace="")


def train_job(namespace: str, name: str) -> dict[str, Any]:
    trainer = {"numNodes": 2, "env": [{"name": "A", "value": "b"}]}
    return wire(builders.train_job(name, namespace, uid="", runtimeRef={"name": "burst"}, trainer=trainer))


class BareClient:
    """The least that can be done: requests, and nothing around them."""

    def __init__(self, control_plane: ControlPlane) -> None:
        context = ssl.create_default_context(cadata=control_plane.ca.decode())
        self.session = aiohttp.ClientSession(
            base_url=control_plane.url,
            headers={"Authorization": f"Bearer {control_plane.token}", "User-Agent": "bare"},
            connector=aiohttp.TCPConnector(ssl=context, limit=2 * WORKERS),
        )

    async def close(self) -> None:
        await self.session.close()

    async def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Any:
        data = json.dumps(body) if body is not None else None
        async with self.session.request(method, path, data=data, headers={"Content-Type": kind}) as answer:
            content = await answer.json()
            if answer.status >= 400:
                raise SystemExit(f"error: {method} {path}: {answer.status} {content.get('message')}")
            return content

    async def metrics(self) -> str:
        """Of the API server."""
        async with self.session.get("/metrics") as answer:
            return await answer.text()

    async def create(self, job: dict[str, Any]) -> Any:
        return await self.call("POST", f"{TRAINER}/namespaces/{job['metadata']['namespace']}/trainjobs", job)

    async def added_jobsets(self, namespace: str, version: str) -> AsyncGenerator[str, None]:
        """Names of the JobSets that are added after `version`, without end."""
        path = f"{JOBSET}/namespaces/{namespace}/jobsets"
        while True:  # on a busy machine the server closes a watch that it cannot serve in time
            query = f"?watch=true&resourceVersion={version}"
            async with self.session.get(path + query, timeout=aiohttp.ClientTimeout()) as answer:
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise SystemExit(f"error: the watch of JobSets failed: {event['object'].get('message')}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "ADDED":
                        yield event["object"]["metadata"]["name"]

    async def count_jobsets(self, namespace: str, version: str, wanted: int) -> None:
        """Return when so many JobSets were added after `version`."""
        async with aclosing(self.added_jobsets(namespace, version)) as names:
            async for _ in names:
                wanted -= 1
                if wanted == 0:
                    return


async def spread(names: list[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do the work for all names, so many at a time as the manager has workers."""
    queue = iter(names)

    async def worker() -> None:
        for name in queue:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())


async def bare(client: BareClient, namespace: str, names: list[str], jobset: dict[str, Any]) -> float:
    async def create(name: str) -> None:
        await write_as_manager(client, namespace, name, jobset)

    began = time.monotonic()
    await spread(names, create)
    return time.monotonic() - began


async def write_as_manager(client: BareClient, namespace: str, name: str, jobset: dict[str, Any]) -> None:
    """Create a TrainJob, its snapshot and its JobSet."""
    created = await client.create(train_job(namespace, name))
    owner = jobset["metadata"]["ownerReferences"][0] | {"name": name, "uid": created["metadata"]["uid"]}
    metadata = {"name": f"{name}-runtime-snapshot", "ownerReferences": [owner]}
    content = {"runtime": json.dumps(RUNTIME, indent=1)}
    await client.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": metadata, "data": content})
    document = copy.deepcopy(jobset)
    document["metadata"] |= {"name": name, "namespace": namespace, "ownerReferences": [owner]}
    path = f"{JOBSET}/namespaces/{namespace}/jobsets/{name}?fieldManager=bare&force=true"
    await client.call("PATCH", path, document, kind="application/apply-patch+yaml")


async def managed(client: BareClient, namespace: str, names: list[str]) -> float:
    async def create(name: str) -> None:
        await client.create(train_job(namespace, name))

    version = (await client.call("GET", f"{JOBSET}/namespaces/{namespace}/jobsets"))["metadata"]["resourceVersion"]
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.count_jobsets(namespace, version, len(names)))
        group.create_task(spread(names, create))
    return time.monotonic() - began


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def probe(client: BareClient, namespace: str, name: str) -> dict[str, Any]:
    """Create one TrainJob and return the JobSet that the manager makes of it, as what the manager would apply."""
    await client.create(train_job(namespace, name))

    async def jobset() -> dict[str, Any] | None:
        found = (await client.call("GET", f"{JOBSET}/namespaces/{namespace}/jobsets"))["items"]
        return next((document for document in found if document["metadata"]["name"] == name), None)

    document = await eventually(jobset, seconds=READY_SECONDS, what="the JobSet of the first TrainJob")
    assert document is not None
    kept = ("labels", "annotations", "ownerReferences")
    document["metadata"] = {key: value for key, value in document["metadata"].items() if key in kept}
    document.pop("status", None)
    return {**document, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}


Durations: TypeAlias = dict[str, dict[str, float]]
"""Of the calls to each webhook, as the API server measured them: counts by bucket, sum in seconds, count."""


def durations(text: str, suffix: str) -> Durations:
    """From the API server's metrics, of the webhooks whose names end so."""
    found: Durations = {}
    pattern = r"apiserver_admission_webhook_admission_duration_seconds_(bucket|sum|count)\{(.*)\} (\S+)"
    for what, labels, value in re.findall(pattern, text):
        name = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if name["name"].endswith(suffix):
            key = f"le {name['le']}" if what == "bucket" else what
            entry = found.setdefault(name["name"], {})
            entry[key] = entry.get(key, 0.0) + float(value)
    return found


def print_growth(before: Durations, after: Durations) -> None:
    """A line for each webhook. The budget, p99 of 100 ms, holds where at most 1 % of the calls took longer."""
    for name, entry in sorted(after.items()):
        grown = {key: value - before.get(name, {}).get(key, 0.0) for key, value in entry.items()}
        calls = grown["count"]
        over = "  ".join(
            f"over {1000 * float(le):.0f} ms: {100 * (1 - grown[f'le {le}'] / calls):.1f} %"
            for le in ("0.025", "0.1", "0.5")
        )
        print(f"{name:24} calls {calls:.0f}  mean {1000 * grown['sum'] / calls:.1f} ms  {over}")


async def measure(control_plane: ControlPlane, jobs: int) -> None:
    names = [f"job-{index:05}" for index in range(jobs)]
    one, two, three, warm = (control_plane.create_namespace(name) for name in ("bare", "managed", "admitted", "warm"))
    client = BareClient(control_plane)
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME)
        start_manager(control_plane)
        jobset = await probe(client, warm, "first")
        control_plane.stop_program(MANAGER)
        bare_before = time.process_time()
        without = await bare(client, one, names, jobset)
        bare_cpu = time.process_time() - bare_before
        for name in names:
            await client.call("DELETE", f"{TRAINER}/namespaces/{one}/trainjobs/{name}")
        manager = start_manager(control_plane)
        await probe(client, warm, "second")
        pid = manager.program_pid
        await asyncio.sleep(SETTLE_SECONDS)
        calls_before = sum(1 for _ in control_plane.audit_log.calls(user_agent="trainwright"))
        cpu_before = cpu_seconds(pid)
        with_manager = await managed(client, two, names)
        await asyncio.sleep(SETTLE_SECONDS)
        cpu = cpu_seconds(pid) - cpu_before
        calls = list(control_plane.audit_log.calls(user_agent="trainwright"))[calls_before:]
        memory = resident_mib(pid)
        control_plane.stop_program(MANAGER)
        start_manager(control_plane, webhooks=True)
        await probe(client, warm, "third")
        before = durations(await client.metrics(), WEBHOOKS)
        admitted = await managed(client, three, names)
        after = durations(await client.metrics(), WEBHOOKS)
    finally:
        await client.close()
    print(f"burst of {jobs} TrainJobs, plain runtime")
    print(f"  bare client, same writes    {without:8.2f} s")
    print(f"  manager, last JobSet        {with_manager:8.2f} s   ratio {with_manager / without:.2f} (budget 1.2)")
    print(f"  bare client CPU             {1000 * bare_cpu / jobs:8.2f} ms per TrainJob")
    print(f"  manager CPU                 {1000 * cpu / jobs:8.2f} ms per TrainJob   ratio {cpu / bare_cpu:.2f}")
    print(f"  manager memory              {memory:8.1f} MiB resident")
    print(f"  API calls of the manager    {len(calls) / jobs:8.2f} per TrainJob")
    kinds = Counter(" ".join(filter(None, (call.verb, call.resource, call.subresource))) for call in calls)
    for kind, count in kinds.most_common():
        print(f"    {kind:<28}{count:6}")
    print(f"  through admission           {admitted:8.2f} s (budget of its p99: 100 ms)")
    print_growth(before, after)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a burst of TrainJobs beside a bare HTTP client.")
    parser.add_argument("--jobs", type=int, default=1000, help="how many TrainJobs (default: %(default)s)")
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        asyncio.run(measure(control_plane, arguments.jobs))


if __name__ == "__main__":
    main()
