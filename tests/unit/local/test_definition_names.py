# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions that want the same names, and watches of definitions that hold too much."""

from typing import Any

import pytest

from tests.unit.local.test_definitions import GROUP, World, settled
from trainwright.controller.local.apiserver.kinds.definitions import COLLECTION
from trainwright.controller.local.apiserver.store import ObjectName, objects


def definition(plural: str, kind: str, *, group: str = GROUP, **names: Any) -> dict[str, Any]:
    """A definition as it is created."""
    singular = plural.removesuffix("s")
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "uid": plural, "generation": 1},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": f"{kind}List", **names},
            "versions": versions,
        },
        "status": {},
    }


def write(world: World, document: dict[str, Any]) -> None:
    name = ObjectName("", document["metadata"]["name"])
    world.store.write(COLLECTION, name, document, world.store.get(COLLECTION, name))


def delete(world: World, plural: str) -> None:
    found = world.store.get(COLLECTION, ObjectName("", f"{plural}.{GROUP}"))
    assert found is not None
    world.store.delete(COLLECTION, found)


def conditions(world: World, plural: str) -> dict[str, str]:
    found = world.store.get(COLLECTION, ObjectName("", f"{plural}.{GROUP}"))
    assert found is not None
    return {one["type"]: one["status"] for one in found.document()["status"]["conditions"]}


ACCEPTED = {"NamesAccepted": "True", "Established": "True"}
REFUSED = {"NamesAccepted": "False", "Established": "False"}


async def test_a_definition_gets_its_name_when_the_one_that_had_it_goes() -> None:
    world = World()
    async with world.runs():
        write(world, definition("firsts", "Same"))
        write(world, definition("seconds", "Same"))
        write(world, definition("thirds", "Same"))
        await settled()
        assert (conditions(world, "firsts"), conditions(world, "seconds")) == (ACCEPTED, REFUSED)
        assert world.registry.find(GROUP, "v1", "seconds") is None
        delete(world, "firsts")
        await settled()
        assert (conditions(world, "seconds"), conditions(world, "thirds")) == (ACCEPTED, REFUSED)
        assert world.registry.find(GROUP, "v1", "seconds") is not None
        delete(world, "seconds")
        await settled()
        assert conditions(world, "thirds") == ACCEPTED
        assert world.registry.find(GROUP, "v1", "thirds") is not None


async def test_it_gets_a_name_that_another_one_gave_up() -> None:
    world = World()
    async with world.runs():
        write(world, definition("firsts", "First", shortNames=["s"]))
        write(world, definition("seconds", "Second", shortNames=["s"]))
        await settled()
        assert conditions(world, "seconds") == REFUSED
        found = world.store.get(COLLECTION, ObjectName("", f"firsts.{GROUP}"))
        assert found is not None
        document = found.document()
        del document["spec"]["names"]["shortNames"]
        write(world, document)
        await settled()
        assert (conditions(world, "firsts"), conditions(world, "seconds")) == (ACCEPTED, ACCEPTED)


async def test_names_that_a_refused_one_held_are_free_after_it() -> None:
    world = World()
    async with world.runs():
        write(world, definition("firsts", "First"))
        write(world, definition("seconds", "First", singular="shared"))  # has its singular, not its kind
        write(world, definition("thirds", "Third", singular="shared"))
        await settled()
        assert conditions(world, "thirds") == REFUSED
        delete(world, "seconds")
        await settled()
        assert conditions(world, "thirds") == ACCEPTED


async def test_definitions_go_on_after_more_changes_than_a_watch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    async with world.runs():
        write(world, definition("olds", "Old"))
        await settled()
        monkeypatch.setattr(objects, "BACKLOG_BYTES", 2_000)
        for number in range(10):
            write(world, definition(f"{number}s", f"N{number}"))
        delete(world, "olds")
        await settled()
        monkeypatch.undo()
        assert world.registry.find(GROUP, "v1", "olds") is None
        assert all(world.registry.find(GROUP, "v1", f"{number}s") for number in range(10))


async def test_one_that_was_made_again_meanwhile_takes_new_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    async with world.runs():
        world.define("one")
        world.define("one", ends=True)
        await settled()
        world.define("two")
        monkeypatch.setattr(objects, "BACKLOG_BYTES", 10)
        document = definition("others", "Other")
        for uid in ("three", "four"):
            document["metadata"]["uid"] = uid
            write(world, document)
        monkeypatch.undo()
        await settled()
        served = world.registry.find(GROUP, "v1", "things")
        assert served is not None
        assert not served.ending


async def test_a_deleted_one_goes_after_more_changes_of_objects_than_a_watch_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    async with world.runs():
        world.define("one")
        world.add_held()
        world.define("one", ends=True)
        await settled()
        monkeypatch.setattr(objects, "BACKLOG_BYTES", 10)
        collection, held = f"things.{GROUP}", ObjectName("default", "a")
        for _ in range(3):
            found = world.store.get(collection, held)
            assert found is not None
            world.store.write(collection, held, found.document(), found)
        monkeypatch.undo()
        await settled()
        assert world.definition is not None
        world.let_go()
        await settled()
        assert world.definition is None
