# SPDX-License-Identifier: Apache-2.0
"""Exec and logs through the real API server, of pods that a node of ours runs."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hack.manifests import exec_policy
from tests.integration.local.node.conftest import Pods
from tests.served_node import ServedNode, served_node
from trainwright.api.kubernetes.core.v1 import Node as NodeModel
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.client import exec as exec_module
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.client.exec import ExecResult
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import (
    BadRequest,
    Forbidden,
    Invalid,
    OutputTooLarge,
    RequestTimeout,
    ServerError,
)
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.users import PolicyRule
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.progress.metrics import ReadResult
from trainwright.controller.trainer.progress.reading import PYTHON, ContainerRef, read_file

pytestmark = pytest.mark.real_control_plane("kubelet")

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


async def test_the_policy_fences_the_right_of_the_manager(
    client: Client, config: ClusterConfig, control_plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    """Scenario 53 of the page on progress: the account may read files, and do nothing else."""
    where = pods.namespace
    rules: list[PolicyRule] = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}]
    token = control_plane.users.add_service_account("manager", where, rules=rules)
    bearer = replace(config, token=token, client_cert_data=None, client_key_data=None, client_cert_file=None)
    manager = Client(HTTPTransport(replace(bearer, client_key_file=None)))
    documents = exec_policy(f"system:serviceaccount:{where}:manager")
    discovery = Discovery(client)
    for document in documents:
        await client.create(document, kind=await discovery.resource_of(document))

    async def refused() -> bool:
        try:
            await manager.exec("p", where, ["true"])
        except Invalid as error:
            return "may only run the commands that read a progress file" in str(error)
        return False

    await eventually(refused, what="the policy is in force")
    place = ContainerRef(where, "p", "main")
    file = str(tmp_path / "progress.json")
    await asyncio.to_thread(Path(file).write_text, "{}")
    found = await read_file(manager, place, file)
    assert (found.result, found.reader) == (ReadResult.OK, 0)
    assert found.data == b"{}"
    by_python = await read_file(manager, place, file, reader=1)
    assert (by_python.result, by_python.data) == (ReadResult.OK, found.data)
    assert (await read_file(manager, place, "/no/such/progress.json")).result is ReadResult.MISSING
    assert (await read_file(manager, place, "/no/such/progress.json", reader=1)).result is ReadResult.MISSING
    for command in (
        ["sh", "-c", "true"],
        ["tail", "-c", "65537", "progress.json"],
        ["tail", "-c", "65537", "/var/run/secrets/kubernetes.io/serviceaccount/token"],
        ["tail", "-c", "65537", "/progress.json/../etc/passwd"],
        ["tail", "-c", "65537", "/etc/passwd\n/progress.json"],
        ["tail", "-f", "65537", file],
        ["tail", "-c", "65537", file, file],
        ["tail", "-c", "65537"],
        ["python3", "-I", "-S", "-c", "print(1)", file],
        ["python3", "-I", "-S", "-c", PYTHON, "x"],
    ):
        with pytest.raises(Invalid, match="may only run the commands"):
            await manager.exec("p", where, command)
    request = Request("GET", f"/api/v1/namespaces/{where}/pods/p/exec")
    for more in ({"stdin": "true"}, {"tty": "true"}):
        request.query = {"command": ("tail", "-c", "65537", file), "stdout": "true", **more}
        with pytest.raises(Invalid, match="may not use standard input or a terminal"):
            async with manager.connect(request, exec_module.PROTOCOLS, limit=1000):
                pass
    assert (await client.exec("p", where, ["true"])).code == 0
    for document in documents:
        await client.delete(await discovery.resource_of(document), document["metadata"]["name"])
    await manager.close()


async def test_logs(client: Client, pods: Pods) -> None:
    async def log() -> bytes:
        return b"".join([chunk async for chunk in client.logs("p", pods.namespace)])

    await eventually(log, lambda found: found == b"begun\n")
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
