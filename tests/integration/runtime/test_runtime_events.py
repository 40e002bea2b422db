# SPDX-License-Identifier: Apache-2.0
"""Events on a real API server."""

import asyncio
from typing import Any

from tests.integration.runtime.conftest import quiet_manager
from trainwright.api.kubernetes.core.v1 import ConfigMap, Namespace
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.testing.waiting import eventually


async def about(client: Client, name: str, namespace: str) -> list[Event]:
    """The events regarding an object."""
    return [e for e in (await client.list(Event, namespace)).items if e.regarding and e.regarding.name == name]


async def test_events_of_a_manager(config: ClusterConfig, namespace: str, client: Client) -> None:
    manager = quiet_manager(config)
    recorder = EventRecorder(manager.client, "example.com/web")
    manager.add(recorder, Group.SERVERS, "events")
    document: dict[str, Any] = {"metadata": {"name": "shop", "namespace": namespace}}
    stored = await client.create(document, kind=ConfigMap.RESOURCE)

    class Last:
        """Work that records even while it ends."""

        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                recorder.event(stored, "Normal", "Stopped", "the last word")

    manager.add(Last(), Group.OTHERS)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(manager.run())
        await manager.wait_ready()
        recorder.event(stored, "Warning", "Failed", "100%s of {this}\n" + "ü" * 2000, action="Trying")
        await eventually(recorder.statistics, lambda found: found.created == 1, what="the event is created")
        for _ in range(3):
            recorder.event(stored, "Warning", "Failed", "100%s of {this}\n" + "ü" * 2000, action="Trying")
        await eventually(recorder.statistics, lambda found: found.patched == 1, what="the repetition is patched")
        whole = await client.get(Namespace, namespace)
        recorder.event(whole, "Normal", "Seen", "an object without namespace")
        recorder.event({**stored, "metadata": {**stored["metadata"], "name": "n" * 253}}, "Normal", "Long", "a name")
        manager.stop()
        await running
    found = {event.reason: event for event in await about(client, "shop", namespace)}
    assert set(found) == {"Failed", "Stopped"}
    failed = found["Failed"]
    assert failed.series is not None
    assert failed.series.count == 4
    assert (failed.note or "").startswith("100%s of {this}\nü")
    assert failed.regarding is not None
    assert failed.regarding.uid == stored["metadata"]["uid"]
    assert [e.reason for e in await about(client, namespace, "default")] == ["Seen"]
    assert [e.reason for e in await about(client, "n" * 253, namespace)] == ["Long"]
    assert recorder.statistics().failed == 0


async def test_event_that_cannot_be_written_costs_nobody_anything(config: ClusterConfig, client: Client) -> None:
    recorder = EventRecorder(client, "example.com/web")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(recorder.run())
        gone = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "no-such-namespace"}}
        recorder.event(gone, "Normal", "Lost", "its namespace is gone")
        await eventually(recorder.statistics, lambda found: found.failed == 1, what="it is given up")
        recorder.request_stop()
