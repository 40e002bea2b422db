# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/runtime/examples.md, each as it stands on the page, in a manager on an API server."""

import re
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.integration.runtime.conftest import quiet_manager, running
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret, Service, ServiceAccount
from trainwright.api.objects import Document
from trainwright.controller.runtime import ClusterConfig, Forbidden, Manager, Resource
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually, is_empty

PAGE = (ROOT / "docs" / "runtime" / "examples.md").read_text()
EXAMPLES = dict(re.findall(r"^## (\d+)\. .*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
EVENTS = Resource(group="", version="v1", kind="Event", plural="events", namespaced=True)
BOATS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


class Example:
    """A manager that does what one example declares, in one namespace."""

    def __init__(self, config: ClusterConfig, namespace: str) -> None:
        self.namespace = namespace
        self.manager = quiet_manager(config, namespace=namespace, field_manager="example", user_agent="example.com/it")
        self.names: dict[str, Any] = {}

    def declares(self, number: int, **arguments: Any) -> AbstractAsyncContextManager[Manager]:
        """Run the code of an example, and the manager for the length of a block."""
        exec(EXAMPLES[str(number)], self.names)
        self.names["declare"](self.manager, **arguments)
        return running(self.manager)

    async def config_map(self, name: str, labels: dict[str, str], /, **data: str) -> Document:
        meta = {"name": name, "namespace": self.namespace, "labels": labels}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        return await self.manager.client.create(document, kind=ConfigMap.RESOURCE)

    async def config_maps(self) -> list[str]:
        found = (await self.manager.client.list(ConfigMap, self.namespace)).items
        return [one.name for one in found if one.name != "kube-root-ca.crt"]

    async def events(self) -> list[str]:
        return [one["message"] for one in (await self.manager.client.list(EVENTS, self.namespace)).items]


@pytest.fixture
async def example(config: ClusterConfig, namespace: str) -> Example:
    return Example(config, namespace)


def test_there_are_ten_of_ten_to_thirty_lines() -> None:
    assert [*EXAMPLES] == [str(number) for number in range(1, 11)]
    lengths = {number: len(text.splitlines()) for number, text in EXAMPLES.items()}
    # A configuration of webhooks alone takes a dozen.
    assert all(10 <= length <= (38 if number == "10" else 30) for number, length in lengths.items()), lengths


async def test_an_object_becomes_others(example: Example) -> None:
    async with example.declares(1) as manager:
        await example.config_map("shop", {"web": "yes"})
        await eventually(lambda: manager.cache.get(Service, "shop"))
        await manager.client.patch(Service, "shop", example.namespace, {"spec": {"selector": {"app": "other"}}})

        async def selector() -> object:
            live = await manager.client.get(Service, "shop", example.namespace)
            return live.spec.selector if live.spec is not None else None

        await eventually(selector, equals({"app": "shop"}))


async def test_a_kind_of_your_own(example: Example, control_plane: ControlPlane) -> None:
    control_plane.apply(BOATS)

    async def served() -> object:
        return await example.manager.client.list(boat, example.namespace)

    boat = Resource(group="example.com", version="v1", kind="Boat", plural="boats", namespaced=True)
    await eventually(served, ignore=(Exception,))
    async with example.declares(2) as manager:
        document = {
            "apiVersion": "example.com/v1",
            "kind": "Boat",
            "metadata": {"name": "a", "namespace": example.namespace},
            "spec": {"crew": 3},
        }
        await manager.client.create(document, kind=boat)
        await eventually(lambda: (manager.cache.get(boat, "a") or {}).get("status"), equals({"seats": 6}))


async def test_clean_up(example: Example) -> None:
    async with example.declares(3) as manager:
        await example.config_map("mine", {"bucket": "yes"})
        buckets: set[str] = example.names["BUCKETS"]
        await eventually(lambda: buckets, contains("mine"))
        live = await manager.client.get(ConfigMap, "mine", example.namespace)
        assert live.metadata is not None
        assert live.metadata.finalizers == ["example.com/bucket"]
        await manager.client.delete(ConfigMap, "mine", example.namespace)
        await eventually(example.config_maps, is_empty)
        assert buckets == set()


async def test_events(example: Example) -> None:
    async with example.declares(4):
        await example.config_map("greeting", {"greet": "yes"}, name="Ada")
        await eventually(example.events, equals(["Hello, Ada!"]))


async def test_look_again(example: Example) -> None:
    async with example.declares(5):
        await example.config_map("stays", {"expires": "yes"}, seconds="3600")
        await example.config_map("goes", {"expires": "yes"}, seconds="0.5")
        await eventually(example.config_maps, equals(["stays"]))


async def test_follow_others(example: Example) -> None:
    def counted() -> str:
        found = manager.cache.get(ConfigMap, "counter")
        metadata = found.metadata if found is not None else None
        return ((metadata.annotations if metadata is not None else None) or {}).get("example.com/secrets", "")

    async with example.declares(6) as manager:
        await example.config_map("counter", {"counts": "yes"})
        await eventually(counted, equals("0"))
        meta = {"name": "s", "namespace": example.namespace}
        await manager.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta}, kind=Secret)
        await eventually(counted, equals("1"))


async def test_find_by_an_index(example: Example) -> None:
    async with example.declares(7) as manager:
        await example.config_map("first", {"host": "yes"}, host="a.example.com")
        await eventually(lambda: manager.cache.get(ConfigMap, "first"))
        await example.config_map("second", {"host": "yes"}, host="a.example.com")
        await eventually(example.events, contains("a.example.com belongs to first"))


async def test_keys_from_your_own_code(config: ClusterConfig) -> None:
    example = Example(config, "default")
    async with example.declares(8) as manager:

        async def rang() -> Any:
            return (await manager.client.get(ConfigMap, "bell", "default")).data

        try:
            await eventually(rang, equals({"rang": "yes"}), ignore=(Exception,))
        finally:
            await manager.client.delete(ConfigMap, "bell", "default")


async def test_failures_and_their_delays(example: Example, caplog: pytest.LogCaptureFixture) -> None:
    async def accounts() -> list[str]:
        return [one.name for one in (await example.manager.client.list(ServiceAccount, example.namespace)).items]

    async with example.declares(9) as manager:
        await example.config_map("wrong", {"account": "yes"})
        await eventually(lambda: caplog.text, contains("data.account is not set"))
        await example.config_map("robot", {"account": "yes"}, account="robot")
        await eventually(accounts, contains("robot"))
        await example.config_map("waits", {"account": "yes"}, account="robot")
        (controller,) = manager.controllers
        await eventually(lambda: controller.statistics().queue.delayed)
        await manager.client.delete(ConfigMap, "robot", example.namespace)
        await manager.client.delete(ServiceAccount, "robot", example.namespace)
        await eventually(accounts, contains("robot"))


async def test_admission(example: Example) -> None:
    async def refused() -> str:
        try:
            await example.config_map("empty", {"checked": "yes"}, name="")
        except Forbidden as error:
            return error.message
        await example.manager.client.delete(ConfigMap, "empty", example.namespace)
        return ""

    async with example.declares(10, url=f"https://127.0.0.1:{free_port()}"):
        await eventually(refused, contains("data.name: must not be empty"))
        await example.config_map("full", {"checked": "yes"}, name="x")
