# SPDX-License-Identifier: Apache-2.0
"""Managers that take reports of progress, on the local API server; all in this process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.builders import train_job
from tests.reports import Reply, audience, path_of, send
from tests.repository import our_definitions
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.kubernetes.core.v1 import ServiceAccount
from trainwright.api.objects import Document, wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import RunningServer, api_server, install
from trainwright.controller.local.controllers import jobset_objects
from trainwright.controller.runtime import Client, Manager
from trainwright.controller.runtime.manager.manager import ProcessSettings
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

SPACE, ACCOUNT = "default", "reporter"


class World:
    """An API server with managers beside it, and training processes."""

    def __init__(self, api: RunningServer) -> None:
        self.api = api
        self.client = Client(api.transport(), user_agent="user")
        self.managers: list[Manager] = []
        self.ports: list[int] = []
        self.tests = 0

    def own(self, name: str) -> str:
        """The name of a TrainJob of this test."""
        return f"{name}-{self.tests}"

    async def job(self, name: str, **status: Any) -> None:
        """Create a TrainJob that no controller touches. Names are those of this test, here and in all methods."""
        job = train_job(self.own(name), SPACE, uid="", managedBy="kueue.x-k8s.io/multikueue")
        await self.client.create(wire(job), kind=TrainJob.RESOURCE)
        if status:
            await self.set_status(name, **status)

    async def set_status(self, name: str, **status: Any) -> None:
        await self.client.patch(TrainJob.RESOURCE, self.own(name), SPACE, {"status": status}, subresource="status")

    async def apply_status(self, name: str, status: Document, *, field_manager: str) -> None:
        """Apply a part of the status, as another controller would."""
        document = {"metadata": {"name": self.own(name), "namespace": SPACE}, "status": status}
        await self.client.apply(document, kind=TrainJob.RESOURCE, field_manager=field_manager, subresource="status")

    async def delete(self, name: str) -> None:
        await self.client.delete(TrainJob.RESOURCE, self.own(name), SPACE)

    async def token(self, name: str, *, to: str = "", space: str = SPACE) -> str:
        """A token for the reports of a TrainJob, or with another audience, of an account in a namespace."""
        spec = {"audiences": [to or audience(SPACE, self.own(name))], "expirationSeconds": 900}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.client.post_subresource(ServiceAccount, ACCOUNT, space, "token", request)
        return str(answer["status"]["token"])

    async def report(self, name: str, body: Any, *, replica: int = 0, **options: Any) -> Reply:
        options = {"token": await self.token(name), "path": path_of(SPACE, self.own(name)), **options}
        path = options.pop("path")
        return await asyncio.to_thread(send, self.ports[replica], path, body, **options)

    async def stored(self, name: str) -> dict[str, Any]:
        """The progress in the status."""
        found = await self.whole(name)
        status: dict[str, Any] = found.get("status", {}).get("trainerStatus", {})
        return status

    async def whole(self, name: str) -> Document:
        return await self.client.get(TrainJob.RESOURCE, self.own(name), SPACE)

    async def percentage(self, name: str) -> int | None:
        return (await self.stored(name)).get("progressPercentage")

    async def settled(self, name: str, percentage: int) -> None:
        """Wait until a percentage is stored."""
        await eventually(lambda: self.percentage(name), equals(percentage))


@asynccontextmanager
async def running(
    folder: Path, *, replicas: int = 1, namespace: str = "", **configuration: Any
) -> AsyncIterator[World]:
    """Managers for the length of the block. `namespace`: the only one that they manage; empty: all."""
    async with api_server(folder, memory=True) as api, TaskScope("managers") as tasks:
        world, started = World(api), list[asyncio.Task[None]]()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SPACE}}
        await install(world.client, [*definitions(), account], owner="test")
        for number in range(replicas):
            port = free_port()
            settings = settings_of(
                msgspec.convert(
                    {
                        "health": {"healthProbeBindAddress": "0"},
                        "webhook": {"host": "127.0.0.1"},
                        "featureGates": {"TrainJobStatus": True},
                        **configuration,
                        "statusServer": {**configuration.get("statusServer", {}), "port": port},
                    },
                    Configuration,
                )
            )
            manager = await make_manager(
                api.config,
                settings,
                user_agent=f"test-{number}",
                transport=api.transport(),
                namespace=namespace,
                process=ProcessSettings(detect_mutation=True),
            )
            started.append(tasks.start(f"manager {number}", manager.run()))
            world.managers.append(manager)
            world.ports.append(port)
        for manager in world.managers:
            await manager.wait_ready()
            await eventually(manager.readyz.run, lambda results: all(results.values()))
        yield world
        for manager in world.managers:
            manager.stop()
        await asyncio.wait(started)


def definitions() -> list[Document]:
    """The kinds that a manager needs."""
    found = our_definitions()
    jobset = json.loads((Path(jobset_objects.__file__).parent / "jobsets.crd.json").read_bytes())
    del jobset["//"]
    return [*found, jobset]
