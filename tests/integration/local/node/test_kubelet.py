# SPDX-License-Identifier: Apache-2.0
"""Exec and logs through the real API server, of pods that a node of ours runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.local.node.conftest import Pods
from trainwright.api.kubernetes.core.v1 import Node as NodeModel
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.testing.kubelet import ServedNode, served_node
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.client import exec as exec_module
from trainwright.controller.runtime.client.exec import ExecResult
from trainwright.controller.runtime.errors import BadRequest, Forbidden, OutputTooLarge, RequestTimeout, ServerError
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.certificates import Authority

POD = Pod.RESOURCE
MAIN = {"name": "main", "image": "python"}
WAITS = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


@pytest.fixture
async def kubelet(config: ClusterConfig, tmp_path: Path) -> AsyncIterator[ServedNode]:
    """A node that the API server reaches."""
    settings = NodeSettings(name="served", folder=tmp_path / "state")
    async with served_node(config, settings, Authority(tmp_path)) as running:
        yield running
    client = Client(HTTPTransport(config))
    await client.delete(NodeModel, "served")
    await client.close()


@pytest.fixture
async def pods(client: Client, namespace: str, kubelet: ServedNode) -> AsyncIterator[Pods]:
    """Pods of that node; one, `p`, waits with the container `main`."""
    made = Pods(client, namespace, kubelet.node.settings.name)
    await made.create("p", "python", "-c", WAITS, terminationGracePeriodSeconds=0)
    await made.reach("p", "Running")
    yield made
    await client.delete(POD, "p", namespace, grace_period=0)
    await made.gone("p")


def client_with(control_plane: ControlPlane, name: str, *verbs: str) -> Client:
    """A client whose user has some verbs on `pods/exec`."""
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": list(verbs)}]
    return Client(HTTPTransport(load_config(control_plane.add_user(name, rules=rules if verbs else []))))


@pytest.mark.parametrize("protocol", exec_module.PROTOCOLS)
async def test_exec(
    client: Client, kubelet: ServedNode, pods: Pods, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_module, "PROTOCOLS", (protocol,))
    code = "import sys; print('a b'); print('bad', file=sys.stderr); sys.exit(3)"
    found = await client.exec("p", pods.namespace, ["python", "-c", code], container="main")
    assert found == ExecResult(b"a b\n", b"bad\n", 3)
    assert await client.exec("p", pods.namespace, ["true"]) == ExecResult(b"", b"", 0)
    assert kubelet.commands == [("python", "-c", code), ("true",)]
    assert kubelet.protocols == [protocol] * 2


async def test_what_can_go_wrong(client: Client, kubelet: ServedNode, pods: Pods) -> None:
    where = pods.namespace
    with pytest.raises(NotFound, match='pods "absent" not found'):
        await client.exec("absent", where, ["true"])
    with pytest.raises(BadRequest, match="container other is not valid for pod p"):
        await client.exec("p", where, ["true"], container="other")
    await client.create({"metadata": {"name": "nowhere", "namespace": where}, "spec": {"containers": [MAIN]}}, kind=POD)
    with pytest.raises(BadRequest, match="pod nowhere does not have a host assigned"):
        await client.exec("nowhere", where, ["true"])
    with pytest.raises(ServerError, match="no-such-program"):
        await client.exec("p", where, ["no-such-program"])
    with pytest.raises(OutputTooLarge):
        await client.exec("p", where, ["python", "-c", "print('x' * 2**21)"])
    with pytest.raises(RequestTimeout):
        await client.exec("p", where, ["sleep", "60"], seconds=1)
    kubelet.hangs.set()
    with pytest.raises(RequestTimeout):
        await client.exec("p", where, ["true"], seconds=1)


async def test_rights(control_plane: ControlPlane, pods: Pods) -> None:
    """One verb alone is not enough: the request is a GET, and `create` is checked as well since 1.35."""
    for name, verbs in {"exec-nothing": (), "exec-get": ("get",), "exec-create": ("create",)}.items():
        user = client_with(control_plane, name, *verbs)
        with pytest.raises(Forbidden):
            await user.exec("p", pods.namespace, ["true"])
        await user.close()
    user = client_with(control_plane, "exec-both", "get", "create")
    assert (await user.exec("p", pods.namespace, ["true"])).code == 0
    await user.close()


async def test_logs(client: Client, pods: Pods) -> None:
    assert b"".join([chunk async for chunk in client.logs("p", pods.namespace)]) == b"begun\n"
    with pytest.raises(BadRequest, match="previous terminated container"):
        await anext(client.logs("p", pods.namespace, previous=True))


async def test_a_node_that_is_away(client: Client, config: ClusterConfig, namespace: str, tmp_path: Path) -> None:
    settings = NodeSettings(name="leaves", folder=tmp_path / "state")
    async with served_node(config, settings, Authority(tmp_path)):
        pods = Pods(client, namespace, "leaves")
        await pods.create("p", "true")
        await pods.reach("p", "Succeeded")
    with pytest.raises(ServerError, match="connection refused"):
        await client.exec("p", namespace, ["true"])
    await client.delete(NodeModel, "leaves")
