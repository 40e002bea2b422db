# SPDX-License-Identifier: Apache-2.0
"""Own writes: reads show them at once, and their events are told from those of others."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ManagedFieldsEntry
from trainwright.api.objects import Key, key_of, resource_version_of, uid_of
from trainwright.controller.runtime.cache.store import InformerStore
from trainwright.controller.runtime.cache.transforms import pack
from trainwright.controller.runtime.context import Reconcile, current_reconcile
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import (
    frame,
    is_list,
    is_watch,
    is_write,
    listing,
    status_body,
)

KEY = Key("default", "a")


def prepared(scenario: Any, *objects: Any) -> Any:
    scenario.transport.answer(is_list, listing("10", *objects))
    stream = scenario.transport.stream(is_watch)
    scenario.cache.informer(ConfigMap).add_handler(scenario.note, controller="web")
    return stream


def as_controller(name: str) -> None:
    current_reconcile.set(Reconcile(name, KEY, "id"))


def version(scenario: Any) -> str | None:
    obj = scenario.cache.get(ConfigMap, "a", "default")
    return resource_version_of(obj) if obj is not None else None


def made(name: str, version: str, uid: str = "ours") -> ConfigMap:
    metadata = {"name": name, "namespace": "default", "resourceVersion": version, "uid": uid}
    return msgspec.convert({"metadata": metadata}, ConfigMap)


def test_an_object_that_was_made_and_deleted_while_the_watch_was_blind_is_told_to_be_gone() -> None:
    """Nothing but the next list can tell it: the changes between were forgotten."""
    store = InformerStore()
    assert [*store.replace([], {}, "10")] == []
    store.believe(made("a", "12"))
    store.believe(made("b", "13"))
    store.believe(made("c", "21"))
    store.believe(made("d", "14"))
    events = [*store.replace([made("b", "13"), made("d", "16", "theirs")], {}, "20")]
    told = [(event.type.name, event.key.name, event.old and uid_of(event.old)) for event in events]
    assert told == [("DELETED", "a", "ours"), ("ADDED", "b", None), ("MODIFIED", "d", "ours")]
    assert {key_of(obj).name for obj in store.list()} == {"b", "c", "d"}, "the list is older than the write of c"
    assert store.ahead == 1


STORIES = {
    "an answer is read at once, and its event is no news": "patch 12, shows 12, MODIFIED 11, shows 12, MODIFIED 12, "
    "MODIFIED 13, shows 13, told modified 1>11 modified 12>13, other 11 12 13",
    "an echo that overtakes its answer is recognised": "begin 12, MODIFIED 11, MODIFIED 12, shows 12, told, answered, "
    "told modified 1>11, other 11 12",
    "a write that fails hides nothing": "begin 409, MODIFIED 12, told, answered, shows 12, told modified 1>12",
    "a write that is cancelled hides nothing": "begin 12, MODIFIED 12, cancelled, told modified 1>12",
    "a deleted object is gone at once": "deleted, shows -, MODIFIED 11, shows -, DELETED 12, ADDED 13 next, shows 13, "
    "told modified 1>11 deleted 12>- added ->13",
    "an answer that the watch has passed is ignored": "begin 12, DELETED 14, answered, shows -",
}
"""What the controller `web` writes and what the watch shows, of an object that is at version 1: `begin` gets a version
or a code once it is `answered`; `told` are the events of `web` since the start, `other` those of another controller."""


class Story:
    """One object, one write at a time."""

    def __init__(self, s: Any) -> None:
        self.s, self.stream = s, prepared(s, config_map("a", version="1"))
        self.other: list[str] = []
        s.cache.informer(ConfigMap).add_handler(lambda e: self.other.append(resource_version_of(e.obj)), controller="o")
        self.write: asyncio.Future[Any]

    async def go_on(self, step: str, *words: str) -> None:
        if step in ("patch", "begin"):
            refused = words[0] == "409"
            body = status_body(409, "Conflict") if refused else config_map("a", version=words[0])
            late = {"delay": 5} if step == "begin" else {}
            self.s.transport.answer(is_write, body, status=409 if refused else 200, **late)
            self.write = asyncio.ensure_future(self.s.client.patch(ConfigMap, "a", "default", {}))
            await (asyncio.sleep(1) if step == "begin" else self.write)
        elif step in ("answered", "cancelled"):
            if step == "cancelled":
                self.write.cancel()
            await asyncio.gather(self.write, return_exceptions=True)
        elif step == "deleted":
            self.s.transport.answer(is_write, {"kind": "Status", "status": "Success", "details": {"uid": "uid-a"}})
            assert await self.s.client.delete(ConfigMap, "a", "default") is None
            assert self.s.cache.list(ConfigMap) == []
        elif step == "shows":
            assert (version(self.s) or "-") == words[0]
        elif step == "told":
            assert [word for line in self.s.told for word in line.split() if word != "a"] == [*words]
        elif step == "other":
            assert self.other == [*words]
        else:
            self.stream.send(frame(step, config_map("a", version=words[0], uid=["uid-a", *words[1:]][-1])))
            await settle()


@pytest.mark.parametrize("name", STORIES)
@jumping
async def test_own_writes_and_their_events(scenario_class: Any, name: str) -> None:
    story = Story(scenario_class())
    as_controller("web")
    async with story.s.running():
        story.s.told.clear()
        story.other.clear()
        for step in STORIES[name].split(", "):
            await story.go_on(*step.split())
        assert story.s.cache.informer(ConfigMap).store.ahead == 0


def applied(version: str, second: int) -> Any:
    """As after an apply that changed something at that second."""
    entry = {"manager": "m", "operation": "Apply", "time": f"2026-01-01T00:00:{second:02}Z", "fieldsV1": {}}
    made = config_map("a", version=version)
    made["metadata"]["managedFields"] = [entry]
    return made


@pytest.mark.parametrize("in_flight", [True, False], ids=["before the answer", "after the answer"])
@pytest.mark.parametrize(("second", "told"), [(30, []), (1, ["modified a 9>12"])], ids=["effective", "without effect"])
@jumping
async def test_apply_without_effect_has_no_echo(
    scenario_class: Any, second: int, told: list[str], in_flight: bool
) -> None:
    """It is answered with the version of a change by somebody else, which the controller has to see."""
    s = scenario_class(field_manager="m")
    stream = prepared(s, applied("9", 1))
    as_controller("web")
    async with s.running():
        s.told.clear()
        s.transport.answer(is_write, applied("12", second), delay=5 if in_flight else 0)
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        write = asyncio.ensure_future(s.client.apply(wanted, kind=ConfigMap, field_manager="m", force=True))
        await (asyncio.sleep(1) if in_flight else write)
        stream.send(frame("MODIFIED", applied("12", second)))
        await settle()
        await write
        await settle()
        assert version(s) == "12"
    assert s.told == told


@jumping
async def test_an_answer_before_the_first_list_is_read_at_once(scenario_class: Any) -> None:
    """The list may be older."""
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="9")), delay=5)
    s.transport.stream(is_watch)
    s.cache.informer(ConfigMap)
    run = asyncio.ensure_future(s.cache.run())
    await asyncio.sleep(1)
    s.transport.answer(is_write, config_map("a", version="12"))
    await s.client.patch(ConfigMap, "a", "default", {})
    await s.cache.wait_synced()
    assert version(s) == "12"
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


def test_deletion_without_a_uid_hides_no_successor() -> None:
    store = InformerStore()
    store.replace([config_map("a", version="1", uid="old")], {}, "1")
    store.remove(KEY, None, "5")
    store.put(config_map("a", version="6", uid="new"))
    store.believe_deleted(KEY, "")
    assert store.get(KEY) is not None


@jumping
async def test_echo_is_not_decoded_again(scenario_class: Any) -> None:
    s = scenario_class()
    stream = prepared(s, config_map("a", version="1"))
    store = s.cache.informer(ConfigMap).store
    async with s.running():
        s.transport.answer(is_write, config_map("a", version="12", data={"k": "new"}))
        await s.client.patch(ConfigMap, "a", "default", {"data": {"k": "new"}})
        answered = s.cache.get(ConfigMap, "a", "default")
        # Another object, and another state of this one, are decoded.
        stream.send(frame("ADDED", config_map("b", version="11")), frame("MODIFIED", config_map("a", version="11")))
        stream.send(frame("MODIFIED", config_map("a", version="12", data={"k": "new"})))
        await settle()
        assert store.ahead == 0
        assert s.cache.get(ConfigMap, "a", "default") is answered
        stream.send(frame("MODIFIED", config_map("a", version="13")))
        await settle()
        assert version(s) == "13"
    assert s.told[-3:] == ["modified a 1>11", "modified a 11>12", "modified a 12>13"]


@jumping
async def test_a_finalizer_keeps_a_deleted_object_in_sight(scenario_class: Any) -> None:
    s = scenario_class()
    prepared(s, config_map("a", version="1"))
    async with s.running():
        dying = config_map("a", version="12", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
        s.transport.answer(is_write, dying)
        left = await s.client.delete(ConfigMap, "a", "default")
        assert left is not None
        assert s.cache.get(ConfigMap, "a", "default").metadata.deletion_timestamp


@jumping
async def test_what_leaves_the_selector_is_not_shown(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(is_watch)
    s.cache.informer(ConfigMap, label_selector="web=yes")
    async with s.running():
        s.transport.answer(is_write, config_map("a", version="12"))
        await s.client.patch(ConfigMap, "a", "default", {})
        assert version(s) is None


@jumping
async def test_plain_dictionaries_are_covered_like_models(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(is_watch)
    s.cache.informer(ConfigMap.RESOURCE)
    async with s.running():
        s.transport.answer(is_write, config_map("a", version="12"))
        await s.client.create(config_map("a"), kind=ConfigMap.RESOURCE)
        assert s.cache.get(ConfigMap.RESOURCE, "a", "default")["metadata"]["resourceVersion"] == "12"


# One object's life on a server: each step is one version. Our writes are some of the steps, and what they were answered
# arrives at any moment, before or after the watch shows it.
LIVES = st.lists(st.sampled_from(["foreign", "ours", "delete", "our-delete"]), min_size=1, max_size=12)


class Life:
    """The events of one object, and which of them answer a write of ours."""

    def __init__(self, steps: list[str]) -> None:
        self.events: list[tuple[str, Any]] = []
        self.answers: list[tuple[int, str, Any]] = []
        self.exists, self.last = True, config_map("a", version="10", uid="u10")
        for at, step in enumerate(steps, start=11):
            if step.endswith("delete"):
                self.delete(at, ours=step == "our-delete")
            else:
                self.write(at, ours=step == "ours")

    def delete(self, at: int, *, ours: bool) -> None:
        if self.exists:
            gone = {**self.last, "metadata": {**self.last["metadata"], "resourceVersion": str(at)}}
            self.exists = False
            self.happen("DELETED", gone, "deleted" if ours else "", gone["metadata"]["uid"])

    def write(self, at: int, *, ours: bool) -> None:
        uid = self.last["metadata"]["uid"] if self.exists else f"u{at}"
        kind = "MODIFIED" if self.exists else "ADDED"
        self.exists, self.last = True, config_map("a", version=str(at), uid=uid)
        self.happen(kind, self.last, "written" if ours else "", self.last)

    def happen(self, kind: str, obj: Any, how: str, answer: Any) -> None:
        if how:
            self.answers.append((len(self.events), how, answer))
        self.events.append((kind, obj))


def hear(store: InformerStore, how: str, answer: Any) -> bool:
    return store.believe(answer) if how == "written" else store.believe_deleted(KEY, answer)


@settings(max_examples=300, deadline=None)
@given(steps=LIVES, data=st.data())
def test_the_store_ends_where_the_server_is(steps: list[str], data: st.DataObject) -> None:
    life = Life(steps)
    answers = life.answers
    store = InformerStore()
    list(store.replace([config_map("a", version="10", uid="u10")], {}, "10"))
    for index, (kind, obj) in enumerate(life.events):
        for early in [a for a in answers if a[0] >= index and data.draw(st.booleans())]:
            answers.remove(early)
            hear(store, *early[1:])
        version = resource_version_of(obj)
        event = store.remove(key_of(obj), obj, version) if kind == "DELETED" else store.put(obj)
        store.resource_version = version
        assert kind == "DELETED" or (event is not None and event.new is obj)
        seen = store.get(KEY)
        assert seen is None or kind == "DELETED" or int(resource_version_of(seen)) >= int(version)
    for _, how, answer in answers:  # answers that come after the watch has shown everything
        assert not hear(store, how, answer) or how == "deleted"
    assert store.ahead == 0
    seen = store.get(KEY)
    assert (resource_version_of(seen) if seen else None) == (resource_version_of(life.last) if life.exists else None)


@jumping
async def test_other_representations_show_the_answer_too(scenario_class: Any) -> None:
    s = scenario_class()
    for kind in (ConfigMap, ConfigMap.RESOURCE, MetadataOnly(ConfigMap)):
        s.transport.answer(is_list, listing("10"))
        s.transport.stream(is_watch)
        s.cache.informer(kind)
    async with s.running():
        s.transport.answer(is_write, config_map("a", version="12", data={"k": "v"}))
        await s.client.apply(config_map("a"), kind=ConfigMap.RESOURCE, field_manager="x")
        assert s.cache.get(ConfigMap, "a", "default").data == {"k": "v"}
        assert s.cache.get(ConfigMap.RESOURCE, "a", "default")["data"] == {"k": "v"}
        assert s.cache.get(MetadataOnly(ConfigMap), "a", "default").metadata.resource_version == "12"


def test_field_trees_are_kept_small_and_shared() -> None:
    def tree(uid: str) -> dict[str, Any]:
        return {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{uid}"}}': {}}}, "f:data": {"f:k": {}}}

    one, two = "01234567-89ab-cdef-0123-456789abcdef", "11111111-2222-3333-4444-555555555555"
    packed, other = pack(tree(one)), pack(tree(two))
    assert packed.unpack() == tree(one)
    assert other.unpack() == tree(two)
    assert packed.shape is other.shape
    entry = ManagedFieldsEntry(fields_v1=packed)
    assert entry.deepcopy().fields_v1 is packed
    assert msgspec.to_builtins(entry)
    assert pack(other) is other
    assert pack({}).unpack() == {}


@pytest.mark.parametrize(
    "key",
    [
        'k:{"uid":""}',
        'k:{"uid":"a"}',
        'k:{"uid":"a","name":"b"}',
        'k:{"uid":"{\\"uid\\":\\"x\\"}"}',
        'v:"\\u0000{"uid":"é\x00"}',
        'k:{"uid":"a"} k:{"uid":"b"}',
    ],
)
def test_any_field_tree_is_kept_as_it_is(key: str) -> None:
    tree: dict[str, Any] = {f"f:{key}": {key: {".": {}}}, "f:other": {}}
    assert pack(tree).unpack() == tree


@jumping
async def test_an_answer_that_cannot_be_shown_costs_the_writer_nothing(scenario_class: Any, caplog: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    stream = s.transport.stream(is_watch)

    def fails(obj: Any) -> Any:
        raise ValueError(f"no good: {key_of(obj)}")

    s.cache.informer(ConfigMap, transforms=[fails]).add_handler(s.note, controller="web", undecodable=True)
    as_controller("web")
    async with s.running():
        s.transport.answer(is_write, config_map("a", version="12"))
        assert resource_version_of(await s.client.create(config_map("a"), kind=ConfigMap.RESOURCE)) == "12"
        assert "cannot show the answer of a write" in caplog.text
        # Nothing of the write is left in flight: later events of others arrive.
        stream.send(frame("ADDED", config_map("a", version="12")), frame("MODIFIED", config_map("a", version="13")))
        await settle()
    assert s.told == ["modified a ->13"]
