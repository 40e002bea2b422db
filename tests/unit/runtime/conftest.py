# SPDX-License-Identifier: Apache-2.0
"""A client, a cache and a scripted transport, shared by tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import resource_version_of
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.cache.store import Event
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.testing.clock import settle
from trainwright.controller.runtime.testing.scripted import ScriptedTransport


class Scenario:
    """A cache on a scripted transport, and what its handlers were told."""

    def __init__(self, *, streaming: bool = False, **options: Any) -> None:
        self.transport = ScriptedTransport()
        self.client = Client(self.transport, user_agent="scenario")
        self.cache = Cache(self.client, streaming=streaming, **options)
        self.client.observe_writes(self.cache)
        self.told: list[str] = []
        self.events: list[Event[Any]] = []

    def informer(self, kind: Any = ConfigMap, **options: Any) -> Informer:
        informer = self.cache.informer(kind, **options)
        informer.add_handler(self.note)
        return informer

    def note(self, event: Event[Any]) -> None:
        old = resource_version_of(event.old) if event.old is not None else "-"
        new = resource_version_of(event.new) if event.new is not None else "-"
        flags = "!" * event.initial + "?" * event.last_known
        self.told.append(f"{event.type.lower()} {event.key.name} {old}>{new}{flags}")
        self.events.append(event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.cache.run())
        await settle()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def queries(self) -> list[dict[str, str | tuple[str, ...]]]:
        return [{k: v for k, v in r.query.items() if k != "timeoutSeconds"} for r in self.transport.requests]


@pytest.fixture(name="scenario_class")
def _scenario_class() -> type[Scenario]:
    return Scenario
