# SPDX-License-Identifier: Apache-2.0
"""Small parts: versions, selectors, conditions, metrics of priorities, builders of objects, reasons of probes
and of connections that fail."""

import asyncio
import errno
import gc
import json
import logging
import socket
import sys
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from trainwright.api.base import Resource
from trainwright.api.conditions import find, is_true, remove_condition, set_condition
from trainwright.api.kubernetes.core.v1 import ConfigMap, Container, Pod
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import controller_of, key_of
from trainwright.controller.runtime import Done, Key, Result, Trigger
from trainwright.controller.runtime.cache.store import at_least, compare
from trainwright.controller.runtime.collector import freeze_collector
from trainwright.controller.runtime.context import ContextFilter, Reconcile, current_reconcile
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.errors import ConfigurationError, reason_of
from trainwright.controller.runtime.manager.logs import JSONFormatter, TextFormatter
from trainwright.controller.runtime.metrics.registry import OVERFLOW, Metrics
from trainwright.controller.runtime.selectors import parse_label_selector
from trainwright.controller.runtime.servers.probes import Checks
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import build, config_map
from trainwright.controller.runtime.testing.scripted import frame, is_list, is_watch, listing


def test_versions_are_compared_only_if_canonical() -> None:
    assert compare("10", "9") == 1
    assert compare("9", "10") == -1
    assert compare("10", "10") == 0
    assert compare("100000000000000000000001", "100000000000000000000002") == -1
    for odd in ("007", "abc", "", "-1", "1.0", "٣"):
        assert compare(odd, "10") is None
        assert not at_least("10", odd)
    assert compare("abc", "abc") == 0


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        ("", {}, None),
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a==b", {"a": "b"}, {}),
        ("a!=b", {}, {"a": "b"}),
        ("a in (b, c),d", {"a": "c", "d": ""}, {"a": "c"}),
        ("a notin (b,c)", {"a": "d"}, {"a": "b"}),
        ("a,!b", {"a": "x"}, {"a": "x", "b": "y"}),
        ("example.com/x=", {"example.com/x": ""}, {"example.com/x": "y"}),
    ],
)
def test_selectors(selector: str, matching: dict[str, str], other: dict[str, str] | None) -> None:
    parsed = parse_label_selector(selector)
    assert parsed.matches(matching)
    assert other is None or not parsed.matches(other)


def test_a_wrong_selector_is_quoted() -> None:
    with pytest.raises(ConfigurationError, match="'a ~ b'"):
        parse_label_selector("x=y,a ~ b")


START = datetime(2026, 1, 1, tzinfo=UTC)


def ready(status: str, message: str = "") -> Condition:
    return Condition(type="Ready", status=status, reason="R", message=message, last_transition_time="")


def test_conditions_do_not_flap() -> None:
    first = set_condition(None, ready("False"), now=lambda: START)
    assert first[0].last_transition_time == "2026-01-01T00:00:00Z"
    later = START + timedelta(hours=1)
    again = set_condition(first, ready("False"), now=lambda: later)
    assert again[0] is first[0]
    worded = set_condition(first, ready("False", "still"), now=lambda: later)
    assert (worded[0].message, worded[0].last_transition_time) == ("still", "2026-01-01T00:00:00Z")
    assert first[0].message == ""
    turned = set_condition(worded, ready("True"), now=lambda: later)
    assert turned[0].last_transition_time == "2026-01-01T01:00:00Z"
    up = Condition(type="Up", status="True", reason="", message="", last_transition_time="")
    taken_over = set_condition(turned, ready("False"), at="2026-01-01T00:00:00Z")
    assert taken_over[0].last_transition_time == "2026-01-01T00:00:00Z"
    assert set_condition(taken_over, ready("False"), at="2027-01-01T00:00:00Z")[0] is taken_over[0]
    two = set_condition(turned, up, now=lambda: START)
    assert [c.type for c in two] == ["Ready", "Up"]
    assert is_true(two, "Up")
    assert not is_true(two, "Down")
    assert find(None, "Up") is None
    assert [c.type for c in remove_condition(two, "Ready")] == ["Up"]


def test_conditions_may_be_dictionaries() -> None:
    wanted = {"type": "Ready", "status": "True", "reason": "R", "message": "", "observedGeneration": 3}
    first: list[dict[str, Any]] = set_condition(None, wanted, now=lambda: START)
    assert first == [{**wanted, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    assert set_condition(first, wanted)[0] is first[0]
    assert set_condition(first, {**wanted, "observedGeneration": 4})[0]["observedGeneration"] == 4


def test_log_records_say_whose_work_it_was() -> None:
    record = logging.makeLogRecord({"msg": "hello"})
    token = current_reconcile.set(Reconcile("web", Key("ns", "shop"), "id1", ("added", "changed")))
    try:
        assert ContextFilter().filter(record)
    finally:
        current_reconcile.reset(token)
    told = vars(record)
    assert (told["controller"], told["namespace"], told["object_name"]) == ("web", "ns", "shop")
    assert (told["reconcile_id"], told["reasons"]) == ("id1", "added,changed")


def test_log_lines_carry_the_context() -> None:
    fields = {"msg": "wrote %s", "args": ("it",), "name": "trainwright.x", "levelname": "INFO", "created": 0.0}
    record = logging.makeLogRecord({**fields, "controller": "web", "object_name": "shop"})
    assert TextFormatter().format(record) == "1970-01-01T00:00:00.000Z INFO    x: wrote it controller=web name=shop"
    told = json.loads(JSONFormatter().format(record))
    assert (told["msg"], told["controller"], told["name"], told["level"]) == ("wrote it", "web", "shop", "info")
    assert "namespace" not in told
    try:
        raise ValueError("no good")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: no good" in TextFormatter().format(record)
    assert "ValueError: no good" in json.loads(JSONFormatter().format(record))["error"]


@jumping
async def test_many_priorities_share_a_label(scenario_class: Any) -> None:
    metrics = Metrics(process=False)
    trigger = Trigger()

    async def reconcile(_: Key) -> Result:
        return Done()

    builder = Builder(scenario_class().cache, "many").source(trigger)
    controller = builder.reconcile(reconcile)
    metrics.watch_controller(controller)

    def depths() -> dict[str, float]:
        family = next(f for f in metrics.registry.collect() if f.name == "workqueue_depth")
        return {sample.labels["priority"]: sample.value for sample in family.samples}

    for priority in range(30):
        controller.queue.add(Key("", f"{priority}"), priority=priority)
        depths()
    assert len(depths()) == 26
    assert depths()[OVERFLOW] == 5
    while len(controller.queue):
        item = await controller.queue.get()
        assert item is not None
        controller.queue.done(item.key)
    assert sum(depths().values()) == 0
    with pytest.raises(ConfigurationError, match="'many' exists already"):
        metrics.watch_controller(controller)


@jumping
async def test_a_controller_begins_with_what_is_stored_when_it_may_work(scenario_class: Any) -> None:
    """The cache of a replica that does not lead is warm, and its queue does not grow."""
    s = scenario_class()
    listed = [config_map(name, version="1") for name in "abc"]
    s.transport.answer(is_list, listing("10", *listed))
    stream = s.transport.stream(is_watch)
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        seen.append(key.name)
        return Done()

    controller = Builder(s.cache).for_(ConfigMap).reconcile(reconcile)
    async with s.running():
        for version in range(11, 15):
            stream.send(frame("MODIFIED", config_map("a", version=str(version))))
        stream.send(frame("DELETED", config_map("c", version="15")))
        await settle()
        assert controller.statistics().queue.depth == 0

        task = asyncio.ensure_future(controller.run())
        await settle()
        assert sorted(seen) == ["a", "b"]
        stream.send(frame("ADDED", config_map("d", version="16")))
        stream.send(frame("DELETED", config_map("b", version="17")))
        await settle()
        assert sorted(seen) == ["a", "b", "b", "d"]
        controller.request_stop()
        await task


WIDGET = Resource(group="shop.test", version="v1", kind="Widget", plural="widgets", namespaced=False)


def test_objects_of_any_kind_are_built() -> None:
    pod = build(Pod, labels={"app": "web"}, uid="u1", spec={"containers": [Container(name="c", image="i")]})
    assert pod.metadata is not None
    assert pod.spec is not None
    assert pod.spec.containers[0].image == "i"
    assert (pod.metadata.namespace, pod.metadata.labels) == ("default", {"app": "web"})
    assert pod.metadata.name != key_of(build(Pod)).name
    owned = build(ConfigMap, "c", "elsewhere", owner=pod, data={"k": "v"})
    assert controller_of(owned) == ("v1", "Pod", pod.metadata.name, "u1", True)
    widget = build(WIDGET, "w", version="7", metadata={"generation": 2}, spec={"size": 3}, owner=None)
    assert widget == {
        "apiVersion": "shop.test/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "resourceVersion": "7", "uid": "uid-w", "generation": 2},
        "spec": {"size": 3},
    }
    assert controller_of(build(WIDGET, owner=widget)) == ("shop.test/v1", "Widget", "w", "uid-w", True)


@pytest.mark.parametrize(
    ("kind", "parts", "error", "message"),
    [
        (Pod, {"speck": {}}, ValueError, "Pod has no field speck"),
        (
            Pod,
            {"spec": {"containers": [{"name": "a", "imaje": "x"}]}},
            ValueError,
            r"no field spec.containers\[0\].imaje",
        ),
        (Pod, {"spec": {"containers": "x"}}, msgspec.ValidationError, r"`\$.spec.containers`"),
        (WIDGET, {"namespace": "x"}, ValueError, "Widget is cluster-scoped"),
        (Pod, {"owner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}, ConfigurationError, "no uid"),
    ],
)
def test_what_cannot_be_built_is_named(kind: Any, parts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(kind, **parts)


class Cycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_there_is_taken_out_of_the_collector_and_fresh_garbage_is_not_kept() -> None:
    before = gc.get_freeze_count()
    gc.disable()  # nothing else collects
    try:
        gone, kept = weakref.ref(Cycle()), Cycle()
        assert gone() is not None
        freeze_collector()
        assert gone() is None
        assert gc.get_freeze_count() > before
        left = weakref.ref(kept)
        del kept
        gc.collect()
        assert left() is not None  # nobody looks there any more
    finally:
        gc.unfreeze()
        gc.enable()
    gc.collect()
    assert left() is None
    gc.freeze()  # the tests that were collected, again: later collections would pass over all of them


async def test_a_reason_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    checks, reason = Checks("/readyz"), [None, "a", "a", "b", "b", None, "b"]
    checks.add("caches", lambda: reason.pop(0))
    outcomes = [(await checks.run())["caches"] for _ in range(7)]
    assert outcomes == [True, False, False, False, False, True, False]
    assert [one.getMessage() for one in caplog.records] == [f"/readyz/caches failed: {why}" for why in ("a", "b", "b")]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("no route"), "no route"),
    ],
)
def test_a_connection_fails_in_plain_words(error: OSError, words: str) -> None:
    assert reason_of(error) == words
