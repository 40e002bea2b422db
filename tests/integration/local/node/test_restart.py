# SPDX-License-Identifier: Apache-2.0
"""The end of a node, orderly and by a crash, and its next start."""

import json
import signal
import subprocess
import sys

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, processes_of, python, running_node, status
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import annotations_of, dig, uid_of
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.node.status import FAILURES
from trainwright.controller.local.podaccess import LogRequest
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

PROGRAM = """
import asyncio, sys
from pathlib import Path
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import NO_SERVERS, Manager, load_config

async def main():
    config = load_config(Path(sys.argv[1]))
    manager = Manager(config, field_manager="kubelet", servers=NO_SERVERS)
    settings = NodeSettings(name="laptop", folder=Path(sys.argv[2]), isolation=Isolation(sys.argv[3]))
    LocalNode(manager.client, settings, server=config.server).declare(manager)
    await manager.run()

asyncio.run(main())
"""


@pytest.fixture
def unmanaged(client: Client, namespace: str, settings: NodeSettings) -> Pods:
    """Pods whose node the test runs itself."""
    return Pods(client, namespace, settings.name)


async def test_a_stopped_node_ends_its_pods(config: ClusterConfig, unmanaged: Pods, settings: NodeSettings) -> None:
    pods = unmanaged
    async with running_node(config, settings):
        made = await pods.create("stopped", *python("import time; time.sleep(600)"))
        await pods.reach("stopped", "Running")
        assert processes_of(settings, made)
    assert not processes_of(settings, made)
    pod = await pods.get("stopped")
    assert (status(pod)["phase"], status(pod)["reason"]) == ("Failed", "Terminated")
    assert container(pod)["state"]["terminated"]["exitCode"] == 143
    (target,) = [one for one in status(pod)["conditions"] if one["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    (failure,) = json.loads(annotations_of(pod)[FAILURES])
    assert (failure["exitCode"], failure["stopped"]) == (143, True)


async def test_after_a_crash_running_pods_are_lost_and_finished_ones_stay(
    control_plane: ControlPlane, config: ClusterConfig, unmanaged: Pods, settings: NodeSettings
) -> None:
    pods = unmanaged
    arguments = [str(control_plane.kubeconfig), str(settings.folder), str(settings.isolation)]
    with start(*arguments) as crashing:
        made = await pods.create("running", *python("import time; print('up'); time.sleep(600)"))
        gone = await pods.create("gone", *python("import time; time.sleep(600)"))
        await pods.create("done", *python("print('done')"))
        await pods.reach("done", "Succeeded")
        await pods.reach("running", "Running")
        await pods.reach("gone", "Running")
        assert processes_of(settings, made)
        await eventually(lambda: [path for path in settings.logs.glob("*/main/0.log") if "up" in path.read_text()])
        crashing.send_signal(signal.SIGKILL)
        crashing.wait()
    await eventually(lambda: processes_of(settings, made), lambda left: not left)
    # Deleted while no node runs: the object waits for the node.
    await pods.client.delete(POD, "gone", pods.namespace)
    async with running_node(config, settings) as node:
        lost = await pods.reach("running", "Failed")
        assert status(lost)["reason"] == "NodeLost"
        ended = container(lost)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "NodeLost")
        (target,) = [one for one in status(lost)["conditions"] if one["type"] == "DisruptionTarget"]
        assert (target["status"], target["reason"]) == ("True", "NodeRestarted")
        assert status(await pods.get("done"))["phase"] == "Succeeded"
        await pods.gone("gone")
        chunks = [chunk async for chunk in await node.logs(pods.namespace, "running", LogRequest(container="main"))]
        assert b"".join(chunks) == b"up\n"
        assert await pods.create("next", *python("pass"))
        await pods.reach("next", "Succeeded")
        await pods.client.delete(POD, "running", pods.namespace)
        await pods.gone("running")
        uids = uid_of(made), uid_of(gone)
        await eventually(lambda: [uid for uid in uids if (settings.pods / uid).exists()], is_empty)


async def test_after_a_crash_a_pod_that_has_not_run_begins_once_more(
    control_plane: ControlPlane, config: ClusterConfig, unmanaged: Pods, settings: NodeSettings
) -> None:
    """It waited for a key when the node was killed: nothing of it is lost."""
    pods, reference = unmanaged, {"configMapKeyRef": {"name": "settings", "key": "rate"}}
    env = [{"name": "RATE", "valueFrom": reference}]
    with start(str(control_plane.kubeconfig), str(settings.folder), str(settings.isolation)) as crashing:
        command = python("import os; print(os.environ['RATE'])")
        main = {"name": "main", "image": "python", "command": list(command), "env": env}
        made = await pods.create("waiting", containers=[main])
        await eventually(
            lambda: pods.get("waiting"),
            lambda pod: dig(container(pod), "state.waiting.reason") == "CreateContainerConfigError",
        )
        assert (settings.pods / uid_of(made)).is_dir()
        crashing.kill()
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": pods.namespace}}
    await pods.client.create({**data, "data": {"rate": "3"}}, kind=ConfigMap.RESOURCE)
    async with running_node(config, settings):
        pod = await pods.reach("waiting", "Succeeded")
        assert uid_of(pod) == uid_of(made)


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])
