# SPDX-License-Identifier: Apache-2.0
"""Our manager in the test's own event loop, on the shared API server, and a user who works in one namespace."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.api.config.v1alpha1 import Cleanup, Configuration, ControllerHealth
from trainwright.api.objects import resource_version_of
from trainwright.controller.runtime import Manager, load_config
from trainwright.controller.runtime.manager.manager import ProcessSettings
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

STEP = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
POD = {"containers": [{"name": "node", "image": "example.com/none"}]}
TEMPLATE: dict[str, Any] = {
    "spec": {"replicatedJobs": [{"name": "node", "template": {"metadata": STEP, "spec": {"template": {"spec": POD}}}}]}
}
TIME = "2026-01-02T03:04:05Z"


@pytest.fixture
async def user(with_jobsets: ControlPlane, namespace: str) -> "AsyncIterator[User]":
    """A user who works in one namespace while the manager runs."""
    async with working(with_jobsets, namespace) as found:
        yield found


@asynccontextmanager
async def working(
    with_jobsets: ControlPlane, namespace: str, *, cleanup: Cleanup | None = None
) -> "AsyncIterator[User]":
    """The manager runs for the length of the block. `cleanup`: the section of its Configuration."""
    health = ControllerHealth(health_probe_bind_address="0")
    settings = settings_of(Configuration(health=health, cleanup=cleanup))
    manager = await make_manager(
        load_config(with_jobsets.kubeconfig),
        settings,
        user_agent=f"test/{namespace}",
        process=ProcessSettings(detect_mutation=True),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="manager")
        await manager.wait_ready()
        yield User(with_jobsets, namespace, manager)
        manager.stop()


class User:
    """What a user does, and what can be seen from outside."""

    def __init__(self, control_plane: ControlPlane, namespace: str, manager: Manager) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.manager = manager

    async def make(self, document: dict[str, Any]) -> None:
        """Create a whole document in the namespace."""
        metadata = {"namespace": self.namespace, **document["metadata"]}
        await asyncio.to_thread(self.control_plane.stored.create, {**document, "metadata": metadata})

    async def create(
        self, kind: str, name: str, spec: dict[str, Any], *, api: str = "trainer.kubeflow.org/v1alpha1"
    ) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        document = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
        await asyncio.to_thread(self.control_plane.stored.create, document)

    async def job(self, name: str, **spec: Any) -> None:
        await self.create("TrainJob", name, {"runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"}, **spec})

    async def runtime(self) -> None:
        await self.create("TrainingRuntime", "runtime", {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE})

    async def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.control_plane.stored.get, kind, name, self.namespace)

    async def patch(self, kind: str, name: str, body: object, **options: str) -> None:
        """See `Stored.patch`."""
        await asyncio.to_thread(self.control_plane.stored.patch, kind, name, body, self.namespace, **options)

    async def annotate(self, kind: str, name: str, annotation: str, value: str) -> None:
        await self.patch(kind, name, {"metadata": {"annotations": {annotation: value}}})

    async def delete(self, kind: str, *names: str, wait: bool = True) -> None:
        """Delete objects, and wait until they are gone."""
        for name in names:
            await asyncio.to_thread(self.control_plane.stored.delete, kind, name, self.namespace, wait=wait)

    async def until(self, kind: str, name: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for an object that satisfies the condition."""
        found = await eventually(
            lambda: self.get(kind, name), lambda found: found is not None and holds(found), what=f"{kind} {name}"
        )
        assert found is not None
        return found

    async def noticed(self, kind: type[Any], name: str, namespace: str = "") -> None:
        """Wait until the manager's cache holds an object as it is stored: watches of two kinds keep no order."""
        place = namespace or self.namespace

        async def versions() -> tuple[str, str]:
            stored: Any = await self.manager.client.get(kind, name, place)
            held: Any = self.manager.cache.get(kind, name, place)
            return resource_version_of(stored), "" if held is None else resource_version_of(held)

        await eventually(versions, lambda found: found[0] == found[1], what=f"the cache has {kind.__name__} {name}")


def conditions(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of a TrainJob by type."""
    return {condition["type"]: condition for condition in job.get("status", {}).get("conditions", [])}
