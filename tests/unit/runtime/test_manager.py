# SPDX-License-Identifier: Apache-2.0
"""A manager: probes, metrics, statistics, and its messages."""

import asyncio
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import ClusterConfig, Done, Key, Manager, ProcessSettings, Result, ServerSettings
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.lag import LoopLag
from trainwright.controller.runtime.servers.addresses import parse_address
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, is_list, is_watch, listing
from trainwright.controller.runtime.testing.waiting import at_least, equals, eventually

CONFIG = ClusterConfig(server="http://127.0.0.1:1")


def made(transport: ScriptedTransport, **options: Any) -> Manager:
    servers = ServerSettings(metrics="127.0.0.1:0", probes="127.0.0.1:0", debug="127.0.0.1:0")
    return Manager(CONFIG, transport=transport, servers=servers, **options)


class HeldLists(ScriptedTransport):
    """Its lists wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if is_list(request):
            await self.go_on.wait()
        return await super().send(request)


async def done(_: Key) -> Result:
    return Done()


async def fetch(manager: Manager, server: str, path: str) -> tuple[int, str]:
    port = manager.servers[server].port
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_probes_metrics_and_statistics() -> None:
    transport = HeldLists()
    transport.answer(is_list, listing("10", config_map("a", version="1")))
    transport.stream(is_watch)
    manager = made(transport, process=ProcessSettings(streaming_lists=False), field_manager="x")
    manager.controller("maps").for_(ConfigMap).reconcile(done, workers=3)
    manager.readyz.add("never", lambda: "not today")
    task = asyncio.ensure_future(manager.run())
    await manager.servers["probes"].listening.wait()
    assert await fetch(manager, "probes", "/healthz") == (200, "ok")
    code, text = await fetch(manager, "probes", "/readyz")
    assert code == 500
    assert "[-]caches failed" in text
    assert "not today" not in text
    transport.go_on.set()
    await manager.wait_ready()
    assert await fetch(manager, "probes", "/readyz?exclude=never") == (200, "ok")
    assert await fetch(manager, "probes", "/readyz/caches") == (200, "ok")
    assert (await fetch(manager, "probes", "/readyz/never"))[0] == 500
    assert (await fetch(manager, "probes", "/readyz/none"))[0] == 404
    code, text = await fetch(manager, "probes", "/healthz?verbose")
    assert "[+]event-loop ok" in text
    await eventually(lambda: manager.controllers[0].statistics().queue.handed_out, equals(1))
    read = samples((await fetch(manager, "metrics", "/metrics"))[1])
    assert read["controller_runtime_reconcile_total", ("maps", "success")] == 1
    for outcome in ("error", "requeue", "requeue_after"):
        assert read["controller_runtime_reconcile_total", ("maps", outcome)] == 0
    for name in ("errors", "panics", "timeouts"):
        assert read[f"controller_runtime_reconcile_{name}_total", ("maps",)] == 0
    assert read["controller_runtime_terminal_reconcile_errors_total", ("maps",)] == 0
    assert read["controller_runtime_max_concurrent_reconciles", ("maps",)] == 3
    assert read["controller_runtime_reconcile_time_seconds_count", ("maps",)] == 1
    assert read["workqueue_adds_total", ("maps", "maps")] == 1
    assert read["workqueue_depth", ("maps", "maps", "0")] == 0
    assert read["workqueue_queue_duration_seconds_count", ("maps", "maps")] == 1
    assert read["informer_synced", ("ConfigMap", "all namespaces")] == 1
    assert read["informer_objects", ("ConfigMap", "all namespaces")] == 1
    assert read["rest_client_requests_total", ("200", "127.0.0.1:1", "GET")] == 2
    assert "process_resident_memory_bytes" in {name for name, _ in read}
    code, text = await fetch(manager, "debug", "/debug/statistics")
    assert code == 200
    assert '"kind": "ConfigMap"' in text
    manager.stop()
    await task


async def test_names_of_controllers_are_unique() -> None:
    manager = made(ScriptedTransport())
    manager.controller("x").for_(ConfigMap).reconcile(done)
    with pytest.raises(ConfigurationError, match="'x' exists already"):
        manager.controller("x").for_(ConfigMap).reconcile(done)


async def test_a_taken_port_is_named() -> None:
    blocker = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = blocker.sockets[0].getsockname()[1]
    servers = ServerSettings(metrics=f"127.0.0.1:{port}", probes=None)
    manager = Manager(CONFIG, transport=ScriptedTransport(), servers=servers)
    said = f"^metrics: cannot listen on 127.0.0.1:{port}: Address already in use$"
    with pytest.raises(ConfigurationError, match=said):
        await manager.run()
    blocker.close()
    await blocker.wait_closed()


def test_addresses() -> None:
    assert parse_address(":8080") == ("", 8080)
    assert parse_address("[::1]:80") == ("::1", 80)
    for wrong in ("8080", "host", "host:port", "host:70000"):
        with pytest.raises(ConfigurationError, match="is not an address"):
            parse_address(wrong)


async def test_a_blocked_loop_is_seen_from_outside(caplog: pytest.LogCaptureFixture) -> None:
    # Longer than a busy machine keeps the loop waiting, which would be a stall of its own.
    lag = LoopLag(stall=0.5)
    task = asyncio.ensure_future(lag.run())
    await eventually(lambda: lag.worst >= 0 and lag._thread_id)
    block_until(lambda: lag.stalls)
    await eventually(lambda: lag.worst, at_least(0.1))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lag.stalls == 1
    assert "block_until" in caplog.text


async def test_a_loop_that_is_no_longer_measured_is_not_blocked() -> None:
    """Leader election runs on while servers stop, which may take long."""
    lag = LoopLag()
    task = asyncio.ensure_future(lag.run())
    await eventually(lambda: lag._thread_id)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert lag.silence() < 0


def block_until(condition: Any) -> None:
    """Keep the loop busy, as a reconciler that computes would."""
    while not condition():
        pass
