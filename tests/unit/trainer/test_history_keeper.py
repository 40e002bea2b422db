# SPDX-License-Identifier: Apache-2.0
"""When histories are written, and what becomes of ConfigMaps that others touch; with a clock that jumps."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Self, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.history import KEY, TEXT_BYTES, Point, Ring, read
from trainwright.controller.runtime import Builder, Cache, Controller, Event, EventType, Manager, NotFound
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    KubernetesError,
    TooManyRequests,
    Unreachable,
)
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.history import (
    AT_ONCE,
    INTERVAL_SECONDS,
    WRITE_SECONDS,
    HistoryKeeper,
    _History,
)
from trainwright.controller.trainer.progress.writer import Budget, Pace

START = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


class Maps:
    """The ConfigMaps of an API server: what the keeper uses of a client."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[float, str, str]] = []
        self.error: Callable[[str], KubernetesError | None] = lambda _: None
        self._version = 0

    def with_defaults(self, **_: Any) -> Self:
        return self

    def _call(self, verb: str, name: str) -> None:
        self.calls.append((asyncio.get_running_loop().time(), verb, name))
        if (error := self.error(verb)) is not None:
            raise error

    def keep(self, document: dict[str, Any]) -> ConfigMap:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self.held[document["metadata"]["name"]] = document
        return msgspec.convert(document, ConfigMap)

    async def get(self, _: object, name: str, namespace: str) -> ConfigMap:
        assert namespace == "n"
        self._call("get", name)
        if name not in self.held:
            raise NotFound("no", code=404, reason="NotFound")
        return msgspec.convert(self.held[name], ConfigMap)

    async def create(self, document: dict[str, Any], **_: Any) -> ConfigMap:
        name = document["metadata"]["name"]
        self._call("create", name)
        if name in self.held:
            raise AlreadyExists("it is there", code=409, reason="AlreadyExists")
        return self.keep(document)

    async def patch(self, _: object, name: str, __: str, patch: Mapping[str, Any], **___: Any) -> ConfigMap:
        self._call("patch", name)
        if name not in self.held:
            raise NotFound("no", code=404, reason="NotFound")
        held = self.held[name]
        if held["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"]:
            raise Conflict("changed", code=409, reason="Conflict")
        return self.keep({**held, "data": {**held["data"], **patch["data"]}})

    def verbs(self) -> list[str]:
        return [verb for _, verb, _ in self.calls]


class Leader:
    """What the keeper uses of a manager and its cache."""

    def __init__(self, maps: Maps) -> None:
        self.client, self.cache = maps, self
        self.jobs: dict[str, TrainJob] = {}
        self.controllers: list[Controller] = []

    def controller(self, name: str) -> Builder:
        return Builder(cast("Cache", self), name, register=self.controllers.append)

    def add(self, runnable: object, *_: object) -> None:
        """The test runs it."""

    async def wait_synced(self, _: object) -> None:
        """The list is there."""

    def list(self, _: type[TrainJob]) -> list[TrainJob]:
        return [*self.jobs.values()]


class Bench:
    """TrainJobs that report, and a keeper."""

    def __init__(self, maps: Maps | None = None, **pace: Any) -> None:
        self.maps = maps or Maps()
        self.registry = CollectorRegistry()
        self.leader = Leader(self.maps)
        self.jobs = self.leader.jobs
        self.attempts: dict[str, int] = {}
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        self.records = JobRecords()
        self.keeper = HistoryKeeper(
            cast("Manager", self.leader),
            Budget(Pace(**pace), loop.time),
            self.registry,
            self.records,
            attempt_of=lambda job: self.attempts.get(job.name),
            now=self.clock,
            uniform=lambda _, high: high,
        )

    async def run(self) -> None:
        """What a leader runs, until a stop is asked for."""
        async with TaskScope("leader") as tasks:
            running = [tasks.start("c", self.leader.controllers[0].run()), tasks.start("k", self.keeper.run())]
            await asyncio.wait(running)

    def stop(self) -> None:
        self.leader.controllers[0].request_stop()
        self.keeper.request_stop()

    # What the test does.

    def clock(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    def put(self, name: str, *, uid: str = "", end: str = "", **status: Any) -> TrainJob:
        """A TrainJob as the cache shows it from now on."""
        held = self.jobs.get(name)
        whole = msgspec.to_builtins(held.status) if held is not None and held.status is not None else {}
        whole.update(status)
        if end:
            told = {"type": end, "status": "True", "reason": "r", "message": "", "lastTransitionTime": self._now()}
            whole["conditions"] = [told]
        metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-of-{name}"}
        document = {"metadata": metadata, "spec": {"runtimeRef": {"name": "r"}}, "status": whole}
        self.jobs[name] = job = msgspec.convert(document, TrainJob)
        return job

    def show(self, name: str, **change: Any) -> None:
        """The watch shows a change."""
        old = self.jobs.get(name)
        job = self.put(name, **change)
        kind = EventType.ADDED if old is None else EventType.MODIFIED
        self.records.handle(Event(kind, Key("n", name), old, job))

    def report(self, name: str, percentage: int, **metrics: float) -> None:
        self.show(name, trainerStatus=self.value(percentage, **metrics))

    def value(self, percentage: int, **metrics: float) -> dict[str, Any]:
        pairs = [{"name": key, "value": str(value)} for key, value in metrics.items()]
        return {"progressPercentage": percentage, "lastUpdatedTime": self._now(), "metrics": pairs}

    def delete(self, name: str) -> None:
        job = self.jobs.pop(name)
        self.maps.held.pop(f"{name}-progress", None)
        self.records.handle(Event(EventType.DELETED, Key("n", name), job, None))

    def _now(self) -> str:
        return format_time(self.clock())

    def ring(self, name: str) -> Ring:
        return read(self.maps.held[f"{name}-progress"]["data"])

    def points(self, name: str) -> list[Point]:
        return self.ring(name).points()

    def percentages(self, name: str) -> list[int | None]:
        return [point.percentage for point in self.points(name)]

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("trainer_progress_history_writes_total", {"result": result}) or 0


@asynccontextmanager
async def bench(
    maps: Maps | None = None, *, before: Callable[[Bench], None] | None = None, **pace: Any
) -> AsyncIterator[Bench]:
    made = Bench(maps, **pace)
    if before is not None:
        before(made)
    task = asyncio.ensure_future(made.run())
    await settle()
    try:
        yield made
    finally:
        made.stop()
        await task


async def train(b: Bench, name: str, seconds: int, *, begin: int = 0) -> None:
    """Report each ten seconds."""
    for second in range(0, seconds, 10):
        b.report(name, min(99, begin + second * 100 // 6000), loss=1 / (1 + second), current_step=float(second))
        await asyncio.sleep(10)


@jumping
async def test_a_job_is_written_every_five_minutes_and_at_its_end() -> None:
    async with bench() as b:
        await train(b, "a", 1_500)
        times = [round(at) for at, verb, _ in b.maps.calls if verb != "get"]
        assert times == [300, 600, 900, 1200, 1500]
        assert b.maps.verbs()[:2] == ["get", "create"]
        b.report("a", 100, loss=0.0)
        b.show("a", end="Complete")
        await asyncio.sleep(1)
        assert b.percentages("a")[-1] == 100
        assert len(b.points("a")) == 151
        assert b.count("stored") == len(times) + 1


@jumping
async def test_a_late_report_is_added_to_what_is_stored() -> None:
    async with bench() as b:
        await train(b, "a", 100)
        b.show("a", end="Complete")
        await asyncio.sleep(5)
        before = b.percentages("a")
        b.report("a", 100)
        await asyncio.sleep(61)
        assert b.percentages("a") == [*before, 100]


@jumping
async def test_nothing_is_called_after_a_start_until_a_job_reports() -> None:
    maps = Maps()
    async with bench(maps) as b:
        await train(b, "a", 400)
    stored = b.percentages("a")
    maps.calls.clear()

    def before(again: Bench) -> None:
        again.put("a", trainerStatus=b.value(stored[-1] or 0))
        again.put("never", trainerStatus=None)
        again.put("ended", trainerStatus=b.value(3))
        again.jobs["ended"] = again.put("ended")

    async with bench(maps, before=before) as again:
        await asyncio.sleep(3600)
        assert maps.calls == []
        again.report("a", 50)
        await asyncio.sleep(301)
        assert maps.verbs() == ["get", "patch"]
        assert again.percentages("a")[: len(stored)] == stored
        assert again.percentages("a")[-1] == 50


@jumping
async def test_a_job_that_ended_while_no_manager_led_gets_its_last_point() -> None:
    maps = Maps()
    async with bench(maps) as b:
        await train(b, "a", 400)

    def before(again: Bench) -> None:
        again.put("a", trainerStatus=again.value(100), end="Complete")

    async with bench(maps, before=before) as again:
        await asyncio.sleep(10)
        assert again.percentages("a")[-1] == 100
        assert len(again.percentages("a")) == 41
    calls = len(maps.calls)

    def long_ago(again: Bench) -> None:
        before(again)
        again.keeper._now = lambda: again.clock() + timedelta(days=1)

    async with bench(maps, before=long_ago):
        await asyncio.sleep(10)
    assert len(maps.calls) == calls


@jumping
async def test_what_is_left_is_written_at_a_graceful_stop() -> None:
    async with bench(rate=0.001, burst=1) as b:
        for number in range(40):
            b.report(f"job-{number}", 7)
        await asyncio.sleep(1)
        assert not b.maps.held
    assert len(b.maps.held) == 40


@jumping
@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_stop_does_not_wait_for_the_budget(is_silent: bool) -> None:
    async with bench(rate=0.001, burst=1) as b:
        b.report("a", 7)
        await asyncio.sleep(299)
        # What comes due in a second waits for Retry-After, or for the rate.
        if is_silent:
            b.keeper._budget.be_silent(60)
        else:
            b.keeper._budget.take()
        await asyncio.sleep(5)
        assert not b.maps.held
        begin = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begin < 1
    assert b.percentages("a") == [7]


@jumping
async def test_the_rate_of_all_writes_holds() -> None:
    async with bench(rate=2.0, burst=1) as b:
        for number in range(100):
            b.report(f"job-{number}", 7)
        await asyncio.sleep(400)
        times = [at for at, verb, _ in b.maps.calls if verb == "create"]
        assert len(times) == 100
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.49


@jumping
async def test_a_foreign_config_map_is_left_alone_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    maps = Maps()
    foreign = {"metadata": {"name": "a-progress", "namespace": "n"}, "data": {KEY: "mine"}}
    maps.keep(foreign)
    async with bench(maps) as b:
        with caplog.at_level(logging.WARNING):
            await train(b, "a", 4_000)
        assert maps.held["a-progress"] == foreign
        assert set(maps.verbs()) == {"get"}
        assert len(maps.calls) <= 8
        (record,) = caplog.records
        assert "is not kept, because ConfigMap a-progress is not the manager's" in record.getMessage()
        del maps.held["a-progress"]
        await train(b, "a", 700, begin=50)
        assert len(b.points("a")) > 400 / 2


@jumping
async def test_the_config_map_of_a_deleted_namesake_is_left_to_the_garbage_collector() -> None:
    async with bench() as b:
        await train(b, "a", 400)
        held = b.maps.held["a-progress"]
        b.delete("a")
        b.maps.held["a-progress"] = held
        b.show("a", uid="another")
        b.report("a", 1)
        b.show("a", uid="another", trainerStatus=b.value(2))
        await asyncio.sleep(310)
        assert b.maps.held["a-progress"] is held
        del b.maps.held["a-progress"]
        await asyncio.sleep(700)
        assert len(b.points("a")) <= 3
        assert b.maps.held["a-progress"]["metadata"]["ownerReferences"][0]["uid"] == "another"


@pytest.mark.parametrize("damage", ["edited", "deleted"])
def test_what_others_do_to_it_is_mended_and_said_once(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    @jumping
    async def mended() -> None:
        async with bench() as b:
            with caplog.at_level(logging.WARNING):
                await train(b, "a", 400)
                for _ in range(2):
                    held = b.maps.held.pop("a-progress")
                    if damage == "edited":
                        b.maps.keep({**held, "metadata": dict(held["metadata"]), "data": {KEY: "nonsense"}})
                    await train(b, "a", 400)
            assert len(b.points("a")) >= 100
            (record,) = caplog.records
            assert ("changed by another program" if damage == "edited" else "made again") in record.getMessage()

    mended()


@jumping
async def test_a_damaged_one_is_begun_again_by_the_next_manager(caplog: pytest.LogCaptureFixture) -> None:
    maps = Maps()
    async with bench(maps) as b:
        await train(b, "a", 400)
    maps.held["a-progress"]["data"] = {KEY: '{"version":1'}
    with caplog.at_level(logging.WARNING):
        async with bench(maps) as again:
            await train(again, "a", 400, begin=50)
    assert len(again.points("a")) == 40
    (record,) = caplog.records
    assert "is damaged and begins again" in record.getMessage()


@jumping
async def test_a_refusal_is_tried_again_ever_more_rarely_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as b:
        b.maps.error = lambda verb: Forbidden("no", code=403, reason="Forbidden") if verb == "create" else None
        with caplog.at_level(logging.WARNING):
            await train(b, "a", 3_000)
        assert len(caplog.records) == 1
        assert b.maps.verbs().count("create") <= 3_000 / INTERVAL_SECONDS
        b.maps.error = lambda _: None
        await train(b, "a", 700, begin=50)
        assert b.points("a")[0].percentage == 0
        assert len(b.points("a")) > 150


@jumping
async def test_retry_after_holds_for_all() -> None:
    async with bench() as b:
        b.maps.error = lambda _: TooManyRequests("busy", code=429, reason="TooManyRequests", retry_after=100.0)
        b.report("a", 1)
        b.report("b", 1)
        await asyncio.sleep(350)
        assert len(b.maps.calls) == 1
        b.maps.error = lambda _: None
        await asyncio.sleep(400)
        assert set(b.maps.held) == {"a-progress", "b-progress"}


@jumping
async def test_a_restart_of_the_jobset_is_the_next_attempt() -> None:
    async with bench() as b:
        b.attempts["a"] = 1
        await train(b, "a", 200)
        b.attempts["a"] = 2
        await train(b, "a", 200)
        b.show("a", end="Complete")
        await asyncio.sleep(1)
        points = b.points("a")
        assert [(point.segment, point.attempt) for point in points] == [(0, 1)] * 20 + [(1, 2)] * 20


@jumping
async def test_a_create_whose_answer_was_lost_stores_no_point_twice() -> None:
    class Losing(Maps):
        """Carries out the first create, and loses its answer."""

        async def create(self, document: dict[str, Any], **options: Any) -> ConfigMap:
            made = await super().create(document, **options)
            if self.verbs().count("create") == 1:
                raise Unreachable("the connection broke before the answer")
            return made

    async with bench(Losing()) as b:
        await train(b, "a", 600)
        await asyncio.sleep(400)
        stored = b.points("a")
        assert len(stored) == 60
        assert all(one.at < other.at for one, other in pairwise(stored))
        # Once it is stored, what is read again is kept again, also after a failure.
        b.show("a", end="Complete")
        await asyncio.sleep(100)
        b.maps.error = lambda verb: Unreachable("away") if verb == "get" else None
        b.report("a", 100)
        await asyncio.sleep(1)
        b.maps.error = lambda _: None
        await asyncio.sleep(600)
        assert b.points("a")[:60] == stored
        assert b.percentages("a")[60:] == [100]


@jumping
async def test_a_job_of_another_manager_and_a_deleted_one_are_left_alone() -> None:
    async with bench() as b:
        b.report("a", 1)
        b.report("b", 1)
        b.delete("a")
        job = b.put("b")
        assert job.spec is not None
        job.spec.managed_by = "kueue.x-k8s.io/multikueue"
        b.records.handle(Event(EventType.MODIFIED, Key("n", "b"), job, job))
        await asyncio.sleep(1000)
        assert b.maps.calls == []


@jumping
async def test_a_replica_that_does_not_lead_keeps_nothing() -> None:
    b = Bench()
    b.report("a", 1)
    assert not list(b.records.each(_History))


@jumping
async def test_a_long_run_with_hostile_metrics_stays_small() -> None:
    async with bench() as b:
        for second in range(3_000):
            pairs = [{"name": f"{index}{chr(0)}" + "\N{PILE OF POO}" * 60, "value": "1e-300"} for index in range(256)]
            if second % 500 == 0:
                b.show("a", trainerStatus={**b.value(1), "metrics": pairs})
            else:
                b.report("a", 1, loss=second)
            await asyncio.sleep(1)
        assert all(len(held["data"][KEY].encode()) <= TEXT_BYTES for held in b.maps.held.values())
        assert "loss" in b.ring("a").metrics


class SlowMaps(Maps):
    """An API server that answers what concerns some names late, or not at all."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        super().__init__()
        self.seconds = dict(seconds)
        self.now = self.most = 0

    async def create(self, document: dict[str, Any], **more: Any) -> ConfigMap:
        name = document["metadata"]["name"].removesuffix("-progress")
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds.get(name, 0.0))
        finally:
            self.now -= 1
        return await super().create(document, **more)


@jumping
async def test_a_write_that_hangs_holds_up_no_other() -> None:
    names = [f"j{number}" for number in range(40)]
    maps = SlowMaps({"j0": 3600.0, "j1": 3600.0, "j2": 5.0})
    async with bench(maps) as b:
        for name in names:
            b.report(name, 10)
        await asyncio.sleep(INTERVAL_SECONDS + 3)
        assert set(names) - {name.removesuffix("-progress") for name in maps.held} == {"j0", "j1", "j2"}
        assert maps.most <= AT_ONCE
        # It is given up, and tried again later.
        maps.seconds.clear()
        await asyncio.sleep(WRITE_SECONDS + 60)
        assert len(maps.held) == len(names)
        assert b.count("failed") == 2


@jumping
async def test_no_job_is_written_twice_at_once_and_its_end_is_written_at_once() -> None:
    maps = SlowMaps({"j": 4.0})
    async with bench(maps) as b:
        b.report("j", 10)
        await asyncio.sleep(INTERVAL_SECONDS + 1)
        assert maps.now == 1
        b.show("j", end="Complete", trainerStatus=b.value(100))
        await asyncio.sleep(1)
        assert (maps.now, maps.most) == (1, 1)
        await asyncio.sleep(3)
        assert maps.verbs() == ["get", "create", "patch"]
        assert b.percentages("j") == [10, 100]


@jumping
async def test_a_stop_waits_for_what_is_being_written() -> None:
    maps = SlowMaps({"j": 4.0})
    async with bench(maps) as b:
        b.report("j", 10)
        await asyncio.sleep(INTERVAL_SECONDS + 1)
        assert maps.now == 1
        b.report("j", 20)
    assert maps.verbs() == ["get", "create", "patch"]
    assert b.percentages("j") == [10, 20]


@jumping
async def test_a_write_that_was_carried_out_after_it_was_given_up_is_not_taken_for_that_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Late(SlowMaps):
        async def patch(self, _: object, name: str, __: str, patch: Mapping[str, Any], **___: Any) -> ConfigMap:
            changed = await super().patch(_, name, __, patch)
            await asyncio.sleep(self.seconds.get("patch", 0.0))
            return changed

    maps = Late({})
    async with bench(maps) as b:
        await train(b, "a", 310)
        maps.seconds["patch"] = 3600.0
        await train(b, "a", 310, begin=10)
        maps.seconds.clear()
        await train(b, "a", 60, begin=20)
    assert b.count("failed") == 1
    assert "by another program" not in caplog.text
    assert len(b.points("a")) == 68
