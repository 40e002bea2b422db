# SPDX-License-Identifier: Apache-2.0
"""The API server goes away while pods run, and comes back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, python, running_node
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import TransportError
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually


@pytest.fixture
def mortal(new_control_plane: type[ControlPlane]) -> Iterator[ControlPlane]:
    """An API server of this test's own."""
    with new_control_plane() as running:
        yield running


async def test_pods_outlive_an_api_server(mortal: ControlPlane, tmp_path: Path) -> None:
    config = load_config(mortal.kubeconfig)
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    client = Client(HTTPTransport(config), user_agent="test")
    pods = Pods(client, mortal.create_namespace(), settings.name)
    go, crash = tmp_path / "go", tmp_path / "crash"
    wait = "import os,sys,time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\nsys.exit(int(sys.argv[2]))"
    try:
        async with running_node(config, settings):
            await pods.create("ends", *python(wait), str(go), "0")
            again = {"name": "main", "image": "python", "command": [*python(wait), str(crash), "0"]}
            await pods.create("stays", containers=[again], restartPolicy="Always")
            await pods.reach("ends", "Running")
            await pods.reach("stays", "Running")
            restart = asyncio.create_task(asyncio.to_thread(mortal.restart, "kube-apiserver", kill=True))
            await eventually(unreachable(client, pods))
            go.touch()  # it ends while nothing can be reported
            await restart
            pod = await pods.reach("ends", "Succeeded", seconds=60)
            assert container(pod)["state"]["terminated"]["exitCode"] == 0
            pod = await pods.reach("stays", "Running")
            assert container(pod)["restartCount"] == 0
    finally:
        await client.close()


def unreachable(client: Client, pods: Pods) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        try:
            await client.get(POD, "ends", pods.namespace)
        except TransportError:
            return True
        return False

    return look
