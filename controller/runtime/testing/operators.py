# SPDX-License-Identifier: Apache-2.0
"""Runs an operator in a test as the user that it will be in a cluster: with the rights of its declarations alone.

@pytest.mark.local_cluster(rbac=True)
async def test_web(local_cluster):
    async with running(app, local_cluster):
        local_cluster.apply({...})
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from trainwright.api.base import Resource
from trainwright.api.rights import Rule
from trainwright.controller.runtime.app.app import App
from trainwright.controller.runtime.app.manifests import policy_rules
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import load_config
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport, WebSocket
from trainwright.controller.runtime.manager.manager import NO_SERVERS, Manager, ProcessSettings
from trainwright.controller.runtime.testing.tools import ControlPlaneError

_FORBIDDEN = 403
_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)


class HasUsers(Protocol):
    """A `LocalCluster` with `rbac`, or a `ControlPlane`."""

    def add_user(
        self, name: str, *, groups: Sequence[str] = ..., rules: Sequence[Mapping[str, Any]] = ..., namespace: str = ...
    ) -> Path:
        """See `Users.add_user`."""
        ...


class ForbiddenRequests(AssertionError):  # noqa: N818 - what went wrong, as pytest shows it
    """The operator did what its role does not allow."""


@asynccontextmanager
async def running(app: App, cluster: HasUsers, *, rights: Sequence[Rule] | None = None) -> AsyncIterator[Manager]:
    """Run the operator for the length of a block; its caches are filled when it begins.

    Args:
        app: the operator.
        cluster: where it runs, with roles in force.
        rights: those of its user; by default what follows from its declarations.

    Raises:
        ForbiddenRequests: at the end of the block, with every request that was refused.
        ControlPlaneError: the cluster allows everything to everybody.
    """
    name = f"{app.name}-{secrets.token_hex(3)}"
    rules = policy_rules(app.rules() if rights is None else rights)
    config = load_config(await asyncio.to_thread(cluster.add_user, name, rules=rules))
    transport = _Watched(HTTPTransport(config))
    manager = app.manager(
        config, servers=NO_SERVERS, process=ProcessSettings(detect_mutation=True), transport=transport
    )
    try:
        await _check(manager.client)
    except BaseException:
        await manager.client.close()
        raise
    task = asyncio.create_task(manager.run(), name=name)
    ready = asyncio.create_task(manager.wait_ready())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        yield manager
    finally:
        ready.cancel()
        manager.stop()
        await asyncio.wait({task})
    task.result()  # raises what ended it early
    if transport.refused:
        listed = "\n".join(f"  {one}" for one in dict.fromkeys(transport.refused))
        raise ForbiddenRequests(f"app {app.name}: these requests need rights that are not declared:\n{listed}")


async def _check(client: Client) -> None:
    asked = {"group": "nothing.example.com", "resource": "things", "verb": "get"}
    review = await client.create({"spec": {"resourceAttributes": asked}}, kind=_REVIEW)
    if review["status"]["allowed"]:
        raise ControlPlaneError("this cluster allows everything to everybody: mark the test local_cluster(rbac=True)")


class _Watched:
    """A transport that notes what is refused for want of a right."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.refused: list[str] = []

    async def send(self, request: Request) -> Response:
        response = await self._transport.send(request)
        self._note(request, response.status)
        return response

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        async with self._transport.open(request) as stream:
            self._note(request, stream.status)
            yield stream

    def connect(
        self, request: Request, protocols: Sequence[str], *, limit: int
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._transport.connect(request, protocols, limit=limit)

    async def close(self) -> None:
        await self._transport.close()

    def _note(self, request: Request, status: int) -> None:
        if status == _FORBIDDEN:
            self.refused.append(str(request))
