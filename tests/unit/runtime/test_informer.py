# SPDX-License-Identifier: Apache-2.0
"""Informers and cached reads against a script."""

import asyncio
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap, Node
from trainwright.api.objects import PartialObject, labels_of, managed_fields_of
from trainwright.controller.runtime.cache.store import Event
from trainwright.controller.runtime.errors import (
    ConfigurationError,
    DecodeError,
    NotCached,
    NotSynced,
    Unreachable,
)
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import (
    bookmark,
    frame,
    is_list,
    is_watch,
    listing,
    status_body,
)

FOREVER = float("inf")


@jumping
async def test_a_relist_tells_what_changed(scenario_class: Any) -> None:
    s = scenario_class()
    unchanged = config_map("same", version="1")
    s.transport.answer(is_list, listing("10", config_map("a", version="1"), config_map("b", version="1"), unchanged))
    first = s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        s.transport.answer(
            is_list,
            listing("20", config_map("a", version="15", uid="another"), config_map("c", version="16"), unchanged),
        )
        s.transport.stream(is_watch)
        s.told.clear()
        first.send(frame("ERROR", status_body(410, "Expired")))
        await asyncio.sleep(2)
    assert s.told == ["deleted b 1>-?", "modified a 1>15", "added c ->16"]


@jumping
async def test_an_empty_list_is_synced(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(is_watch)
    informer = s.informer()
    async with s.running():
        assert informer.synced
        assert s.cache.list(ConfigMap) == []


@jumping
async def test_a_late_handler_gets_what_exists_and_what_follows(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", *(config_map(n, version="1") for n in "abcde")))
    stream = s.transport.stream(is_watch)
    informer = s.cache.informer(ConfigMap)
    async with s.running():
        subscription = informer.add_handler(s.note)
        assert s.told == [f"added {n} ->1!" for n in "abcde"]
        stream.send(frame("MODIFIED", config_map("a", version="11")))
        await settle()
        assert s.told[5:] == ["modified a 1>11"]
        subscription.remove()
        stream.send(frame("DELETED", config_map("a", version="12")))
        await settle()
        assert len(s.told) == 6


@jumping
async def test_a_handler_that_raises_costs_nobody_else(scenario_class: Any, caplog: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    s.transport.stream(
        is_watch, frame("ADDED", config_map("a", version="11")), frame("ADDED", config_map("b", version="12"))
    )

    def broken(event: Event[Any]) -> None:
        raise ValueError(f"no good: {event.key}")

    s.cache.informer(ConfigMap).add_handler(broken)
    s.informer()
    async with s.running():
        assert s.told == ["added a ->11", "added b ->12"]
    assert "no good: default/a" in caplog.text


@jumping
async def test_managed_fields_are_trimmed_to_our_own(scenario_class: Any) -> None:
    s = scenario_class(field_manager="us")
    fields = [
        {"manager": "us", "operation": "Apply", "fieldsV1": {"f:data": {}}},
        {"manager": "us", "operation": "Update", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:x": {}}}},
    ]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "keep": "me"}
    for kind in (ConfigMap, ConfigMap.RESOURCE):
        s.transport.answer(
            is_list, listing("10", config_map("a", version="1", managedFields=fields, annotations=annotations))
        )
        s.transport.stream(is_watch)
        s.cache.informer(kind)
    async with s.running():
        typed, plain = s.cache.get(ConfigMap, "a", "default"), s.cache.get(ConfigMap.RESOURCE, "a", "default")
        for obj in (typed, plain):
            assert managed_fields_of(obj, "us") == {"f:data": {}}
            assert managed_fields_of(obj, "kubectl") is None
        assert typed.metadata.annotations == {"keep": "me"}
        assert len(typed.metadata.managed_fields) == 1


@jumping
async def test_a_transform_may_refuse_or_fail(scenario_class: Any, caplog: Any) -> None:
    s = scenario_class()

    def only_web(obj: Any) -> Any:
        if obj.metadata.name == "bad":
            raise ValueError("cannot look at it")
        return obj if labels_of(obj).get("web") else None

    web = {"web": "yes"}
    objects = [config_map("a", version="1", labels=web), config_map("b", version="1"), config_map("bad", version="1")]
    s.transport.answer(is_list, listing("10", *objects))
    stream = s.transport.stream(is_watch)
    s.informer(transforms=[only_web])
    async with s.running():
        assert [o.metadata.name for o in s.cache.list(ConfigMap)] == ["a"]
        stream.send(
            frame("MODIFIED", config_map("bad", version="11")),
            frame("MODIFIED", config_map("b", version="12", labels=web)),
            frame("MODIFIED", config_map("a", version="13")),
        )
        await settle()
        assert [o.metadata.name for o in s.cache.list(ConfigMap)] == ["b"]
    assert s.told == ["added a ->1!", "added b ->12", "deleted a 13>-"]
    assert "cannot look at it" in caplog.text
    with pytest.raises(ConfigurationError, match="first declaration"):
        s.cache.informer(ConfigMap, transforms=[only_web])


@jumping
async def test_indexes_follow_updates_and_deletes(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1", labels={"t": "x"})))
    stream = s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        s.cache.add_index(ConfigMap, "t", lambda o: [labels_of(o)["t"]])

        def names(value: str) -> list[str]:
            return [o.name for o in s.cache.indexed(ConfigMap, "t", value)]

        assert names("x") == ["a"]
        stream.send(frame("MODIFIED", config_map("a", version="11", labels={"t": "y"})))
        await settle()
        assert (names("x"), names("y")) == ([], ["a"])
        stream.send(frame("DELETED", config_map("a", version="12", labels={"t": "y"})))
        await settle()
        assert names("y") == []
        with pytest.raises(ConfigurationError, match="exists already"):
            s.cache.add_index(ConfigMap, "t", lambda _: [])
        with pytest.raises(ConfigurationError, match="no index 'u'"):
            s.cache.indexed(ConfigMap, "u", "x")


@jumping
async def test_an_object_that_does_not_fit_blocks_no_other(scenario_class: Any, caplog: Any) -> None:
    s = scenario_class()
    broken = {**config_map("bad", version="2"), "data": {"k": 7}}
    s.transport.answer(is_list, listing("10", config_map("a", version="1"), broken))
    stream = s.transport.stream(is_watch)
    informer = s.informer()
    keys: list[str] = []
    informer.add_handler(lambda event: keys.append(event.key.name), undecodable=True)
    async with s.running():
        assert informer.synced
        assert informer.statistics().undecodable == 1
        assert informer.store.undecodable[("default", "bad")]["data"] == {"k": 7}
        with pytest.raises(DecodeError, match=r"data"):
            s.cache.get(ConfigMap, "bad", "default")
        assert [o.metadata.name for o in s.cache.list(ConfigMap)] == ["a"]
        stream.send(frame("MODIFIED", {**broken, "metadata": {**broken["metadata"], "resourceVersion": "11"}}))
        stream.send(frame("MODIFIED", config_map("bad", version="12")))
        await settle()
        assert s.cache.get(ConfigMap, "bad", "default").metadata.resource_version == "12"
    assert s.told == ["added a ->1!", "added bad ->12"]
    assert keys == ["a", "bad", "bad", "bad"]
    assert caplog.text.count("ConfigMap default/bad does not fit its model") == 1


@jumping
async def test_kinds_and_representations_have_informers_of_their_own(scenario_class: Any) -> None:
    s = scenario_class()
    for _ in range(2):
        s.transport.answer(
            is_list,
            {**listing("10", {**config_map("a", version="1", data={"k": "v"}), "kind": "PartialObjectMetadata"})},
        )
        s.transport.stream(is_watch)
    s.cache.informer(ConfigMap)
    s.cache.informer(MetadataOnly(ConfigMap))
    assert s.cache.informer(ConfigMap) is s.cache.informer(ConfigMap)
    async with s.running():
        partial = s.cache.get(MetadataOnly(ConfigMap), "a", "default")
        assert isinstance(partial, PartialObject)
        assert (partial.kind, partial.api_version) == ("ConfigMap", "v1")
        assert s.cache.get(ConfigMap, "a", "default").data == {"k": "v"}
        accepts = sorted(r.headers["Accept"] for r in s.transport.requests if is_list(r))
        assert accepts == ["application/json", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]


@jumping
async def test_reads_outside_of_what_is_cached_say_so(scenario_class: Any) -> None:
    s = scenario_class()
    with pytest.raises(NotCached, match=r"declare them with reads=\[ConfigMap\]"):
        s.cache.get(ConfigMap, "a", "default")
    s.transport.fail(is_list, Unreachable("nobody there"), times=FOREVER)
    s.cache.informer(ConfigMap, namespace="a")
    async with s.running():
        with pytest.raises(NotSynced, match="nobody there"):
            s.cache.get(ConfigMap, "x", "a")
        with pytest.raises(NotCached, match="namespace a"):
            s.cache.get(ConfigMap, "x", "c")
        with pytest.raises(NotCached, match="all namespaces"):
            s.cache.list(ConfigMap)


@jumping
async def test_a_read_without_a_namespace_is_one_in_that_of_the_cache(scenario_class: Any) -> None:
    s = scenario_class(namespace="home")
    s.transport.answer(is_list, listing("10", config_map("x", "home", version="9")))
    s.transport.answer(is_list, listing("10", config_map("x", "home", version="9"), config_map("y", "b", version="9")))
    for _ in range(2):
        s.transport.stream(is_watch)
    s.cache.informer(ConfigMap)
    async with s.running():
        await settle()
        for namespace in ("", "home"):
            found = s.cache.get(ConfigMap, "x", namespace)
            assert found is not None, "None means deleted"
            assert found.metadata.namespace == "home"
            assert [one.metadata.name for one in s.cache.list(ConfigMap, namespace)] == ["x"]
        with pytest.raises(NotCached, match="namespace home; declare b"):
            s.cache.get(ConfigMap, "y", "b")
        s.cache.informer(ConfigMap, namespace="")
        await settle()
        assert s.cache.get(ConfigMap, "x").metadata.namespace == "home"
        assert s.cache.get(ConfigMap, "y", "b").metadata.namespace == "b"


@jumping
async def test_a_read_without_any_namespace_is_refused_and_not_answered_as_deleted(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"), times=FOREVER)
    for _ in range(2):
        s.transport.stream(is_watch)
    s.cache.informer(ConfigMap)
    s.cache.informer(Node)
    async with s.running():
        await settle()
        with pytest.raises(ConfigurationError, match="ConfigMap x: pass the namespace"):
            s.cache.get(ConfigMap, "x")
        assert s.cache.get(Node, "x") is None
        assert s.cache.get(Node, "x", "ignored") is None


@jumping
async def test_scopes_are_asked_of_the_server(scenario_class: Any) -> None:
    s = scenario_class(namespace="home")
    s.transport.answer(is_list, listing("10"), times=FOREVER)
    for _ in range(3):
        s.transport.stream(is_watch)
    s.cache.informer(ConfigMap)
    s.cache.informer(ConfigMap, namespace="", field_selector="metadata.namespace!=home", label_selector="a=b")
    s.cache.informer(Node)
    async with s.running():
        asked = [r for r in s.transport.requests if is_list(r)]
        paths = [(r.path, r.query.get("fieldSelector"), r.query.get("labelSelector")) for r in asked]
        assert paths == [
            ("/api/v1/namespaces/home/configmaps", None, None),
            ("/api/v1/configmaps", "metadata.namespace!=home", "a=b"),
            ("/api/v1/nodes", None, None),
        ]


@jumping
async def test_lists_can_be_selected_by_label_and_namespace(scenario_class: Any) -> None:
    s = scenario_class()
    objects = [config_map("a", version="1", labels={"t": "x"}), config_map("b", "other", version="1")]
    s.transport.answer(is_list, listing("10", *objects))
    s.transport.stream(is_watch)
    s.informer()
    async with s.running():

        def names(namespace: str = "", *, label_selector: str = "") -> list[str]:
            return [o.name for o in s.cache.list(ConfigMap, namespace, label_selector=label_selector)]

        assert names() == ["a", "b"]
        assert names("other") == ["b"]
        assert names(label_selector="t in (x,y)") == ["a"]
        assert names(label_selector="!t") == ["b"]
        assert names("none") == []


@jumping
async def test_waiting_for_a_version_is_bounded(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10"))
    stream = s.transport.stream(is_watch)
    s.informer()
    async with s.running():
        waiting = asyncio.ensure_future(s.cache.wait_for_version(ConfigMap, "20"))
        await asyncio.sleep(5)
        stream.send(bookmark("20"))
        await waiting
        with pytest.raises(TimeoutError, match=r"has not reached version 30 after 10\.0 s; it is at 20"):
            await s.cache.wait_for_version(ConfigMap, "30")


@jumping
async def test_a_removed_informer_is_gone_and_can_be_declared_anew(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1")))
    old = s.transport.stream(is_watch)
    informer = s.cache.informer(ConfigMap)
    subscription = informer.add_handler(s.note)
    async with s.running():
        with pytest.raises(ConfigurationError, match=r"configmaps \(all namespaces\): a controller or another handler"):
            s.cache.remove(informer)
        subscription.remove()
        assert not old.closed.is_set()
        s.cache.remove(informer)
        await settle()
        assert old.closed.is_set()
        with pytest.raises(NotCached):
            s.cache.get(ConfigMap, "a", "default")
        assert list(s.cache.declared(ConfigMap.RESOURCE)) == []
        assert s.cache.known_kinds() == {}
        with pytest.raises(ConfigurationError, match="removed already"):
            s.cache.remove(informer)
        s.transport.answer(is_list, listing("20", config_map("a", version="11")))
        s.transport.stream(is_watch)
        assert s.cache.informer(ConfigMap) is not informer
        await s.cache.wait_synced()
        assert s.cache.get(ConfigMap, "a", "default") is not None
        partial = s.cache.informer(MetadataOnly(ConfigMap))
        s.cache.remove(s.cache.informer(ConfigMap))
        assert list(s.cache.known_kinds().values()) == [partial.kind]


@jumping
async def test_nobody_waits_for_an_informer_that_was_removed(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, status_body(404, "NotFound"), status=404, times=FOREVER)
    informer = s.cache.informer(ConfigMap)
    async with s.running():
        every = asyncio.ensure_future(s.cache.wait_synced())
        one = asyncio.ensure_future(s.cache.wait_synced([ConfigMap]))
        await settle()
        assert not every.done()
        s.cache.remove(informer)
        await every
        with pytest.raises(NotCached, match="the informer was removed"):
            await one
        assert not informer.synced


@jumping
@pytest.mark.parametrize("stops", [False, True], ids=["while it runs", "at the stop"])
async def test_a_shared_object_that_is_changed_is_reported(scenario_class: Any, stops: bool) -> None:
    s = scenario_class(detect_mutation=True)
    s.transport.answer(is_list, listing("10", config_map("a", version="1", data={"k": "v"})))
    s.transport.stream(is_watch)
    s.informer()
    task = asyncio.ensure_future(s.cache.run())
    await settle()
    s.cache.get(ConfigMap, "a", "default").data["k"] = "mine"
    if stops:
        task.cancel()
    with pytest.raises(Exception, match=r"ConfigMap default/a was changed at .data.k \('v' became 'mine'\)"):
        await task
