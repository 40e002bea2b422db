# SPDX-License-Identifier: Apache-2.0
"""One controller all the way on a real API server: seen, applied once, repaired, quiet after a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.controller.runtime import Action, Applied, Done, Key, Manager, Result, load_config
from trainwright.controller.runtime.testing import ControlPlane


class Parent:
    """A ConfigMap labelled web=yes gets a Service whose port is its data.port."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.actions: list[Action] = []
        manager.controller("web").for_(ConfigMap, label_selector="web=yes").owns(Service).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        parent = self.manager.cache.get(ConfigMap, key.name, key.namespace)
        if parent is None:
            return Done()
        port = int((parent.data or {}).get("port", "80"))
        applied = await self.manager.applier.apply([self.service(key, port)], owner=parent)
        self.actions += [one.action for one in applied]
        return Done()

    def service(self, key: Key, port: int) -> Service:
        document = {
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"made-by": "web"}},
            "spec": {"selector": {"app": key.name}, "ports": [{"name": "http", "port": port}]},
        }
        return msgspec.convert(document, Service).typed()


@asynccontextmanager
async def running(control_plane: ControlPlane) -> AsyncIterator[tuple[Manager, Parent]]:
    manager = Manager(
        load_config(control_plane.kubeconfig),
        field_manager="web",
        metrics_address=None,
        probe_address=None,
        detect_mutation=True,
    )
    parent = Parent(manager)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(manager.run())
        await manager.wait_ready()
        try:
            yield manager, parent
        finally:
            manager.stop()
            await task


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the state of the world has no event
            await asyncio.sleep(0.02)


async def test_child_is_made_repaired_and_left_alone(control_plane: ControlPlane, namespace: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap"}
    meta = {"name": "shop", "namespace": namespace, "labels": {"web": "yes"}}
    async with running(control_plane) as (manager, parent):
        control_plane.apply({**config, "metadata": meta, "data": {"port": "8080"}})
        get = lambda: manager.cache.get(Service, "shop", namespace)  # noqa: E731
        await until(get)
        service = get()
        assert service is not None
        assert service.spec is not None
        assert [p.port for p in service.spec.ports or ()] == [8080]
        assert parent.actions == [Action.CREATED]

        control_plane.kubectl(
            "patch", "service", "shop", "-n", namespace, "-p", '{"spec":{"selector":{"app":"other"}}}'
        )
        await until(lambda: Action.CHANGED in parent.actions)
        live = await manager.client.get(Service, "shop", namespace)
        assert live.spec is not None
        assert live.spec.selector == {"app": "shop"}

        control_plane.kubectl("delete", "service", "shop", "-n", namespace)
        await until(lambda: parent.actions.count(Action.CREATED) == 2)

    async with running(control_plane) as (_, again):
        await until(lambda: again.actions)
        assert again.actions == [Action.UNCHANGED]


def test_results_are_plain_values() -> None:
    assert Applied(Action.CREATED, ConfigMap, Key("a", "b"), {}).key == Key("a", "b")
