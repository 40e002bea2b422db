# SPDX-License-Identifier: Apache-2.0
"""A manager behind a fault proxy in front of a real API server: the cache must stay correct."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.integration.runtime.conftest import quiet_manager, running
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import resource_version_of
from trainwright.controller.runtime import Client, ClusterConfig, Done, Key, Manager, ProcessSettings, Result
from trainwright.controller.runtime.cache import reflector
from trainwright.controller.runtime.errors import ConnectionLost, ServerError
from trainwright.controller.runtime.testing.fault_proxy import Fault, FaultProxy, is_read, is_watch, is_write
from trainwright.controller.runtime.testing.settle import settle_manager
from trainwright.controller.runtime.testing.waiting import equals, eventually, has_length


class Seen:
    """A controller that notes at which version it saw each object."""

    def __init__(self, manager: Manager, namespace: str) -> None:
        self.manager = manager
        self.versions: dict[str, str] = {}
        manager.controller("seen").for_(ConfigMap, namespace=namespace).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        obj = self.manager.cache.get(ConfigMap, key.name, key.namespace)
        if obj is None:
            self.versions.pop(key.name, None)
        else:
            self.versions[key.name] = resource_version_of(obj)
        return Done()


@asynccontextmanager
async def behind(config: ClusterConfig, namespace: str) -> AsyncIterator[tuple[FaultProxy, Manager, Seen]]:
    async with FaultProxy(config) as proxy:
        manager = quiet_manager(proxy.config)
        seen = Seen(manager, namespace)
        async with running(manager):
            await eventually(lambda: proxy.open_watches, equals(1))
            yield proxy, manager, seen


async def put(client: Client, namespace: str, name: str, value: str) -> None:
    obj = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"k": value})
    await client.apply(obj, field_manager="outside", force=True)


async def agreed(manager: Manager, seen: Seen, client: Client, namespace: str) -> None:
    await settle_manager(manager, client=client)
    listed = await client.list(ConfigMap, namespace)
    assert seen.versions == {o.name: resource_version_of(o) for o in listed.items}


@pytest.mark.parametrize("how", ["cut", "cut inside a frame", "expired", "silent"])
async def test_nothing_is_missed_when_watches_break(
    config: ClusterConfig, client: Client, namespace: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = reflector.IDLE_SECONDS
    if how == "silent":
        # Silence is believed for two seconds instead of two and a half minutes, so that the test can wait for it.
        monkeypatch.setattr(reflector, "IDLE_SECONDS", 2.0)
    async with behind(config, namespace) as (proxy, manager, seen):
        for n in range(5):
            await put(client, namespace, f"a{n}", "1")
        await eventually(lambda: seen.versions, has_length(5))
        if how == "expired":
            assert await proxy.expire_watches() == 1
        elif how == "silent":
            assert proxy.silence_watches() == 1
        else:
            assert proxy.cut_watches(inside_a_frame=how.endswith("frame")) == 1
        for n in range(3, 8):
            await put(client, namespace, f"a{n}", "2")
        await client.delete(ConfigMap, "a0", namespace)
        await eventually(lambda: proxy.watches_opened, equals(2))
        # The watch that follows a silent one may be silent for as long, too: nothing more happens.
        monkeypatch.setattr(reflector, "IDLE_SECONDS", patience)
        await agreed(manager, seen, client, namespace)
        assert proxy.watches_opened == 2


async def test_reads_survive_a_server_in_trouble(config: ClusterConfig, client: Client, namespace: str) -> None:
    async with FaultProxy(config) as proxy:
        busy = proxy.add(
            Fault(is_watch, times=1, status=429, body=b"{}", headers={"Retry-After": "1", "Content-Type": "text/plain"})
        )
        broken = proxy.add(Fault(is_watch, times=1, status=500, body=b"oops"))
        also = proxy.add(Fault(is_read, times=1, refuse=True))
        manager = quiet_manager(proxy.config)
        seen = Seen(manager, namespace)
        async with running(manager):
            await put(client, namespace, "a", "1")
            await agreed(manager, seen, client, namespace)
            assert (busy.hit, broken.hit, also.hit) == (1, 1, 1)
            assert manager.cache.statistics()[0].failures >= 2


async def test_a_lost_write_is_not_repeated(config: ClusterConfig, client: Client, namespace: str) -> None:
    async with behind(config, namespace) as (proxy, manager, seen):
        lost = proxy.add(Fault(is_write, times=1, lose=True))
        with pytest.raises(ConnectionLost):
            await put(manager.client, namespace, "a", "1")
        assert lost.hit == 1
        await agreed(manager, seen, client, namespace)  # it had arrived: the watch tells
        assert list(seen.versions) == ["a"]
        failing = proxy.add(Fault(is_write, times=9, status=500, body=b"oops"))
        with pytest.raises(ServerError):
            await put(manager.client, namespace, "b", "1")
        assert failing.hit == 1
        slowed = proxy.add(Fault(is_write, status=429, headers={"Retry-After": "0"}))
        proxy.clear()
        proxy.add(slowed)
        await put(manager.client, namespace, "c", "1")
        assert slowed.hit == 1


async def test_a_stale_read_does_not_move_our_own_writes_back(
    config: ClusterConfig, client: Client, namespace: str
) -> None:
    """A relist that is answered from an old copy: what we wrote ourselves stays visible."""
    await put(client, namespace, "a", "old")
    async with FaultProxy(config) as proxy:
        manager = quiet_manager(proxy.config, process=ProcessSettings(streaming_lists=False, detect_mutation=True))
        seen = Seen(manager, namespace)
        async with running(manager):
            await eventually(lambda: proxy.open_watches, equals(1))
            proxy.silence_watches()
            await put(manager.client, namespace, "a", "new")
            version = resource_version_of(await client.get(ConfigMap, "a", namespace))
            cached = manager.cache.get(ConfigMap, "a", namespace)
            assert cached is not None
            assert cached.data == {"k": "new"}
            assert resource_version_of(cached) == version
            proxy.cut_watches()
            await agreed(manager, seen, client, namespace)
