# SPDX-License-Identifier: Apache-2.0
"""The status of an object is never written to another one of the same name, against a script."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from trainwright.api.base import Resource
from trainwright.api.objects import Document
from trainwright.controller.runtime.apply.applier import STATUS_ATTEMPTS, Action, Applier
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Conflict, NotFound
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import (
    ScriptedTransport,
    is_list,
    is_watch,
    is_write,
    listing,
    status_body,
)

WEB = Resource(group="example.com", version="v1", kind="Web", plural="webs", namespaced=True)
WANTED = {
    "apiVersion": "example.com/v1",
    "kind": "Web",
    "metadata": {"name": "w", "namespace": "n"},
    "status": {"a": 1},
}
FOREVER = float("inf")


def web(version: str, uid: str = "u1", **fields: Any) -> Document:
    metadata = {"name": "w", "namespace": "n", "uid": uid, "resourceVersion": version}
    return {"apiVersion": "example.com/v1", "kind": "Web", "metadata": metadata, **fields}


def is_get(request: Request) -> bool:
    return is_list(request) and request.path.endswith("/w")


class World:
    """An applier, and what it sent."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport()
        self.client = Client(self.transport)
        self.cache = Cache(self.client, streaming=False)
        self.client.observe_writes(self.cache)
        self.applier = Applier(self.client, self.cache, field_manager="op")

    def refuses(self, times: float = 1) -> None:
        self.transport.answer(is_write, status_body(409, "Conflict"), status=409, times=times)

    def sent(self) -> list[Document]:
        return [msgspec.json.decode(r.body or b"")["metadata"] for r in self.transport.requests if is_write(r)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.transport.answer(lambda r: is_list(r) and not is_get(r), listing("10", web("9")))
        self.transport.stream(is_watch)
        self.cache.informer(WEB)
        task = asyncio.ensure_future(self.cache.run())
        await settle()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@jumping
async def test_the_status_is_sent_for_the_version_that_the_cache_shows() -> None:
    world = World()
    async with world.running():
        world.transport.answer(is_write, web("11", status={"a": 1}))
        applied = await world.applier.apply_status(WANTED)
        assert applied.action is Action.CHANGED
        assert world.sent() == [{"name": "w", "namespace": "n", "resourceVersion": "9"}]
        assert (await world.applier.apply_status(WANTED)).action is Action.UNCHANGED
        assert len(world.sent()) == 1


@pytest.mark.parametrize(
    ("found", "error"), [(lambda: web("50", "u2"), Conflict), (None, NotFound)], ids=["recreated", "deleted"]
)
def test_a_namesake_never_gets_the_status(found: Callable[[], Document] | None, error: type[Exception]) -> None:
    @jumping
    async def run() -> None:
        world = World()
        async with world.running():
            world.refuses()
            if found is not None:
                world.transport.answer(is_get, found())
            else:
                world.transport.answer(is_get, status_body(404, "NotFound"), status=404)
            with pytest.raises(error):
                await world.applier.apply_status(WANTED)
            assert len(world.sent()) == 1

    run()


@jumping
async def test_a_status_that_was_made_for_another_uid_is_not_sent() -> None:
    world = World()
    async with world.running():
        with pytest.raises(Conflict, match="replaced by another one"):
            await world.applier.apply_status({**WANTED, "metadata": {**WANTED["metadata"], "uid": "u0"}})  # type: ignore[dict-item]
        assert world.sent() == []


@jumping
async def test_a_change_by_others_is_read_and_written_again() -> None:
    world = World()
    async with world.running():
        world.refuses()
        world.transport.answer(is_get, web("12"))
        world.transport.answer(is_write, web("13", status={"a": 1}))
        applied = await world.applier.apply_status(WANTED)
        assert applied.action is Action.CHANGED
        assert [one["resourceVersion"] for one in world.sent()] == ["9", "12"]


@jumping
async def test_an_object_that_always_changes_ends_in_a_conflict() -> None:
    world = World()
    async with world.running():
        world.refuses(FOREVER)
        world.transport.answer(is_get, web("12"), times=FOREVER)
        with pytest.raises(Conflict):
            await world.applier.apply_status(WANTED)
        assert len(world.sent()) == STATUS_ATTEMPTS
