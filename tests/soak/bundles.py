# SPDX-License-Identifier: Apache-2.0
"""Soak of new CA certificates for many jobs.

A thousand TrainJobs exist, a tenth of them finished. Each round changes the CA certificates in the manager's Secret.
Printed per round: seconds until the ConfigMap of the last unfinished job has them, writes of the manager meanwhile,
seconds until a TrainJob that is created meanwhile has its JobSet. Exit code 1 if the ConfigMaps take more than a
minute, one of a finished job changes, or there is more than one write for each.
"""

import argparse
import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.installation import CONFIG
from tests.integration.trainer.conftest import TEMPLATE, TIME
from trainwright.api.config.v1alpha1 import Configuration, ControllerHealth, ControllerWebhook, StatusServer
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.plugins.contract import Installation

JOBS = 1000
FINISHED = 100
"""Of them."""
AT_ONCE = 32
LIMIT_SECONDS = 60.0
NAMESPACE = "default"
AT = Installation()
AGENT = "soak-bundles"


@asynccontextmanager
async def managed(control_plane: ControlPlane) -> AsyncIterator[None]:
    """The manager runs with the gate."""
    configuration = Configuration(
        health=ControllerHealth(health_probe_bind_address="0"),
        webhook=ControllerWebhook(host="127.0.0.1"),
        status_server=StatusServer(port=free_port()),
        feature_gates={"TrainJobStatus": True},
    )
    manager = await make_manager(load_config(control_plane.kubeconfig), settings_of(configuration), user_agent=AGENT)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="manager")
        await manager.wait_ready()
        yield
        manager.stop()


async def put_bundle(client: Client, text: str) -> None:
    """Store CA certificates."""
    data = {"ca.crt": base64.b64encode(text.encode()).decode()}
    metadata = {"name": AT.secret, "namespace": AT.namespace}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    await client.apply(document, kind=Secret.RESOURCE, field_manager="soak", force=True)


async def create_job(client: Client, name: str) -> None:
    """A TrainJob."""
    spec = {"runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"}}
    metadata = {"name": name, "namespace": NAMESPACE}
    document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}
    await client.create(document, kind=TrainJob.RESOURCE)


async def bundles(client: Client) -> dict[str, str]:
    """The CA certificates that jobs have, by the name of the ConfigMap."""
    listed = await client.list(ConfigMap.RESOURCE, NAMESPACE)
    found = {item["metadata"]["name"]: item.get("data", {}).get("ca.crt") for item in listed.items}
    return {name: value for name, value in found.items() if value is not None}


async def set_up(client: Client) -> None:
    """The runtime and the jobs, a tenth of them finished."""
    gate = asyncio.Semaphore(AT_ONCE)
    completed = {"type": "Completed", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}

    async def one(number: int) -> None:
        async with gate:
            await create_job(client, f"job-{number:04}")

    async def finish(number: int) -> None:
        async with gate:
            body: Any = {"status": {"conditions": [completed]}}
            name = f"job-{number:04}"
            await client.patch(JobSet.RESOURCE, name, NAMESPACE, body, type="merge", subresource="status")

    document: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "runtime", "namespace": NAMESPACE},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE},
    }
    await client.create(document, kind=TrainingRuntime.RESOURCE)
    await put_bundle(client, "FIRST")
    await asyncio.gather(*map(one, range(JOBS)))

    async def jobsets() -> int:
        return len((await client.list(JobSet.RESOURCE, NAMESPACE)).items)

    await eventually(jobsets, lambda count: count == JOBS, seconds=300)
    await asyncio.gather(*map(finish, range(FINISHED)))

    async def complete() -> int:
        jobs = (await client.list(TrainJob.RESOURCE, NAMESPACE)).items
        return sum(bool(job.get("status", {}).get("conditions")) for job in jobs)

    await eventually(complete, lambda count: count == FINISHED, seconds=300)


async def one_round(control_plane: ControlPlane, client: Client, number: int) -> bool:
    """Change the CA certificates; gives whether all went well."""
    loop = asyncio.get_running_loop()
    text = f"ROUND {number}"
    before = writes(control_plane)
    began = loop.time()
    await put_bundle(client, text)
    name = f"new-{number}"
    await create_job(client, name)

    async def jobset() -> bool:
        return any(item["metadata"]["name"] == name for item in (await client.list(JobSet.RESOURCE, NAMESPACE)).items)

    await eventually(jobset, bool, seconds=120)
    submitted = loop.time() - began

    def all_have_it(found: dict[str, str]) -> bool:
        return sum(value == text for value in found.values()) >= JOBS - FINISHED + number + 1

    found = await eventually(lambda: bundles(client), all_have_it, seconds=240)
    took = loop.time() - began
    finished = {found[f"job-{number:04}-tls-config"] for number in range(FINISHED)}
    written = writes(control_plane) - before
    print(f"round {number}: bundles in {took:5.1f} s, {written} writes, a new job's JobSet in {submitted:.1f} s")
    return took <= LIMIT_SECONDS and finished == {"FIRST"} and written <= JOBS - FINISHED + number + 1


def writes(control_plane: ControlPlane) -> int:
    """Writes of ConfigMaps that hold CA certificates by the manager so far."""
    calls = [call for call in control_plane.audit_log.calls() if call.user_agent.endswith(AGENT)]
    return sum(call.is_write and call.name.endswith("-tls-config") for call in calls)


async def soak(rounds: int) -> int:
    """All rounds; gives the exit code."""
    crds = [CONFIG / "crd", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds, audit=True) as control_plane:
        control_plane.kubectl("create", "namespace", AT.namespace)
        client = Client(HTTPTransport(load_config(control_plane.kubeconfig)))
        try:
            async with managed(control_plane):
                await set_up(client)
                outcomes = [await one_round(control_plane, client, number) for number in range(rounds)]
        finally:
            await client.close()
    print(f"{outcomes.count(True)} of {rounds} rounds as they should be")
    return 0 if all(outcomes) else 1


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="of new CA certificates (default: %(default)s)")
    return asyncio.run(soak(parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
