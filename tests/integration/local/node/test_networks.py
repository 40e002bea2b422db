# SPDX-License-Identifier: Apache-2.0
"""Jobs with a network of their own: their pods find each other, and nothing else."""

import json
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, python, running_node, status
from tests.unit.local.node.modes import REFUSED
from trainwright.controller.local.node.networks import JobNetwork
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.settings import Isolation, NetworkMode, NodeSettings
from trainwright.controller.local.podaccess import ExecRequest, LogRequest
from trainwright.controller.runtime import ClusterConfig
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.testing.waiting import eventually

PORT = 29500
OWN_NETWORK = Path("/proc/self/ns/net").stat().st_ino if not REFUSED else 0
namespaces = pytest.mark.only_where(not REFUSED, f"this machine refuses namespaces: {REFUSED}")

SERVE = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(("", {port}), Handler).serve_forever()
"""
WAIT = """
import os, signal
print(os.stat("/proc/self/ns/net").st_ino, flush=True)
signal.pause()
"""
LOOK = """
import json, socket, sys
def ask(host, port):
    try:
        socket.create_connection((host, port), timeout=30).close()
        return "connected"
    except OSError as error:
        return error.strerror
print(json.dumps([ask(name, int(port)) for name, port in (word.split(":") for word in sys.argv[1:])]))
"""


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    """Of a node whose jobs have networks of their own."""
    return NodeSettings(name="isolated", folder=tmp_path / "state", network=NetworkMode.ISOLATED)


@namespaces
async def test_jobs_have_their_own_ports_and_no_way_out(config: ClusterConfig, pods: Pods, node: LocalNode) -> None:
    with socket.socket() as outside:
        outside.bind(("127.0.0.1", 0))
        outside.listen()
        elsewhere = f"127.0.0.1:{outside.getsockname()[1]}"
        ready = {"readinessProbe": {"httpGet": {"port": PORT}, "periodSeconds": 1}}
        for job in ("one", "two"):
            served: dict[str, Any] = {
                "name": "main",
                "image": "i",
                "command": list(python(SERVE.format(port=PORT))),
                **ready,
            }
            served["ports"] = [{"containerPort": PORT}]
            await pods.create(f"{job}-0", containers=[served], hostname=f"{job}-0", subdomain=job)
        for job in ("one", "two"):
            await eventually(partial(pods.get, f"{job}-0"), is_ready)
        words = (f"one-0.one:{PORT}", elsewhere)
        await pods.create("one-1", *python(LOOK), *words, hostname="one-1", subdomain="one")
        await pods.reach("one-1", "Succeeded")
        assert json.loads(await log(node, pods, "one-1")) == ["connected", "Connection refused"]
        session = await node.exec(
            pods.namespace,
            "two-0",
            ExecRequest(container="main", command=(*python(LOOK), f"127.0.0.1:{PORT}", elsewhere)),
        )
        said = b"".join([part async for part in session.stdout])
        await session.wait()
        assert json.loads(said) == ["connected", "Connection refused"]


@namespaces
async def test_a_network_goes_with_its_last_pod(pods: Pods, node: LocalNode) -> None:
    for name in ("a-0", "a-1"):
        await pods.create(name, *python(WAIT), hostname=name, subdomain="a")
    networks = [json.loads(await first_line(node, pods, name)) for name in ("a-0", "a-1")]
    assert networks[0] == networks[1] != OWN_NETWORK
    await pods.client.delete(POD, "a-0", pods.namespace)
    await pods.gone("a-0")
    assert networks[0] in network_namespaces()
    await pods.client.delete(POD, "a-1", pods.namespace)
    await pods.gone("a-1")
    await eventually(network_namespaces, lambda found: networks[0] not in found)


@namespaces
def test_the_process_that_holds_a_network_ends_with_the_cluster() -> None:
    network = JobNetwork()
    network._requests.close()
    network._process.wait(30)
    assert not network.is_alive()
    network.close()


async def test_rewriting_has_no_networks(config: ClusterConfig, tmp_path: Path) -> None:
    wanted = NodeSettings(name="refused", folder=tmp_path, isolation=Isolation.REWRITE, network=NetworkMode.ISOLATED)
    with pytest.raises(ExceptionGroup) as raised:
        async with running_node(config, wanted) as node:
            await node.wait_running()
    assert raised.group_contains(ConfigurationError, match="cannot have a network of their own: isolation is rewrite")


def is_ready(pod: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status(pod).get("conditions") or ())


def network_namespaces() -> set[int]:
    """Those that a process of this machine is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.add((process / "ns/net").stat().st_ino)
    return found


async def first_line(node: LocalNode, pods: Pods, name: str) -> str:
    """The first line of a container's log."""

    async def look() -> str:
        return await log(node, pods, name) if container(await pods.get(name)).get("started") else ""

    return (await eventually(look)).splitlines()[0]


async def log(node: LocalNode, pods: Pods, name: str) -> str:
    lines = await node.logs(pods.namespace, name, LogRequest(container="main"))
    return b"".join([part async for part in lines]).decode()
