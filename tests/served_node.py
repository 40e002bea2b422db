# SPDX-License-Identifier: Apache-2.0
"""The node of the local cluster on a real API server, with the endpoint that the API server asks for exec and logs.

    async with served_node(config, NodeSettings(name="real", folder=folder), Authority(folder)) as kubelet:
        ...  # pods that are bound to the node are processes of this machine

So trainings run under the real Job and JobSet controllers, and `pods/exec` and `pods/log` work as with a kubelet.
Images, cgroups, mounts and the errors of a container runtime are not there. The API server does not verify the
certificate, unless it is started with `--kubelet-certificate-authority`.
https://kubernetes.io/docs/concepts/architecture/control-plane-node-communication/#api-server-to-kubelet
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.http.serving import HOST, upgraded
from trainwright.controller.local.apiserver.request.info import ServerWebSocket, Upgrade
from trainwright.controller.local.apiserver.verbs.channels import EXEC, serve_exec
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.registration import NODE
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.podaccess import ExecRequest, LogRequest, UnavailableError
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, ProcessSettings
from trainwright.controller.runtime.servers.http import listening
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.programs import Authority

WEBSOCKETS = "ExtendWebSocketsToKubelet"
"""The feature that a node declares for the API server to pass v5 websockets on. Without it: SPDY.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""
_SHUTDOWN_SECONDS = 1.0


class ServedNode:
    """A node and its endpoint."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self.port = 0
        self.commands: list[tuple[str, ...]] = []
        """The command of each exec, in order."""
        self.protocols: list[str] = []
        """The protocol of each exec."""
        self.hangs = asyncio.Event()
        """While it is set, an exec is accepted and nothing follows."""

    async def exec(self, request: web.Request) -> web.StreamResponse:
        """`/exec/{namespace}/{pod}/{container}?command=…&output=1&error=1`."""
        place = request.match_info
        query = request.query
        asked = ExecRequest(
            container=place["container"],
            command=tuple(query.getall("command", ())),
            stdin="input" in query,
            stdout="output" in query,
            stderr="error" in query,
            tty="tty" in query,
        )
        self.commands.append(asked.command)

        async def serve(socket: ServerWebSocket) -> None:
            self.protocols.append(socket.protocol)
            if self.hangs.is_set():
                await socket.receive()  # until the API server leaves
                return
            await serve_exec(socket, self.node.exec, place["namespace"], place["pod"], asked)

        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(status=400, text="this node speaks websockets only")
        return await upgraded(request, Upgrade(EXEC, serve))

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """`/containerLogs/{namespace}/{pod}/{container}`, with the parameters of PodLogOptions."""
        place, query = request.match_info, request.query
        tail, since, limit = (
            int(query[name]) if name in query else None for name in ("tailLines", "sinceSeconds", "limitBytes")
        )
        asked = LogRequest(
            container=place["container"],
            follow=query.get("follow") == "true",
            previous=query.get("previous") == "true",
            timestamps=query.get("timestamps") == "true",
            tail_lines=tail,
            since_seconds=since,
            limit_bytes=limit,
        )
        try:
            chunks = await self.node.logs(place["namespace"], place["pod"], asked)
        except UnavailableError as error:
            return web.Response(status=400, text=str(error))
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        with suppress(ConnectionError):
            async for chunk in chunks:
                await answer.write(chunk)
        return answer

    def status(self, *, websockets: bool) -> Document:
        """What the Node object says of the endpoint."""
        return {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "declaredFeatures": [WEBSOCKETS] if websockets else [],
        }


@asynccontextmanager
async def served_node(
    config: ClusterConfig, settings: NodeSettings, authority: Authority, *, websockets: bool = True
) -> AsyncIterator[ServedNode]:
    """Run a node and its endpoint for the length of the block; a failure of the node is the block's.

    Args:
        config: the way to the API server, as administrator.
        settings: of the node.
        authority: issues the certificate of the endpoint.
        websockets: declare that the node takes v5 websockets. Without it the API server asks for SPDY, which the
            endpoint does not speak.
    """
    manager = Manager(
        config, field_manager="kubelet", servers=NO_SERVERS, process=ProcessSettings(detect_mutation=True)
    )
    node = LocalNode(manager.client, settings, server=config.server)
    # API servers prefer the Hostname, and the name of the node cannot be resolved.
    node.registration._hostname = HOST
    node.declare(manager)
    kubelet = ServedNode(node)
    application = web.Application()
    application.router.add_get("/exec/{namespace}/{pod}/{container}", kubelet.exec)
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelet.logs)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.server(f"kubelet-{settings.name}"))
    async with listening("kubelet", runner, HOST, 0, tls=tls) as kubelet.port, TaskScope("test kubelet") as tasks:
        running = tasks.start("node", manager.run())
        try:
            await manager.wait_ready()
            await node.wait_running()
            await node.registration.registered.wait()
            status = {"status": kubelet.status(websockets=websockets)}
            await manager.client.patch(NODE, settings.name, "", status, type="strategic", subresource="status")
            yield kubelet
        finally:
            manager.stop()
            await asyncio.wait({running})
