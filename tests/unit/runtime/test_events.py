# SPDX-License-Identifier: Apache-2.0
"""Events: which are written, how often, and what happens when the server does not answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trainwright.api.objects import Document
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import ConfigurationError, ConnectionLost, Unreachable
from trainwright.controller.runtime.events.correlator import (
    BURST,
    COMBINED,
    ENTRIES,
    Correlator,
    EventKind,
    EventObject,
    SeriesCount,
    cut,
    event_name,
    event_object,
)
from trainwright.controller.runtime.events.recorder import QUEUE, EventRecorder
from trainwright.controller.runtime.metrics.registry import EventCollector
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, status_body

WALL = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = config_map("shop", version="7", uid="u")


def occurrence(note: str = "n", reason: str = "R", name: str = "shop", kind: str = "Normal") -> tuple[EventKind, str]:
    return EventKind(EventObject("v1", "ConfigMap", "default", name, "u"), None, kind, reason, "A"), note


class Written:
    """A correlator whose writes succeed at once."""

    def __init__(self) -> None:
        self.correlator = Correlator("example.com/web", "web-0")
        self.log: list[tuple[str, int]] = []

    def take(self, *occurrences: tuple[EventKind, str], now: float = 0.0) -> None:
        for one in occurrences:
            self.note(self.correlator.take(*one, now, WALL))

    def note(self, series: list[SeriesCount]) -> None:
        for one in series:
            self.log.append(("patch" if one.written else "create", one.count))
            one.written = one.count

    @property
    def notes(self) -> list[str]:
        return [str(series.document["message"]) for series in self.correlator._series.values()]


def test_repetition_is_created_patched_once_then_counted() -> None:
    written = Written()
    written.take(*[occurrence()] * 5)
    assert written.log == [("create", 1), ("patch", 2)]
    written.note(written.correlator.due(1800.0 / 6, refresh=True))
    assert written.log[-1] == ("patch", 5)
    written.note(written.correlator.due(300.0, refresh=True))
    assert len(written.log) == 3, "nothing new, nothing written"


def test_series_that_ended_is_written_a_last_time_and_forgotten() -> None:
    written = Written()
    written.take(*[occurrence()] * 4)
    written.take(occurrence("single"))
    written.note(written.correlator.due(359.0))
    assert len(written.log) == 3
    written.note(written.correlator.due(361.0))
    assert written.log[-1] == ("patch", 4)
    assert not written.notes
    written.take(occurrence(), now=400.0)
    assert written.log[-1] == ("create", 1)


def test_different_notes_of_a_kind_are_combined_from_the_tenth_on() -> None:
    written = Written()
    written.take(*(occurrence(f"message {number}") for number in range(12)))
    assert [count for verb, count in written.log if verb == "create"] == [1] * 10
    assert written.notes[:9] == [f"message {number}" for number in range(9)]
    assert written.notes[9:] == [f"{COMBINED}message 9"]
    assert written.log[-1] == ("patch", 2)
    written.take(occurrence("later"), now=599.0)
    assert len(written.notes) == 10, "the window slides"
    written.take(occurrence("much later"), now=1200.0)
    assert written.notes[-1] == "much later"


def test_one_object_cannot_flood() -> None:
    written = Written()
    written.take(*(occurrence(reason=f"Reason{number}") for number in range(40)))
    assert len(written.log) == BURST
    assert written.correlator.refused == 15
    written.take(occurrence(reason="Other", name="else"), occurrence(reason="Other", kind="Warning"))
    assert len(written.log) == BURST + 2, "other objects and types have buckets of their own"
    written.take(occurrence(reason="Reason39"), now=300.0)
    assert len(written.log) == BURST + 3, "one more each five minutes; the refused one was not remembered as written"
    written.take(occurrence(reason="Reason38"), now=300.0)
    assert len(written.log) == BURST + 3


def test_memory_is_bounded_and_what_falls_out_is_written() -> None:
    written = Written()
    written.take(*[occurrence(name="first")] * 3)
    written.take(*(occurrence(name=f"o{number}") for number in range(ENTRIES)))
    assert len(written.notes) == ENTRIES
    assert ("patch", 3) in written.log


def test_references_carry_no_version_and_need_a_kind() -> None:
    assert event_object(SHOP).document == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "shop",
        "uid": "u",
    }
    with pytest.raises(ConfigurationError):
        event_object({"metadata": {"name": "x"}})


@pytest.mark.parametrize("text", ["a" * 2000, "ä" * 1000, "€" * 500])
def test_notes_are_cut_at_whole_characters(text: str) -> None:
    shortened = cut(text, 1024)
    assert len(shortened.encode()) <= 1024
    assert shortened.endswith("...")
    assert text.startswith(shortened[:-3])
    assert cut("short", 1024) == "short"


def test_names_are_unique_and_valid() -> None:
    names = {event_name("shop") for _ in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith("shop.") for name in names)
    assert event_name("x" * 250).startswith("event-")
    assert event_name("Not A Name").startswith("event-")


# ---------------------------------------------------------------------- the recorder


class Scene:
    """A recorder on a scripted transport."""

    def __init__(self, **options: Any) -> None:
        self.transport = ScriptedTransport()
        self.recorder = EventRecorder(
            Client(self.transport), "example.com/web", instance="web-0", now=lambda: WALL, chance=lambda: 0.4, **options
        )

    def accept(self, times: float = float("inf")) -> None:
        self.transport.answer(lambda _: True, {"metadata": {"name": "e", "namespace": "default"}}, times=times)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Scene"]:
        task = asyncio.ensure_future(self.recorder.run())
        await settle()
        try:
            yield self
        finally:
            self.recorder.request_stop()
            await task

    @property
    def sent(self) -> list[tuple[str, Document]]:
        return [(r.method, msgspec.json.decode(r.body or b"null")) for r in self.transport.requests]


@jumping
async def test_event_on_the_wire() -> None:
    scene = Scene()
    scene.accept()
    async with scene.running():
        scene.recorder.event(SHOP, "Warning", "Failed", "100%s of {this} %d", related=config_map("other"))
        await settle()
    ((method, event),) = scene.sent
    assert method == "POST"
    assert event["message"] == "100%s of {this} %d"
    assert event["action"] == event["reason"] == "Failed"
    assert (event["type"], event["eventTime"]) == ("Warning", "2026-01-01T00:00:00.000000Z")
    assert (event["reportingComponent"], event["reportingInstance"]) == ("example.com/web", "web-0")
    assert "resourceVersion" not in event["involvedObject"]
    assert event["related"]["name"] == "other"
    assert "series" not in event
    # What the Kubeflow SDK and older programs read.
    assert (event["apiVersion"], event["firstTimestamp"], event["count"]) == ("v1", "2026-01-01T00:00:00Z", 1)
    assert (event["lastTimestamp"], event["source"]) == ("2026-01-01T00:00:00Z", {"component": "example.com/web"})


@jumping
async def test_three_times_is_one_create_one_patch_and_the_rest_at_the_end() -> None:
    scene = Scene()
    scene.accept()
    async with scene.running():
        for _ in range(4):
            scene.recorder.event(SHOP, "Normal", "Done", "well")
            await settle()
        assert [(m, e.get("series", {}).get("count")) for m, e in scene.sent] == [("POST", None), ("PATCH", 2)]
    assert [(m, e.get("series", {}).get("count")) for m, e in scene.sent][2:] == [("PATCH", 4)]
    assert (scene.recorder.statistics().created, scene.recorder.statistics().patched) == (1, 2)


@jumping
async def test_series_is_refreshed_every_half_hour_while_it_goes_on() -> None:
    scene = Scene()
    scene.accept()
    async with scene.running():
        for _ in range(60):
            scene.recorder.event(SHOP, "Normal", "Done", "well")
            await asyncio.sleep(61)
        assert [e["series"]["count"] for m, e in scene.sent if m == "PATCH"] == [2, 30, 60]


@jumping
async def test_unreachable_server_is_tried_twelve_times() -> None:
    scene = Scene()
    scene.transport.fail(lambda _: True, Unreachable("gone"), times=float("inf"))
    async with scene.running():
        scene.recorder.event(SHOP, "Normal", "Done", "well")
        await asyncio.sleep(600)
        assert len(scene.transport.requests) == 12
        pauses = [b - a for a, b in zip(scene.transport.times, scene.transport.times[1:], strict=False)]
        assert pauses == pytest.approx([4.0] + [11.0] * 10)
        assert scene.recorder.statistics().failed == 1


@jumping
async def test_answer_that_was_lost_makes_no_second_event() -> None:
    scene = Scene()
    scene.transport.fail(lambda _: True, ConnectionLost("cut"))
    scene.transport.answer(lambda _: True, status_body(409, "AlreadyExists"), status=409)
    async with scene.running():
        scene.recorder.event(SHOP, "Normal", "Done", "well")
        await asyncio.sleep(60)
        (_, first), (_, second) = scene.sent
        assert first["metadata"]["name"] == second["metadata"]["name"]
        assert scene.recorder.statistics().failed == 0


@jumping
async def test_refusal_is_final_and_a_vanished_event_is_created_anew() -> None:
    scene = Scene()
    scene.transport.answer(lambda _: True, status_body(403, "Forbidden"), status=403)
    async with scene.running():
        scene.recorder.event(SHOP, "Normal", "Done", "well")
        await asyncio.sleep(60)
        assert scene.recorder.statistics().failed == 1
        scene.accept(1)
        scene.recorder.event(SHOP, "Normal", "Done", "well")
        await settle()
        scene.transport.answer(lambda _: True, status_body(404, "NotFound"), status=404)
        scene.accept(1)
        scene.recorder.event(SHOP, "Normal", "Done", "well")
        await settle()
    assert [m for m, _ in scene.sent] == ["POST", "POST", "PATCH", "POST"]
    assert scene.sent[-1][1]["series"]["count"] == 2


@jumping
async def test_recording_never_waits_and_a_full_queue_drops() -> None:
    scene = Scene(flush_seconds=1.0)
    scene.transport.answer(lambda _: True, {}, delay=50.0, times=float("inf"))
    async with scene.running():
        for number in range(QUEUE + 50):
            scene.recorder.event(config_map(f"m{number}"), "Normal", "Done", "well")
        assert len(scene.transport.requests) == 0
        assert scene.recorder.statistics().dropped == 50
    statistics = scene.recorder.statistics()
    assert statistics.failed == QUEUE, "the flush is limited, and what it did not write is counted"
    scene.recorder.event(SHOP, "Normal", "Late", "after the end")
    assert scene.recorder.statistics().dropped == 51
    families = {f.name: f for f in EventCollector(scene.recorder.statistics).collect()}
    assert {s.labels["cause"]: s.value for s in families["event_recorder_lost"].samples} == {
        "queue": 51.0,
        "limit": 0.0,
        "failed": float(QUEUE),
    }


@jumping
async def test_what_is_queued_is_written_before_the_end() -> None:
    scene = Scene()
    scene.transport.fail(lambda _: True, Unreachable("not yet"))
    scene.accept()
    async with scene.running():
        for number in range(5):
            scene.recorder.event(config_map(f"m{number}"), "Normal", "Done", "well")
        await settle()
        assert len(scene.transport.requests) == 1
    assert [e["involvedObject"]["name"] for _, e in scene.sent] == ["m0", "m0", "m1", "m2", "m3", "m4"]
    assert scene.recorder.statistics().failed == 0


@jumping
async def test_one_event_that_fails_at_the_end_costs_no_other() -> None:
    scene = Scene()
    scene.transport.fail(lambda _: True, Unreachable("not yet"), times=2)
    scene.accept()
    async with scene.running():
        for number in range(3):
            scene.recorder.event(config_map(f"m{number}"), "Normal", "Done", "well")
        await settle()
    assert [e["involvedObject"]["name"] for _, e in scene.sent] == ["m0", "m0", "m1", "m2"]
    assert (scene.recorder.statistics().created, scene.recorder.statistics().failed) == (2, 1)


@jumping
async def test_other_types_are_dropped_with_a_line() -> None:
    scene = Scene()
    async with scene.running():
        scene.recorder.event(SHOP, "Strange", "R", "n")  # type: ignore[arg-type]
    assert not scene.sent
