# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions that are deleted while finalizers hold their objects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.custom import CLEANUP
from trainwright.controller.local.apiserver.kinds.definitions import COLLECTION, Definitions
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore, StoredObject

GROUP, PLURAL = "test.example", "things"
DEFINITION = ObjectName("", f"{PLURAL}.{GROUP}")
THINGS, THING = f"{PLURAL}.{GROUP}", ObjectName("default", "a")
BEGIN = "2026-11-22T12:00:00Z"


class World:
    """Definitions over a store in memory."""

    def __init__(self) -> None:
        self.store = WatchfulStore()
        self.registry = ResourceRegistry()
        serve_built_in(self.registry, for_others=False)

    def define(self, uid: str, *, ends: bool = False) -> None:
        """Create the definition, or begin to delete it."""
        metadata: dict[str, Any] = {"name": DEFINITION.name, "uid": uid, "creationTimestamp": BEGIN, "generation": 1}
        status: dict[str, Any] = {}
        if ends:
            metadata |= {"deletionTimestamp": BEGIN, "finalizers": [CLEANUP]}
            why = {"reason": "InstanceDeletionPending", "message": "", "lastTransitionTime": BEGIN}
            status["conditions"] = [{"type": "Terminating", "status": "True", **why}]
        names = {"plural": PLURAL, "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        document = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
            "status": status,
        }
        self.store.write(COLLECTION, DEFINITION, document, self.definition)

    @property
    def definition(self) -> StoredObject | None:
        return self.store.get(COLLECTION, DEFINITION)

    def add_held(self) -> None:
        """Create an object with a finalizer."""
        metadata = {"name": THING.name, "namespace": THING.namespace, "uid": "t", "finalizers": ["test.example/x"]}
        self.store.write(THINGS, THING, {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": metadata}, None)

    def let_go(self) -> None:
        """The finalizer is gone, and the object with it."""
        found = self.store.get(THINGS, THING)
        assert found is not None
        assert found.document()["metadata"]["deletionTimestamp"]
        self.store.delete(THINGS, found)

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(Definitions(self.store, self.registry).run())
            await settled()
            yield
            running.cancel()


class WatchfulStore(ObjectStore):
    """Calls `on_gone` once the definition is deleted, and ends a loop that never waits: no limit of time can."""

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


async def settled() -> None:
    """Let everybody act on what has changed: a store in memory tells it at once."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_definition_that_is_made_again_at_once_is_another_one() -> None:
    world = World()
    async with world.runs():
        world.define("one")
        world.add_held()
        world.define("one", ends=True)
        await settled()
        world.store.on_gone = lambda: world.define("two")
        world.let_go()
        await settled()
        served = world.registry.find(GROUP, "v1", PLURAL)
        assert served is not None
        assert not served.ending


async def test_it_waits_for_objects_of_its_own_when_it_is_deleted_at_once() -> None:
    world = World()

    def again() -> None:
        world.store.on_gone = None
        world.define("two")
        world.add_held()
        world.define("two", ends=True)

    async with world.runs():
        world.define("one")
        world.add_held()
        world.define("one", ends=True)
        await settled()
        world.store.on_gone = again
        world.let_go()
        await settled()
        assert world.definition is not None
        world.let_go()
        await settled()
        assert world.definition is None


async def test_a_definition_that_was_being_deleted_goes_after_a_restart() -> None:
    world = World()
    async with world.runs():
        world.define("one")
        world.add_held()
        world.define("one", ends=True)
        await settled()
    async with world.runs():
        assert world.definition is not None
        world.let_go()
        await settled()
        assert world.definition is None
