# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: deleted while finalizers hold their objects, wanting one name, changing too often."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.definition_strategy import CLEANUP
from trainwright.controller.local.apiserver.kinds.definitions import COLLECTION, Definitions
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore, StoredObject, objects

GROUP = "test.example"
THINGS, THING = f"things.{GROUP}", ObjectName("default", "a")
BEGIN = "2026-11-22T12:00:00Z"
ACCEPTED = {"NamesAccepted": "True", "Established": "True"}
REFUSED = {"NamesAccepted": "False", "Established": "False"}


class WatchfulStore(ObjectStore):
    """Calls `on_gone` once a definition is deleted, and ends a loop that never waits: no limit of time can."""

    def __init__(self) -> None:
        super().__init__()
        self._reads = 0
        self.on_gone: Callable[[], None] | None = None

    def delete(self, collection: str, expected: StoredObject) -> StoredObject:
        last = super().delete(collection, expected)
        if collection == COLLECTION and self.on_gone is not None:
            self.on_gone()
        return last

    def get(self, collection: str, name: ObjectName) -> StoredObject | None:
        self._reads += 1
        assert self._reads < 10_000
        return super().get(collection, name)


class World:
    """Definitions over a store in memory."""

    def __init__(self) -> None:
        self.store = WatchfulStore()
        self.registry = ResourceRegistry()
        serve_built_in(self.registry, for_others=False)

    def define(self, plural: str, kind: str, *, uid: str = "", ends: bool = False, **names: Any) -> None:
        """Write a definition, or begin to delete it."""
        document: Document = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}", "uid": uid or plural, "generation": 1},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List", **names},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
                ],
            },
            "status": {},
        }
        if ends:
            document["metadata"] |= {"deletionTimestamp": BEGIN, "finalizers": [CLEANUP]}
            why = {"reason": "InstanceDeletionPending", "message": "", "lastTransitionTime": BEGIN}
            document["status"]["conditions"] = [{"type": "Terminating", "status": "True", **why}]
        self.store.write(COLLECTION, name_of(plural), document, self.definition(plural))

    def thing(self, uid: str, *, ends: bool = False) -> None:
        self.define("things", "Thing", uid=uid, ends=ends)

    def held_thing(self, uid: str) -> None:
        """A definition that is being deleted, with an object that a finalizer holds."""
        self.thing(uid)
        metadata = {"name": THING.name, "namespace": THING.namespace, "uid": "t", "finalizers": ["test.example/x"]}
        self.store.write(THINGS, THING, {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": metadata}, None)
        self.thing(uid, ends=True)

    async def let_go(self) -> None:
        """The finalizer is gone, and the object with it."""
        found = self.store.get(THINGS, THING)
        assert found is not None
        assert found.document()["metadata"]["deletionTimestamp"]
        self.store.delete(THINGS, found)
        await settled()

    def definition(self, plural: str = "things") -> StoredObject | None:
        return self.store.get(COLLECTION, name_of(plural))

    async def delete(self, plural: str) -> None:
        found = self.definition(plural)
        assert found is not None
        self.store.delete(COLLECTION, found)
        await settled()

    def served(self, plural: str = "things") -> Resource | None:
        return self.registry.find(GROUP, "v1", plural)

    def conditions(self, *plurals: str) -> list[dict[str, str]]:
        found = [one.document() for one in map(self.definition, plurals) if one is not None]
        return [{one["type"]: one["status"] for one in document["status"]["conditions"]} for document in found]

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(Definitions(self.store, self.registry).run())
            await settled()
            yield
            running.cancel()


def name_of(plural: str) -> ObjectName:
    return ObjectName("", f"{plural}.{GROUP}")


async def settled() -> None:
    """Let everybody act on what has changed: a store in memory tells it at once."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with made.runs():
        yield made


async def test_a_definition_that_is_made_again_at_once_is_another_one(world: World) -> None:
    world.held_thing("one")
    await settled()
    world.store.on_gone = lambda: world.thing("two")
    await world.let_go()
    served = world.served()
    assert served is not None
    assert not served.ending


async def test_it_waits_for_objects_of_its_own_when_it_is_deleted_at_once(world: World) -> None:
    def again() -> None:
        world.store.on_gone = None
        world.held_thing("two")

    world.held_thing("one")
    await settled()
    world.store.on_gone = again
    await world.let_go()
    assert world.definition() is not None
    await world.let_go()
    assert world.definition() is None


async def test_a_definition_that_was_being_deleted_goes_after_a_restart() -> None:
    world = World()
    async with world.runs():
        world.held_thing("one")
        await settled()
    async with world.runs():
        assert world.definition() is not None
        await world.let_go()
        assert world.definition() is None


async def test_a_definition_gets_its_name_when_the_one_that_had_it_goes(world: World) -> None:
    plurals = ("firsts", "seconds", "thirds")
    for plural in plurals:
        world.define(plural, "Same")
    await settled()
    assert world.conditions(*plurals) == [ACCEPTED, REFUSED, REFUSED]
    assert world.served("seconds") is None
    await world.delete("firsts")
    assert world.conditions(*plurals[1:]) == [ACCEPTED, REFUSED]
    assert world.served("seconds") is not None
    await world.delete("seconds")
    assert world.conditions("thirds") == [ACCEPTED]
    assert world.served("thirds") is not None


async def test_it_gets_a_name_that_another_one_gave_up(world: World) -> None:
    world.define("firsts", "First", shortNames=["s"])
    world.define("seconds", "Second", shortNames=["s"])
    await settled()
    assert world.conditions("seconds") == [REFUSED]
    world.define("firsts", "First")
    await settled()
    assert world.conditions("firsts", "seconds") == [ACCEPTED, ACCEPTED]


async def test_names_that_a_refused_one_held_are_free_after_it(world: World) -> None:
    world.define("firsts", "First")
    world.define("seconds", "First", singular="shared")  # has its singular, not its kind
    world.define("thirds", "Third", singular="shared")
    await settled()
    assert world.conditions("thirds") == [REFUSED]
    await world.delete("seconds")
    assert world.conditions("thirds") == [ACCEPTED]


async def test_definitions_go_on_after_more_changes_than_a_watch_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.define("olds", "Old")
    await settled()
    monkeypatch.setattr(objects, "BACKLOG_BYTES", 2_000)
    for number in range(10):
        world.define(f"{number}s", f"N{number}")
    await world.delete("olds")
    assert world.served("olds") is None
    assert all(world.served(f"{number}s") for number in range(10))


async def test_one_that_was_made_again_meanwhile_takes_new_objects(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.thing("one")
    world.thing("one", ends=True)
    await settled()
    world.thing("two")
    with monkeypatch.context() as few:
        few.setattr(objects, "BACKLOG_BYTES", 10)
        for uid in ("three", "four"):
            world.define("others", "Other", uid=uid)
    await settled()
    served = world.served()
    assert served is not None
    assert not served.ending


async def test_a_deleted_one_goes_after_more_changes_of_objects_than_a_watch_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.held_thing("one")
    await settled()
    with monkeypatch.context() as few:
        few.setattr(objects, "BACKLOG_BYTES", 10)
        for _ in range(3):
            found = world.store.get(THINGS, THING)
            assert found is not None
            world.store.write(THINGS, THING, found.document(), found)
    await settled()
    assert world.definition() is not None
    await world.let_go()
    assert world.definition() is None
