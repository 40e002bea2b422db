# SPDX-License-Identifier: Apache-2.0
"""The API server goes away while pods run, and comes back."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.local.node.conftest import Pods, container, python, running_node
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.component import answers
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
    go, done, never = (tmp_path / name for name in ("go", "done", "never"))
    wait = "import os,sys,time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\nopen(sys.argv[2], 'w')"
    ready = partial(answers, f"{mortal.url}/readyz", authority=mortal.ca, token=mortal.token)
    try:
        async with running_node(config, settings):
            await pods.create("ends", *python(wait), str(go), str(done))
            again = {"name": "main", "image": "python", "command": [*python(wait), str(never), str(done)]}
            await pods.create("stays", containers=[again], restartPolicy="Always")
            await pods.reach("ends", "Running")
            await pods.reach("stays", "Running")
            command = mortal.components["kube-apiserver"].command
            await asyncio.to_thread(mortal.stop_program, "kube-apiserver", kill=True)
            go.touch()  # it ends while nothing can be reported
            await eventually(done.exists)
            await asyncio.to_thread(mortal.launch, "kube-apiserver", command, ready=ready)
            pod = await pods.reach("ends", "Succeeded", seconds=60)
            assert container(pod)["state"]["terminated"]["exitCode"] == 0
            pod = await pods.reach("stays", "Running")
            assert container(pod)["restartCount"] == 0
    finally:
        await client.close()
