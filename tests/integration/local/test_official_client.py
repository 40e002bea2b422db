# SPDX-License-Identifier: Apache-2.0
"""The official Python client on the local API server: CRUD, its watch, and what its watch does with versions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.config
import kubernetes.watch
import pytest
from kubernetes.client.exceptions import ApiException

from trainwright.api.times import wall_clock
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime.testing.clock import ManualClock

# Their types say less than their documentation.
client: Any = kubernetes.client
config: Any = kubernetes.config
watch: Any = kubernetes.watch


@pytest.fixture
def clock() -> ManualClock[datetime]:
    """The server's: when it moves, the history of the server ages."""
    return ManualClock(wall_clock())


@pytest.fixture
async def server(tmp_path: Path, clock: ManualClock[datetime]) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path, memory=True, now=clock) as running:
        yield running


async def with_client(server: RunningServer, use: Callable[[Any], Any]) -> Any:
    """Run a function with the client in a thread: it blocks."""

    def run() -> Any:
        with config.new_client_from_config(str(server.kubeconfig)) as connection:
            try:
                return use(connection)
            finally:
                # The client keeps its connections; the server would wait for them when it ends.
                connection.rest_client.pool_manager.clear()

    return await asyncio.to_thread(run)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def refused(call: Callable[[], Any]) -> tuple[int, str]:
    """How a call fails. The exception is not kept: it holds the connection."""
    try:
        call()
    except ApiException as error:
        return int(error.status or 0), str(error.reason)
    return 200, ""


async def test_objects(server: RunningServer) -> None:
    def use(connection: Any) -> None:
        core = client.CoreV1Api(connection)
        made = core.create_namespaced_config_map("default", config_map("a", b="1"))
        assert made.metadata.uid
        assert core.patch_namespaced_config_map("a", "default", {"data": {"c": "2"}}).data == {"b": "1", "c": "2"}
        made.data = {"d": "3"}
        assert refused(lambda: core.replace_namespaced_config_map("a", "default", made)) == (409, "Conflict")
        assert [one.metadata.name for one in core.list_namespaced_config_map("default").items] == ["a"]
        core.delete_namespaced_config_map("a", "default")
        assert refused(lambda: core.read_namespaced_config_map("a", "default")) == (404, "Not Found")

    await with_client(server, use)


async def test_pages(server: RunningServer) -> None:
    def use(connection: Any) -> None:
        core = client.CoreV1Api(connection)
        for index in range(5):
            core.create_namespaced_config_map("default", config_map(f"a{index}"))
        first = core.list_namespaced_config_map("default", limit=2)
        assert first.metadata.remaining_item_count == 3
        rest = core.list_namespaced_config_map("default", limit=10, _continue=first.metadata._continue)
        assert [one.metadata.name for one in (*first.items, *rest.items)] == [f"a{index}" for index in range(5)]

    await with_client(server, use)


async def test_a_job_and_its_status(server: RunningServer) -> None:
    def use(connection: Any) -> None:
        batch = client.BatchV1Api(connection)
        pod = client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="c", image="i")])
        spec = client.V1JobSpec(template=client.V1PodTemplateSpec(spec=pod))
        batch.create_namespaced_job("default", client.V1Job(metadata=client.V1ObjectMeta(name="a"), spec=spec))
        batch.patch_namespaced_job_status("a", "default", {"status": {"active": 1}})
        found = batch.read_namespaced_job("a", "default")
        assert (found.spec.backoff_limit, found.status.active) == (6, 1)

    await with_client(server, use)


async def test_custom_objects(server: RunningServer) -> None:
    def use(connection: Any) -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        client.ApiextensionsV1Api(connection).create_custom_resource_definition(
            {
                "metadata": {"name": "gadgets.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "gadgets", "kind": "Gadget"},
                    "versions": [version],
                },
            }
        )
        custom = client.CustomObjectsApi(connection)
        where = ("example.com", "v1", "default", "gadgets")
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"x": 1}}
        custom.create_namespaced_custom_object(*where, gadget)
        assert custom.get_namespaced_custom_object(*where, "a")["spec"] == {"x": 1}
        seen = watch.Watch()
        events = seen.stream(custom.list_namespaced_custom_object, *where, timeout_seconds=1)
        assert [event["object"]["metadata"]["name"] for event in events] == ["a"]

    await with_client(server, use)


async def test_watch(server: RunningServer) -> None:
    """It goes on from the version where it stopped, so that nothing is missed or seen twice."""

    def use(connection: Any) -> None:
        core = client.CoreV1Api(connection)
        seen = watch.Watch()
        found = []
        listed = core.list_namespaced_config_map("default").metadata.resource_version
        core.create_namespaced_config_map("default", config_map("a"))
        # A timeout ends each request; without one in `stream` the watch asks again, from its last version.
        for event in seen.stream(core.list_namespaced_config_map, "default", resource_version=listed):
            found.append((event["type"], event["object"].metadata.name))
            if found[-1] == ("ADDED", "a"):
                core.patch_namespaced_config_map("a", "default", {"data": {"b": "1"}})
            elif found[-1][0] == "MODIFIED":
                core.delete_namespaced_config_map("a", "default")
            else:
                seen.stop()
        assert found == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
        core.create_namespaced_config_map("default", config_map("b"))
        resumed = seen.stream(
            core.list_namespaced_config_map, "default", resource_version=seen.resource_version, timeout_seconds=1
        )
        assert [(event["type"], event["object"].metadata.name) for event in resumed] == [("ADDED", "b")]

    await with_client(server, use)


async def test_a_version_that_is_gone(server: RunningServer, clock: ManualClock[datetime]) -> None:
    """The client's watch raises 410 for a version that the caller names: the caller lists again."""

    def prepare(connection: Any) -> str:
        core = client.CoreV1Api(connection)
        old: str = core.list_namespaced_config_map("default").metadata.resource_version
        for index in range(3):
            core.create_namespaced_config_map("default", config_map(f"a{index}"))
        return old

    old = await with_client(server, prepare)
    clock.now += timedelta(minutes=6)
    await server.server.store.compact()

    def use(connection: Any) -> None:
        core = client.CoreV1Api(connection)
        with pytest.raises(ApiException) as raised:
            list(
                watch.Watch().stream(
                    core.list_namespaced_config_map, "default", resource_version=old, timeout_seconds=1
                )
            )
        assert raised.value.status == 410
        assert "too old resource version" in str(raised.value.reason)

    await with_client(server, use)
