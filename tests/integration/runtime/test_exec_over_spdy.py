# SPDX-License-Identifier: Apache-2.0
"""Exec in a pod whose node speaks SPDY only: the API server translates our websocket. KWOK plays the node.

KWOK's server runs commands on this machine, as root of the test. It declares no feature, so version 5 becomes SPDY.
"""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client import exec as exec_module
from trainwright.controller.runtime.client.exec import ExecResult
from trainwright.controller.runtime.errors import BadRequest, NotFound, OutputTooLarge, RequestTimeout, ServerError
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.real_control_plane("kubelet")

NODE = "speaks-spdy"
EXECS = {
    "kind": "ClusterExec",
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "metadata": {"name": "all"},
    "spec": {"execs": [{"local": {"envs": [{"name": "A", "value": "b"}]}}]},
}


@pytest.fixture
def node(control_plane: ControlPlane, tmp_path: Path) -> Iterator[str]:
    """A node that KWOK serves."""
    port = free_port()
    certificate, key = Authority(tmp_path).server("kubelet")
    file = tmp_path / "exec.yaml"
    file.write_text(yaml.safe_dump(EXECS))
    kwok = provide(["kwok"])
    command = [
        str(kwok["kwok"]),
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--manage-single-node={NODE}",
        f"--node-port={port}",
        "--node-ip=127.0.0.1",
        "--node-name=127.0.0.1",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--server-address=127.0.0.1:{port}",
        f"--config={kwok.manifests['kwok-node-stages.yaml']}",
        f"--config={kwok.manifests['kwok-pod-stages.yaml']}",
        f"--config={file}",
    ]
    control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    control_plane.launch("kwok-exec", command, ready=listens)
    yield NODE
    control_plane.stop_program("kwok-exec")
    control_plane.kubectl("delete", "node", NODE)


@pytest.mark.parametrize("protocol", exec_module.PROTOCOLS)
async def test_the_results_are_those_of_websockets(
    client: Client, node: str, namespace: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_module, "PROTOCOLS", (protocol,))
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i"}]}
    document = {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}
    await client.create(document, kind=Pod.RESOURCE)

    async def runs() -> bool:
        status = (await client.get(Pod.RESOURCE, "p", namespace)).get("status") or {}
        return bool(status.get("phase") == "Running")

    await eventually(runs)
    found = await client.exec("p", namespace, ["sh", "-c", "echo $A; echo bad >&2"])
    assert found == ExecResult(b"b\n", b"bad\n", 0)
    # KWOK does not pass exit codes on as kubelets do.
    with pytest.raises(ServerError, match="exit status 3"):
        await client.exec("p", namespace, ["sh", "-c", "exit 3"])
    assert await client.exec("p", namespace, ["true"]) == ExecResult(b"", b"", 0)
    assert (await client.exec("p", namespace, ["tail", "-c", "3", "/etc/passwd"])).stdout
    with pytest.raises(ServerError, match="no-such-program"):
        await client.exec("p", namespace, ["no-such-program"])
    with pytest.raises(OutputTooLarge):
        await client.exec("p", namespace, ["head", "-c", "3000000", "/dev/zero"])
    with pytest.raises(RequestTimeout):
        await client.exec("p", namespace, ["sleep", "5"], seconds=1)
    with pytest.raises(NotFound):
        await client.exec("absent", namespace, ["true"])
    with pytest.raises(BadRequest):
        await client.exec("p", namespace, ["true"], container="other")
    await client.delete(Pod, "p", namespace, grace_period=0)
