# SPDX-License-Identifier: Apache-2.0
"""Runs an operator in a test as the user that it will be in a cluster: with the rights of its declarations alone.

@pytest.mark.local_cluster(rbac=True)
async def test_web(local_cluster):
    async with running(app, local_cluster):
        local_cluster.apply({...})
"""

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from trainwright.api.rights import SELF_REVIEW, Rule, merged
from trainwright.api.times import wall_clock
from trainwright.controller.runtime.app.app import App
from trainwright.controller.runtime.app.declarations import Operator
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig, load_config
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport, WebSocket
from trainwright.controller.runtime.manager.manager import NO_SERVERS, Manager, ProcessSettings
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.stored import StoredObjects
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually

READY_SECONDS = 30.0
_FORBIDDEN = 403


class Cluster(Protocol):
    """A `LocalCluster` with `rbac`, or a `ControlPlane`."""

    @property
    def stored(self) -> StoredObjects:
        """The objects, as the administrator sees them."""
        ...

    def add_user(
        self, name: str, *, groups: Sequence[str] = ..., rules: Sequence[Mapping[str, Any]] = ..., namespace: str = ...
    ) -> Path:
        """See `Users.add_user`."""
        ...


class ForbiddenRequests(AssertionError):  # noqa: N818 - what went wrong, as pytest shows it
    """The operator did what its role does not allow."""


@contextmanager
def running(app: App, cluster: Cluster, *, rights: Sequence[Rule] | None = None) -> Iterator[None]:
    """Run the operator in a thread for the length of a block; its caches are filled when it begins.

    Args:
        app: the operator.
        cluster: where it runs, with roles in force.
        rights: those of its user; by default what follows from its declarations. Those to register its webhooks by
            URL, as `rbac --webhook-url` prints them, are added.

    Raises:
        ForbiddenRequests: at the end of the block, with every request that was refused.
        GaveUp: its caches were not filled, with the reasons: a definition that is not installed, or a missing right.
        ControlPlaneError: the cluster allows everything to everybody.
        Exception: what ended the operator early.
    """
    operator = app.operator()
    name = f"{app.name}-{secrets.token_hex(3)}"
    granted = (*(app.rules() if rights is None else rights), *operator.hook_rules("default", by_url=True))
    config = load_config(cluster.add_user(name, rules=[rule.document() for rule in merged(granted)]))
    hooks = _hooks(operator, cluster) if operator.serves else {}
    with ExitStack() as stack:
        process = _Process(app, config, hooks)
        process.start()
        stack.callback(process.stop)
        process.started.wait()
        if process.error is not None:
            raise process.error
        try:
            yield
        except BaseException as error:
            if listed := process.forbidden():
                error.add_note(listed)
            raise
    if process.error is not None:
        raise process.error
    if listed := process.forbidden():
        raise ForbiddenRequests(listed)


class _Process(threading.Thread):
    """The operator, on an event loop of its own, as in a process of its own."""

    def __init__(self, app: App, config: ClusterConfig, hooks: Mapping[str, Any]) -> None:
        super().__init__(name=app.name, daemon=True)
        self._app = app
        self._config = config
        self._hooks = hooks
        self.started = threading.Event()
        """Set once it works, or has ended."""
        self.error: BaseException | None = None
        self.refused: list[str] = []
        self._end: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Run until `stop`."""
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error
        finally:
            self._end = lambda: None
            self.started.set()

    def forbidden(self) -> str:
        """The requests that were refused; empty if none was."""
        if not self.refused:
            return ""
        listed = "\n".join(f"  {one}" for one in dict.fromkeys(self.refused))
        return f"app {self.name}: these requests need rights that are not declared:\n{listed}"

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        self._end()
        self.join()

    async def _run(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(stopping.set)
        transport = _Watched(HTTPTransport(self._config), self.refused)
        manager = self._app.manager(
            self._config,
            servers=NO_SERVERS,
            process=ProcessSettings(detect_mutation=True),
            transport=transport,
            **self._hooks,
        )
        try:
            await _check(manager.client)
        except BaseException:
            await manager.client.close()
            raise
        running = asyncio.create_task(manager.run())
        started = asyncio.create_task(self._wait_started(manager, stopping))
        await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        manager.stop()
        await running
        with suppress(asyncio.CancelledError):
            await started

    async def _wait_started(self, manager: Manager, stopping: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(manager.wait_ready(), READY_SECONDS)
        empty = [one for one in manager.cache.statistics() if not one.synced]
        if empty:
            reasons = "; ".join(f"{one.kind}: {one.last_error or 'no answer yet'}" for one in empty)
            raise GaveUp(f"app {self.name}: caches were not filled in {READY_SECONDS} s: {reasons}", empty)
        await eventually(lambda: _passes(manager), what="the webhooks are registered")
        self.started.set()
        await stopping.wait()


async def _passes(manager: Manager) -> bool:
    return all((await manager.readyz.run()).values())


def _hooks(operator: Operator, cluster: Cluster) -> dict[str, Any]:
    """The arguments of a manager that serves the webhooks and registers them, but for conversions.

    Those are in definitions, which the administrator has.
    """
    # Certificates need a library that operators without webhooks need not have.
    from trainwright.controller.runtime.certificates.configurations import webhooks_by_url  # noqa: PLC0415
    from trainwright.controller.runtime.certificates.rotation import RotationPolicy, made_for_process  # noqa: PLC0415
    from trainwright.controller.runtime.webhook.webhooks import ByURL  # noqa: PLC0415

    address = f"127.0.0.1:{free_port()}"
    material = made_for_process(RotationPolicy(), ["127.0.0.1"], wall_clock())
    for document in operator.conversions("default"):
        reached = webhooks_by_url(document, f"https://{address}", material.bundle, {})
        cluster.stored.apply(reached, field_manager="test")
    return {"webhooks": ByURL(url=f"https://{address}", material=material), "webhook_address": address}


async def _check(client: Client) -> None:
    asked = {"group": "nothing.example.com", "resource": "things", "verb": "get"}
    review = await client.create({"spec": {"resourceAttributes": asked}}, kind=SELF_REVIEW)
    if review["status"]["allowed"]:
        raise ControlPlaneError("this cluster allows everything to everybody: mark the test local_cluster(rbac=True)")


class _Watched:
    """A transport that notes what is refused for want of a right."""

    def __init__(self, transport: Transport, refused: list[str]) -> None:
        self._transport = transport
        self._refused = refused

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
            self._refused.append(str(request))
