# SPDX-License-Identifier: Apache-2.0
"""The whole chain with the node in place of pretended ones: real controllers, the real scheduler, real processes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.integration.local.node.conftest import running_node
from tests.unit.local.node.modes import MODES
from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import wire
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.local.podaccess import LogRequest
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.plugins.testing import replicated_job

pytestmark = pytest.mark.real_control_plane("the real controllers")

Document = dict[str, Any]
JOBSET = Resource(group="jobset.x-k8s.io", version="v1alpha2", kind="JobSet", plural="jobsets", namespaced=True)

# Every rank adds its number at rank 0, which answers with the sum: as a rendezvous and an all-reduce.
PROGRAM = """
import os, socket, sys, time
rank, port = int(os.environ["JOB_COMPLETION_INDEX"]), int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", port)) as server:
        peers = [server.accept()[0] for _ in range(2)]
        total = sum(int(peer.recv(16)) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d" % total)
    print("sum", total, "port", port, flush=True)
else:
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(b"%d" % rank)
    print("got", int(peer.recv(16)), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def chain() -> Iterator[ControlPlane]:
    """Everything but a node."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True) as running:
        yield running


def jobset(name: str, namespace: str, go: Path) -> Document:
    env = [
        {"name": "MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "MASTER_PORT", "value": "29500"},
    ]
    container = {
        "name": "node",
        "image": "trainer",
        "command": ["python", "-c", PROGRAM],
        "args": [str(go)],
        "env": env,
        "ports": [{"containerPort": 29500}],
    }
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    node = replicated_job(pod=pod, parallelism=3, completions=3, completionMode="Indexed")
    return wire(builders.jobset(node, name=name, namespace=namespace, uid=""))


def is_completed(found: Document) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Completed" and one["status"] == "True" for one in conditions)


@pytest.mark.parametrize("isolation", MODES)
async def test_two_jobsets_meet_on_one_port_each(chain: ControlPlane, isolation: Isolation, tmp_path: Path) -> None:
    namespace = chain.create_namespace()
    config = load_config(chain.kubeconfig)
    settings = NodeSettings(name=f"laptop-{isolation}", folder=tmp_path / "state", isolation=isolation)
    client = Client(HTTPTransport(config), user_agent="test")
    go = tmp_path / "go"
    try:
        async with running_node(config, settings) as node:
            for name in ("first", "second"):
                await client.create(jobset(name, namespace, go), kind=JOBSET)

            async def logs() -> dict[str, list[str]]:
                found: dict[str, list[str]] = {"first": [], "second": []}
                for pod in (await client.list(Pod.RESOURCE, namespace)).items:
                    labels = pod["metadata"]["labels"]
                    if pod["status"].get("phase") != "Running":
                        continue
                    chunks = await node.logs(namespace, pod["metadata"]["name"], LogRequest(container="node"))
                    text = b"".join([chunk async for chunk in chunks]).decode()
                    found[labels["jobset.sigs.k8s.io/jobset-name"]].append(text.strip())
                return {name: sorted(texts) for name, texts in found.items()}

            found = await eventually(logs, lambda seen: all(len(x) == 3 and all(x) for x in seen.values()), seconds=40)
            assert [texts[:2] for texts in found.values()] == [["got 3", "got 3"]] * 2
            ports = {texts[2].removeprefix("sum 3 port ") for texts in found.values()}
            assert len(ports) == 2
            go.touch()
            for name in ("first", "second"):
                await eventually(partial(client.get, JOBSET, name, namespace), is_completed, seconds=40)
    finally:
        await client.close()
