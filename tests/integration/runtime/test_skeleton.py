# SPDX-License-Identifier: Apache-2.0
"""One controller on a real API server: it sees, applies once, repairs, and is quiet after a restart."""

import msgspec

from tests.integration.runtime.conftest import quiet_manager, running
from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.controller.runtime import ClusterConfig, Done, Key, Manager, Result
from trainwright.controller.runtime.apply.applier import Action
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.settle import settle_manager
from trainwright.controller.runtime.testing.waiting import contains, eventually


class Parent:
    """A ConfigMap labelled web=yes gets a Service whose port is its data.port."""

    def __init__(self, manager: Manager, namespace: str) -> None:
        self.manager = manager
        self.actions: list[Action] = []
        builder = manager.controller("web").for_(ConfigMap, label_selector="web=yes", namespace=namespace)
        builder.owns(Service, namespace=namespace).reconcile(self.reconcile)

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


async def test_child_is_made_repaired_and_left_alone(
    control_plane: ControlPlane, config: ClusterConfig, namespace: str
) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    meta = {"name": "shop", "namespace": namespace, "labels": {"web": "yes"}}
    manager = quiet_manager(config)
    parent = Parent(manager, namespace)
    async with running(manager):
        control_plane.apply({**kind, "metadata": meta, "data": {"port": "8080"}})

        def get() -> Service | None:
            return manager.cache.get(Service, "shop", namespace)

        service = await eventually(get)
        assert service is not None
        assert service.spec is not None
        assert [p.port for p in service.spec.ports or ()] == [8080]
        # The watch may tell of the Service before the apply that made it has its answer.
        assert await eventually(lambda: parent.actions) == [Action.CREATED]

        control_plane.stored.patch("service", "shop", {"spec": {"selector": {"app": "other"}}}, namespace)
        await eventually(lambda: parent.actions, contains(Action.CHANGED))
        live = await manager.client.get(Service, "shop", namespace)
        assert live.spec is not None
        assert live.spec.selector == {"app": "shop"}

        control_plane.stored.delete("service", "shop", namespace)
        await eventually(lambda: parent.actions, lambda actions: actions.count(Action.CREATED) == 2)

    manager = quiet_manager(config)
    again = Parent(manager, namespace)
    async with running(manager):
        await eventually(lambda: again.actions)
        await settle_manager(manager)
        assert set(again.actions) == {Action.UNCHANGED}
