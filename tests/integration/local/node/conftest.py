# SPDX-License-Identifier: Apache-2.0
"""A node of ours on the real API server, and pods that are bound to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.node.modes import MODES
from trainwright.api.kubernetes.core.v1 import Pod, ServiceAccount
from trainwright.api.objects import uid_of
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.cluster import local_cluster
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.process import lowlevel
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import (
    NO_SERVERS,
    Client,
    ClusterConfig,
    HTTPTransport,
    Manager,
    NotFound,
    ProcessSettings,
    load_config,
)
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually

Document = dict[str, Any]
POD = Pod.RESOURCE


@pytest.fixture
def config(control_plane: ControlPlane) -> ClusterConfig:
    """The way to the shared API server, as administrator."""
    return load_config(control_plane.kubeconfig)


@pytest.fixture
async def client(config: ClusterConfig) -> AsyncIterator[Client]:
    """A client without a cache."""
    made = Client(HTTPTransport(config), user_agent="test")
    yield made
    await made.close()


@asynccontextmanager
async def running_node(config: ClusterConfig, settings: NodeSettings) -> AsyncIterator[LocalNode]:
    """Run a node for the length of a block; its failure is the block's."""
    manager = Manager(
        config, field_manager="kubelet", servers=NO_SERVERS, process=ProcessSettings(detect_mutation=True)
    )
    node = LocalNode(manager.client, settings, server=config.server)
    node.declare(manager)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(manager.run(), name="manager")
        try:
            await manager.wait_ready()
            yield node
        finally:
            manager.stop()
            await asyncio.wait({task})


class Pods:
    """Pods of one namespace that are bound to one node."""

    def __init__(self, client: Client, namespace: str, node: str) -> None:
        self.client = client
        self.namespace = namespace
        self.node = node

    async def create(self, name: str, *command: str, **spec: Any) -> Document:
        """A pod with a container `main` that runs a command, unless `containers` are given."""
        containers = [{"name": "main", "image": "python", "command": list(command)}]
        metadata = spec.pop("metadata", {})
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "containers": containers,
                **spec,
            },
        }
        return await self.client.create(document, kind=POD)

    async def get(self, name: str) -> Document:
        """The pod; an empty document if it does not exist."""
        try:
            return await self.client.get(POD, name, self.namespace)
        except NotFound:
            return {}

    async def reach(self, name: str, phase: str, seconds: float = 30.0) -> Document:
        """Wait for a phase."""
        return await eventually(lambda: self.get(name), lambda pod: status(pod).get("phase") == phase, seconds=seconds)

    async def gone(self, name: str, seconds: float = 30.0) -> None:
        """Wait until the object does not exist."""
        await eventually(lambda: self.get(name), lambda pod: not pod, seconds=seconds)


def status(pod: Document) -> Document:
    """The status of a pod."""
    found: Document = pod.get("status") or {}
    return found


def container(pod: Document, name: str = "main") -> Document:
    """The status of one container."""
    listed = [*(status(pod).get("containerStatuses") or ()), *(status(pod).get("initContainerStatuses") or ())]
    found: Document = next((one for one in listed if one["name"] == name), {})
    return found


def python(code: str) -> tuple[str, ...]:
    """The command of a container that runs Python code."""
    return ("python", "-c", code)


def processes_of(settings: NodeSettings, pod: Document) -> list[int]:
    """The numbers of the processes that run for a pod."""
    return lowlevel.marked(str(settings.pods / uid_of(pod)))


MOST = [pytest.param(mode, marks=pytest.mark.local_is_enough) for mode in MODES[:-1]]
"""The API server sees the same of all modes, so the default, the last one, is enough on the real one."""


@pytest.fixture(params=[*MOST, *MODES[-1:]])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    """Each mode that this machine has."""
    found: Isolation = request.param
    return found


@pytest.fixture
def settings(isolation: Isolation, tmp_path: Path) -> NodeSettings:
    """A node in each mode."""
    return NodeSettings(name="laptop", folder=tmp_path / "state", isolation=isolation)


@pytest.fixture
async def node(config: ClusterConfig, settings: NodeSettings) -> AsyncIterator[LocalNode]:
    """A running node."""
    async with running_node(config, settings) as running:
        yield running


@pytest.fixture
async def trainer(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a local cluster with a manager."""
    one = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(one, memory=True) as cluster:
        yield Client(cluster.api.transport())


@asynccontextmanager
async def laptop(folder: Path) -> AsyncIterator[Client]:
    """A client of a local cluster without a manager, in which pods can be created."""
    settings = NodeSettings(name="laptop", folder=folder / "state", isolation=Isolation.REWRITE)
    async with local_cluster(settings, memory=True) as cluster:
        made = Client(cluster.api.transport())

        async def account() -> bool:
            with suppress(NotFound):
                await made.get(ServiceAccount, "default", "default")
                return True
            return False

        await eventually(account, what="the service account is there")
        yield made


@pytest.fixture
def pods(client: Client, namespace: str, node: LocalNode) -> Pods:
    """Pods on the running node."""
    return Pods(client, namespace, node.settings.name)
