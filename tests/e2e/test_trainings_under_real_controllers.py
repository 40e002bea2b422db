# SPDX-License-Identifier: Apache-2.0
"""XGBoost trains in processes of our node under the real JobSet and Job controllers and the real scheduler."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.trainings import alone, check, job_of, write_images
from tests.installation import kustomized
from tests.integration.local.node.conftest import running_node
from tests.managers import MANAGER, start_manager
from trainwright.api.conditions import is_true
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, name_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.node.images import Images
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.podaccess import LogRequest
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.parity
NODES = 2


@pytest.fixture
def chain(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Everything but a node, with our manager and the shipped runtimes."""
    crds = [pytestconfig.rootpath / "config" / "crd"]
    with ControlPlane(crds=crds, controller_manager=True, scheduler=True, jobset=True) as running:
        start_manager(running, webhooks=True)
        running.apply(*kustomized(running, "runtimes"))
        yield running
        running.stop_program(MANAGER)


async def lines(client: Client, node: LocalNode, namespace: str) -> list[str]:
    """What the pods have written."""
    found: list[str] = []
    for pod in (await client.list(Pod.RESOURCE, namespace)).items:
        chunks = await node.logs(namespace, name_of(pod), LogRequest(container="node"))
        found += b"".join([chunk async for chunk in chunks]).decode().splitlines()
    return found


def has_ended(job: Document) -> bool:
    found = (job.get("status") or {}).get("conditions")
    return is_true(found, "Complete") or is_true(found, "Failed")


async def test_two_processes_train_one_model(chain: ControlPlane, tmp_path: Path) -> None:
    namespace = chain.create_namespace()
    config = load_config(chain.kubeconfig)
    job = job_of("xgboost", NODES)
    job["metadata"]["namespace"] = namespace
    images = Images(await asyncio.to_thread(write_images, "xgboost", tmp_path))
    capacity = {"cpu": "8", "memory": "8Gi"}
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", images=images, capacity=capacity)
    client = Client(HTTPTransport(config), user_agent="test")
    try:
        async with running_node(config, settings) as node:
            await client.create(job, kind=TrainJob.RESOURCE)
            name = name_of(job)
            ended = await eventually(partial(client.get, TrainJob.RESOURCE, name, namespace), has_ended, seconds=120)
            said = await lines(client, node, namespace)
            assert is_true(ended["status"]["conditions"], "Complete"), said
    finally:
        await client.close()
    check("xgboost", said, NODES, await asyncio.to_thread(alone, "xgboost", tmp_path / "alone"))
