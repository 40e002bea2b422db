# SPDX-License-Identifier: Apache-2.0
"""An API server with one pod, whose processes a test plays."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, ServerWebSocket
from trainwright.controller.local.apiserver.verbs.channels import EXEC
from trainwright.controller.local.apiserver.verbs.pods import PodExecs
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.local.podaccess import ExecRequest, UnavailableError

PATH = "/api/v1/namespaces/default/pods/p/exec"
UPGRADE = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-protocol": ",".join(EXEC)}


class Session:
    """A process that a test plays."""

    def __init__(self, *, out: Sequence[bytes] = (), err: Sequence[bytes] = (), code: int = 0) -> None:
        self._out, self._err, self._code = out, err, code
        self.events: list[Any] = []
        self.may_end = asyncio.Event()

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        return self._chunks(self._out)

    @property
    def stderr(self) -> AsyncIterator[bytes]:
        return self._chunks(self._err)

    async def _chunks(self, chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def write(self, data: bytes) -> None:
        self.events.append(data)

    async def close_stdin(self) -> None:
        self.events.append("end")
        self.may_end.set()

    def resize(self, width: int, height: int) -> None:
        self.events.append((width, height))
        self.may_end.set()

    async def wait(self) -> int:
        await self.may_end.wait()
        return self._code

    async def close(self) -> None:
        self.events.append("closed")


class Server:
    """An API server with one pod, whose processes a test plays."""

    def __init__(self, api: RunningServer) -> None:
        self.api = api
        self.session: Session | UnavailableError = Session()
        self.asked: ExecRequest | None = None
        execs = PodExecs(api.server.store, self._start, api.server.admission)
        api.server.register_handler("", "pods", "exec", execs.connect)

    async def _start(self, namespace: str, pod: str, request: ExecRequest) -> Session:
        assert (namespace, pod) == ("default", "p")
        self.asked = request
        if isinstance(self.session, UnavailableError):
            raise self.session
        return self.session

    async def request(
        self, query: str, *, method: str = "GET", headers: dict[str, str] = UPGRADE, path: str = PATH
    ) -> ServerResponse:
        """Ask for a process: `command=ls&stdout=true`."""
        pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&"))]
        authorization = {"authorization": f"Bearer {self.api.config.token}"}
        return await self.api.server.handle(
            ServerRequest(method=method, path=path, query=pairs, headers={**headers, **authorization})
        )

    async def report(self, status: dict[str, Any]) -> None:
        """Write the status of the pod."""
        patch = {"content-type": "application/merge-patch+json", "authorization": f"Bearer {self.api.config.token}"}
        path = f"{PATH.rpartition('/')[0]}/status"
        body = json.dumps({"status": status}).encode()
        answer = await self.api.server.handle(ServerRequest(method="PATCH", path=path, headers=patch, body=body))
        assert answer.status == 200, answer.body

    async def speak(
        self, socket: ServerWebSocket, query: str = "command=ls&stdin=true&stdout=true&stderr=true", *, path: str = PATH
    ) -> None:
        """Run a whole connection."""
        answer = await self.request(query, path=path)
        assert answer.upgrade is not None
        await asyncio.wait_for(answer.upgrade.serve(socket), 10)


@asynccontextmanager
async def played_server(folder: Path) -> AsyncIterator[Server]:
    """A server with a pod `p` that has the container `a`."""
    async with api_server(folder, memory=True) as api:
        containers = [{"name": "a", "image": "x"}]
        body = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}}
        made = await api.server.handle(
            ServerRequest(
                method="POST",
                path=PATH.rpartition("/p/")[0],
                headers={"authorization": f"Bearer {api.config.token}"},
                body=json.dumps(body).encode(),
            )
        )
        assert made.status == 201
        yield Server(api)
