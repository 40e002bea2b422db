# SPDX-License-Identifier: Apache-2.0
"""Logs of pods through a real API server. The test itself serves as the node."""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from aiohttp import web

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.errors import BadRequest, ServerError
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.runtime.testing.programs import Authority

pytestmark = pytest.mark.real_control_plane("kubelet")
NODE = Resource(group="", version="v1", kind="Node", plural="nodes", namespaced=False)


class Kubelet:
    """Answers for the logs of its node's containers, as far as the API server asks for them."""

    def __init__(self, folder: Path) -> None:
        self.node = f"node-{secrets.token_hex(4)}"
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.read = asyncio.Event()
        self._certificate = Authority(folder).server("kubelet")
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer)
        self._runner = web.AppRunner(application)

    async def start(self) -> int:
        """Listens on the port that is returned."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._certificate)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.match_info["container"], dict(request.query)))
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        answer.force_close()
        await answer.prepare(request)
        await answer.write(b"one\n")
        if "follow" in request.query:  # the second line comes when the first was read
            await self.read.wait()
            await answer.write(b"two\n")
        return answer


@pytest.fixture
async def kubelet(client: Client, tmp_path: Path) -> AsyncIterator[Kubelet]:
    made = Kubelet(tmp_path)
    port = await made.start()
    node = await client.create(build(NODE, made.node), kind=NODE)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await client.patch(NODE, made.node, "", {"status": status}, subresource="status")
    yield made
    await client.delete(NODE, node["metadata"]["name"])
    await made.stop()


async def test_logs_come_from_the_node_as_they_arrive(client: Client, kubelet: Kubelet, namespace: str) -> None:
    containers = [{"name": name, "image": "i"} for name in ("main", "side")]
    await client.create(build(Pod, "p", namespace, spec={"nodeName": kubelet.node, "containers": containers}))

    whole = [chunk async for chunk in client.logs("p", namespace, container="main")]
    assert b"".join(whole) == b"one\n"
    some = client.logs("p", namespace, container="side", previous=True, timestamps=True, tail=5, since=60)
    assert [chunk async for chunk in some] == [b"one\n"]
    assert kubelet.asked == [
        ("main", {}),
        ("side", {"previous": "true", "timestamps": "true", "tailLines": "5", "sinceSeconds": "60"}),
    ]

    async with aclosing(client.logs("p", namespace, container="main", follow=True)) as lines:
        assert await anext(lines) == b"one\n"
        kubelet.read.set()
        assert await anext(lines) == b"two\n"
        assert [line async for line in lines] == []

    with pytest.raises(BadRequest, match=r"container name must be specified.*choose one of: \[main side\]"):
        await anext(client.logs("p", namespace))
    with pytest.raises(BadRequest, match="container nothing is not valid for pod p"):
        await anext(client.logs("p", namespace, container="nothing"))
    with pytest.raises(NotFound, match='pods "q" not found'):
        await anext(client.logs("q", namespace))


async def test_logs_of_a_pod_that_no_node_has(client: Client, kubelet: Kubelet, namespace: str) -> None:
    containers = [{"name": "main", "image": "i"}]
    await client.create(build(Pod, "waits", namespace, spec={"containers": containers}))
    assert [chunk async for chunk in client.logs("waits", namespace)] == []
    await client.create(build(Pod, "p", namespace, spec={"nodeName": kubelet.node, "containers": containers}))
    await kubelet.stop()
    with pytest.raises(ServerError, match="connection refused"):
        await anext(client.logs("p", namespace))
