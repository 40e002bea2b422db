# SPDX-License-Identifier: Apache-2.0
"""Controllers against a script."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap, Secret
from trainwright.controller.runtime import Backoff, Done, Key, Result, RetryAfter, Terminal, Trigger
from trainwright.controller.runtime.context import current_reconcile
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.controller.controller import Controller, ReconcileOutcome
from trainwright.controller.runtime.controller.sources import (
    all_of,
    any_of,
    generation_changed,
    labels_match,
)
from trainwright.controller.runtime.errors import Conflict, Forbidden, ServerError, Unreachable
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import frame, is_list, is_watch, listing, status_body

FOREVER = float("inf")


def now() -> float:
    return round(asyncio.get_running_loop().time(), 6)


class Bench:
    """A controller on a trigger: scripted outcomes in, times of calls out."""

    def __init__(self, *outcomes: Any, **options: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[float] = []
        self.ended: list[ReconcileOutcome] = []
        self.trigger = Trigger()
        self.options = options

    def started(self) -> None:
        pass

    def ended_(self, outcome: ReconcileOutcome) -> None:
        self.ended.append(outcome)

    async def reconcile(self, key: Key) -> Result:
        self.calls.append(now())
        outcome = self.outcomes.pop(0) if self.outcomes else Done()
        if isinstance(outcome, BaseException):
            raise outcome
        if callable(outcome):
            return await outcome(key)  # type: ignore[no-any-return]
        return outcome

    @asynccontextmanager
    async def running(self, scenario: Any) -> AsyncIterator[Controller]:
        class Observer:
            started = self.started
            ended = self.ended_

        builder = Builder(scenario.cache, "bench", observer=lambda _: Observer())
        controller = builder.source(self.trigger).reconcile(self.reconcile, **self.options)
        task = asyncio.ensure_future(controller.run())
        await settle()
        try:
            yield controller
        finally:
            controller.request_stop()
            await task

    def results(self) -> list[str]:
        return [outcome.result for outcome in self.ended]


A = Key("default", "a")


def caused() -> RuntimeError:
    """An error because of a terminal one."""
    error = RuntimeError("outer")
    error.__cause__ = Terminal("image is missing")
    return error


def bounded(error: Exception) -> Backoff:
    return Backoff("the deadline comes first", at_most=0.001, error=error)


async def hang(_: Key) -> Result:
    await asyncio.sleep(5)
    return Done()


async def own_timeout(_: Key) -> Result:
    async with asyncio.timeout(0.5):
        await asyncio.sleep(5)
    return Done()


CONFLICT = Conflict("moved on", code=409)
OUTCOMES: dict[str, tuple[list[Any], str, list[float], list[str]]] = {
    # what reconciles come to; their results; times of their calls; what is logged as a warning or more
    "failures back off, and a success forgets them": (
        [ValueError("1"), OSError("2"), ValueError("3")],
        "error! error error! success",
        [0, 0.005, 0.015, 0.035],
        ["retry in 0.005 s"],
    ),
    "an error of the API server is no defect": (
        [Unreachable("down"), ServerError("broken", code=500), Forbidden("no", code=403), KeyError("x")],
        "error error error error! success",
        [0, 0.005, 0.015, 0.035, 0.075],
        ["down", "broken"],
    ),
    "terminal is not retried": ([Terminal("no such runtime")], "terminal", [0], ["not retried: no such runtime"]),
    "nor is what it causes": ([caused()], "terminal", [0], ["not retried"]),
    "backoff and a conflict are no errors": (
        [Backoff("not yet"), CONFLICT],
        "requeue requeue success",
        [0, 0.005, 0.015],
        [],
    ),
    "backoff looks again within its bound and keeps the count of failures": (
        [*[ValueError()] * 10, Backoff("not yet", at_most=1), Backoff("not yet", at_most=60), Backoff("later")],
        "error! " * 10 + "requeue requeue requeue success",
        # Ten failures take 5.115 s; then the bound of 1 s, the eleventh doubling (10.24 s, under 60 s), the twelfth.
        [0, 0.005, 0.015, 0.035, 0.075, 0.155, 0.315, 0.635, 1.275, 2.555, 5.115, 6.115, 16.355, 36.835],
        ["retry in"],
    ),
    "backoff with an error counts and logs it as if raised": (
        [bounded(ValueError("broken")), bounded(OSError("lost")), bounded(CONFLICT)],
        "error! error requeue success",
        [0, 0.001, 0.002, 0.003],
        ["reconcile failed, retry in 0.001 s", "ValueError: broken"],
    ),
    "a terminal error in a backoff is tried again within its bound": (
        [bounded(Terminal("no such runtime")), bounded(caused())],
        "terminal terminal success",
        [0, 0.001, 0.002],
        ["not retried: no such runtime"],
    ),
    "nonsense is named and retried": (
        ["done"],
        "error! success",
        [0, 0.005],
        ["reconcile returned 'done'; return Done, RetryAfter, Backoff or None"],
    ),
    "a reconcile has a time limit": (
        [hang, own_timeout],
        "timeout error success",
        [0, 1.005, 1.515],
        ["cancelled after 1.0 s"],
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
@jumping
async def test_what_a_reconcile_comes_to(scenario_class: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    outcomes, results, times, logged = OUTCOMES[name]
    bench = Bench(*outcomes, timeout=1.0)
    async with bench.running(scenario_class()) as controller:
        bench.trigger(A)
        await asyncio.sleep(100)
        assert controller.queue.limiter.failures(A) == 0
    ends = ["terminal" if one.terminal else "timeout" if one.timed_out else one.result for one in bench.ended]
    assert [end + "!" * one.crashed for end, one in zip(ends, bench.ended, strict=True)] == results.split()
    assert bench.calls == times
    assert [text for text in logged if text not in caplog.text] == []
    assert logged or not caplog.text


@jumping
async def test_retry_after_forgets_failures_and_gives_way_to_events(scenario_class: Any) -> None:
    bench = Bench(ValueError(), RetryAfter(30), RetryAfter(30), Done())
    async with bench.running(scenario_class()) as controller:
        bench.trigger(A)
        await asyncio.sleep(10)
        assert controller.queue.limiter.failures(A) == 0
        bench.trigger(A)
        await asyncio.sleep(100)
    assert bench.calls == [0, 0.005, 10, 40]
    assert bench.results() == ["error", "requeue_after", "requeue_after", "success"]


@jumping
async def test_each_reconcile_is_a_line_for_who_looks_closely(scenario_class: Any, caplog: Any) -> None:
    bench = Bench()
    with caplog.at_level(logging.DEBUG):
        async with bench.running(scenario_class()):
            bench.trigger(A)
            await asyncio.sleep(1)
    (line,) = (
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.DEBUG and "bench" in record.getMessage()
    )
    assert line.startswith("bench default/a: success in 0.0")


@jumping
async def test_priorities_survive_retries(scenario_class: Any) -> None:
    seen: list[int] = []

    async def look(_: Key) -> Result:
        context = current_reconcile.get()
        assert context is not None
        seen.append(context.priority)
        if len(seen) == 1:
            raise ValueError
        return RetryAfter(1, priority=7) if len(seen) == 2 else Done()

    bench = Bench(look, look, look)
    async with bench.running(scenario_class()):
        bench.trigger(A, priority=-100)
        await asyncio.sleep(5)
    assert seen == [-100, -100, 7]


@jumping
async def test_what_a_reconcile_awaits_may_be_cancelled_without_ending_the_worker(scenario_class: Any) -> None:
    async def waits_for_another(_: Key) -> Result:
        other: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        other.cancel()
        return await other

    for timeout in (None, 5.0):
        bench = Bench(waits_for_another, timeout=timeout)
        async with bench.running(scenario_class()):
            bench.trigger(A)
            await asyncio.sleep(1)
        assert bench.results() == ["error", "success"]


@jumping
async def test_stopping_lets_a_running_reconcile_finish(scenario_class: Any) -> None:
    async def slow(_: Key) -> Result:
        await asyncio.sleep(5)
        return Done()

    bench = Bench(slow)
    async with bench.running(scenario_class()):
        bench.trigger(A)
        await settle()
    assert now() == 5
    assert bench.results() == ["success"]


@jumping
async def test_a_cancelled_reconcile_has_no_outcome(scenario_class: Any) -> None:
    async def hang(_: Key) -> Result:
        await asyncio.Event().wait()
        return Done()

    bench = Bench(hang, timeout=60.0)

    class Observer:
        started = bench.started
        ended = staticmethod(bench.ended_)

    builder = Builder(scenario_class().cache, "bench", observer=lambda _: Observer())
    built = builder.source(bench.trigger).reconcile(bench.reconcile, timeout=60.0)
    task = asyncio.ensure_future(built.run())
    await settle()
    bench.trigger(A)
    await settle()
    assert built.statistics().active == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert bench.ended == []
    assert built.statistics().active == 0


@jumping
async def test_a_slow_key_holds_up_no_other(scenario_class: Any) -> None:
    finished: list[tuple[str, float]] = []

    async def work(key: Key) -> Result:
        await asyncio.sleep(100 if key.name == "slow" else 1)
        finished.append((key.name, now()))
        return Done()

    bench = Bench(*[work] * 10, workers=2)
    async with bench.running(scenario_class()):
        for name in ("slow", "a", "b", "c"):
            bench.trigger(Key("", name))
        await asyncio.sleep(200)
    assert finished == [("a", 1), ("b", 2), ("c", 3), ("slow", 100)]


@jumping
async def test_workers_start_when_the_lists_are_there(scenario_class: Any) -> None:
    s = scenario_class()
    objects = [config_map(f"old-{n}", version="1") for n in range(100)]
    s.transport.answer(is_list, status_body(404, "NotFound", "the server could not find it"), status=404, times=3)
    s.transport.answer(is_list, listing("10", *objects))
    stream = s.transport.stream(is_watch)
    order: list[str] = []

    async def reconcile(key: Key) -> Result:
        order.append(key.name)
        await asyncio.sleep(1)
        return Done()

    controller = Builder(s.cache).for_(ConfigMap).reconcile(reconcile, workers=1)
    assert controller.name == "configmap"
    async with s.running():
        task = asyncio.ensure_future(controller.run())
        await settle()
        assert "could not find it" in controller.statistics().waiting_for[0]
        await asyncio.sleep(20)
        stream.send(frame("ADDED", config_map("news", version="11")))
        await asyncio.sleep(5)
        assert "news" in order
        await asyncio.sleep(200)
        assert len(order) == 101
        controller.request_stop()
        await task


@jumping
async def test_a_list_that_never_comes_ends_the_controller(scenario_class: Any) -> None:
    s = scenario_class()
    message = 'configmaps is forbidden: User "u" cannot list resource "configmaps" in API group ""'
    s.transport.answer(is_list, status_body(403, "Forbidden", message), status=403, times=FOREVER)
    bench = Bench()
    controller = Builder(s.cache).for_(ConfigMap).reconcile(bench.reconcile)
    async with s.running():
        with pytest.raises(TimeoutError, match=r"no first list after 120 s of configmaps .*cannot list resource"):
            await controller.run()
    assert now() == 120


@jumping
async def test_a_controller_that_still_waits_stops_at_once(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, status_body(404, "NotFound"), status=404, times=FOREVER)
    controller = Builder(s.cache, "waits").for_(ConfigMap).reconcile(Bench().reconcile)
    async with s.running():
        task = asyncio.ensure_future(controller.run())
        await asyncio.sleep(5)
        controller.request_stop()
        await settle()
        assert task.done()
        await task


@jumping
async def test_changes_of_children_lead_to_their_owners(scenario_class: Any) -> None:
    s = scenario_class()
    p, q = (config_map(n, version="1") for n in "pq")
    s.transport.answer(is_list, listing("10"), times=2)
    children = s.transport.stream(lambda r: is_watch(r) and r.path.endswith("secrets"))
    s.transport.stream(is_watch)
    seen: list[str] = []

    async def reconcile(key: Key) -> Result:
        seen.append(key.name)
        return Done()

    controller = Builder(s.cache, "parents").for_(ConfigMap).owns(Secret).reconcile(reconcile)
    async with s.running():
        task = asyncio.ensure_future(controller.run())
        children.send(frame("ADDED", {**config_map("c", version="11", owner=p), "kind": "Secret"}))
        await settle()
        assert seen == ["p"]
        children.send(frame("MODIFIED", {**config_map("c", version="12", owner=q), "kind": "Secret"}))
        await settle()
        assert sorted(seen) == ["p", "p", "q"]
        controller.request_stop()
        await task


@jumping
async def test_predicates_judge_updates(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1", generation=1)))
    stream = s.transport.stream(is_watch)
    seen: list[tuple[str, ...]] = []

    async def reconcile(_: Key) -> Result:
        context = current_reconcile.get()
        assert context is not None
        seen.append(context.reasons)
        return Done()

    trigger = Trigger("hand")
    builder = Builder(s.cache).for_(ConfigMap, predicates=[generation_changed]).source(trigger)
    controller = builder.when(labels_match("!mute")).reconcile(reconcile)
    async with s.running():
        task = asyncio.ensure_future(controller.run())
        await settle()
        stream.send(frame("MODIFIED", config_map("a", version="11", generation=1)))
        await settle()
        assert seen == [("ConfigMap added",)]
        stream.send(frame("MODIFIED", config_map("a", version="12", generation=2)))
        await settle()
        stream.send(frame("MODIFIED", config_map("a", version="13", generation=3, labels={"mute": "yes"})))
        await settle()
        trigger(A)
        await settle()
        stream.send(frame("DELETED", config_map("a", version="14", generation=3)))
        await settle()
        assert seen == [("ConfigMap added",), ("ConfigMap modified",), ("hand",), ("ConfigMap deleted",)]
        controller.request_stop()
        await task
    assert any_of(labels_match("a=b"), lambda _: True)(_event())
    assert not all_of(labels_match("a=b"), lambda _: True)(_event())


def _event() -> Any:
    from trainwright.controller.runtime.cache.store import Event, EventType  # noqa: PLC0415

    return Event(EventType.ADDED, A, None, config_map("a"))


@jumping
async def test_limits_are_forgotten_with_the_object(scenario_class: Any) -> None:
    s = scenario_class()
    s.transport.answer(is_list, listing("10", config_map("a", version="1")))
    stream = s.transport.stream(is_watch)

    async def reconcile(key: Key) -> Result:
        if s.cache.get(ConfigMap, key.name, key.namespace) is None:
            return Done()
        raise Terminal("never")

    controller = Builder(s.cache).for_(ConfigMap).reconcile(reconcile)
    controller.queue.limiter.delay(A)
    async with s.running():
        task = asyncio.ensure_future(controller.run())
        await settle()
        stream.send(frame("DELETED", config_map("a", version="11")))
        await settle()
        assert controller.queue.limiter.failures(A) == 0
        controller.request_stop()
        await task
