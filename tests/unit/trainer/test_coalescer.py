# SPDX-License-Identifier: Apache-2.0
"""Which accepted values are written, and when; with a clock that jumps."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.builders import condition, train_job
from tests.cases import cases
from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Event, NotFound
from trainwright.controller.runtime.cache.store import EventType, InformerStore
from trainwright.controller.runtime.errors import Conflict, Invalid, KubernetesError, TooManyRequests, Unreachable
from trainwright.controller.runtime.testing.clock import JumpingLoop, jumping
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.report import (
    InvalidReport,
    JobReports,
    ProgressReport,
    ReportSource,
    UnknownJob,
    checked,
)
from trainwright.controller.trainer.progress.writer import IN_FLIGHT, WRITE_SECONDS, Coalescer, Pace, Superseded

CASES = cases(__file__)
START = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


class Bench:
    """A coalescer, and an API server that keeps what is written."""

    def __init__(self, **pace: Any) -> None:
        self.registry = CollectorRegistry()
        self.records = JobRecords()
        self.coalescer = Coalescer(self.write, Pace(**pace), ProgressMetrics(self.registry), self.records)
        self.writes: list[tuple[float, str, TrainerStatus]] = []
        self.attempts: list[tuple[float, str]] = []
        self.error: Callable[[str], KubernetesError | None] = lambda _: None
        self.slow = 0.0
        self.conditions: dict[str, list[dict[str, Any]]] = {}
        self.values: dict[str, TrainerStatus] = {}

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def write(self, key: Key, uid: str, status: TrainerStatus) -> None:
        self.attempts.append((self.now, key.name))
        assert uid == f"uid-of-{key.name}"
        if self.slow:
            await asyncio.sleep(self.slow)
        if (error := self.error(key.name)) is not None:
            raise error
        self.show(key.name, status)
        self.writes.append((self.now, key.name, status))

    def job(self, name: str) -> TrainJob:
        """The TrainJob as the cache shows it."""
        progress = msgspec.to_builtins(self.values[name]) if name in self.values else None
        return train_job(name, uid=f"uid-of-{name}", progress=progress, conditions=self.conditions.get(name), status={})

    def show(self, name: str, status: TrainerStatus | None = None) -> None:
        """The watch shows a change of a TrainJob."""
        old = self.job(name)
        if status is not None:
            self.values[name] = status
        self.records.handle(Event(EventType.MODIFIED, Key("n", name), old, self.job(name)))

    async def report(self, name: str, percentage: int | None = None, **options: Any) -> None:
        source = options.pop("source", ReportSource.PUSH)
        pod = options.pop("pod", "")
        report = self.value(percentage, **options)
        report.source, report.pod = source, pod
        await self.coalescer.accept(self.job(name), report)

    def reports(self, name: str) -> JobReports | None:
        """What is remembered of the reports of a TrainJob."""
        return self.records.find(Key("n", name), f"uid-of-{name}", JobReports)

    def value(self, percentage: int | None = None, *, at: datetime | None = None, **metrics: str) -> ProgressReport:
        status = TrainerStatus(progress_percentage=percentage, last_updated_time=format_time(at or self.clock()))
        if metrics:
            pairs = [{"name": name, "value": value} for name, value in metrics.items()]
            status = msgspec.convert({**msgspec.to_builtins(status), "metrics": pairs}, TrainerStatus)
        return checked(Key("n", "x"), status)

    def clock(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def percentages(self, name: str = "a") -> list[int | None]:
        return [status.progress_percentage for _, job, status in self.writes if job == name]

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"trainer_progress_{name}", labels) or 0.0


@asynccontextmanager
async def bench(**pace: Any) -> AsyncIterator[Bench]:
    made = Bench(**pace)
    task = asyncio.ensure_future(made.coalescer.run())
    try:
        yield made
    finally:
        made.coalescer.request_stop()
        await task


async def every(seconds: float, times: int, step: Callable[[int], Awaitable[None]]) -> None:
    for number in range(times):
        await step(number)
        await asyncio.sleep(seconds)


class Script:
    """What happens to a coalescer, one word after the other.

    `a=50` reports 50 % of TrainJob a; `:loss=1` adds a metric, `@-9` a clock that is 9 s behind, `!final` the source;
    `&` does not wait for the answer, `wait` does. `5*.1:a` reports 0 to 4, each .1 s later. `.5` passes that time.
    `show:a=60` is a value that another replica stores. Writes take `slow` seconds, and `fails`, until it `works`.
    """

    def __init__(self, b: Bench) -> None:
        self._b = b
        self._begun: list[asyncio.Future[None]] = []

    async def run(self, text: str) -> None:
        b = self._b
        for word in text.split():
            what, _, rest = word.partition(":")
            name, _, value = rest.partition("=")
            if word in ("fails", "fails1", "works"):
                b.error = lambda _, word=word: (  # type: ignore[misc]
                    Unreachable("away") if word == "fails" or (word == "fails1" and len(b.attempts) == 1) else None
                )
            elif word == "wait":
                await asyncio.gather(*self._begun)
            elif word.startswith("slow="):
                b.slow = float(word.removeprefix("slow="))
            elif what == "deleted":
                b.records.handle(Event(EventType.DELETED, Key("n", rest), b.job(rest), None))
            elif what == "ends":
                b.conditions[name] = ended(value)
                b.show(name)
            elif what == "show":
                percentage, _, late = value.partition("@")
                b.show(name, b.value(int(percentage), at=b.clock() + timedelta(seconds=float(late or 0))).status)
            elif "*" in what:
                times, _, pause = what.partition("*")
                await every(float(pause), int(times), lambda number, name=rest: b.report(name, number))  # type: ignore[misc]
            elif "=" in word:
                await self._report(word)
            else:
                await asyncio.sleep(float(word))

    async def _report(self, word: str) -> None:
        found = re.fullmatch(r"(&?)(\w+)=(\d+)(?::(\w+)=(\w+))?(?:@(-?\d+))?(?:!(\w+))?", word)
        assert found is not None, word
        begins, name, percentage, metric, value, late, source = found.groups()
        options: dict[str, Any] = {metric: value} if metric else {}
        if source:
            options["source"] = ReportSource(source)
        at = self._b.clock() + timedelta(seconds=float(late or 0))
        report = asyncio.ensure_future(self._b.report(name, int(percentage), at=at, **options))
        if begins:
            self._begun.append(report)
        else:
            await report


@jumping
@pytest.mark.parametrize("case", CASES["which_values_are_written"].values(), ids=CASES["which_values_are_written"])
async def test_which_values_are_written(case: dict[str, Any]) -> None:
    async with bench(**case.get("pace", {})) as b:
        await Script(b).run(case["do"])
        assert b.percentages() == case["stored"]
        if "at" in case:
            assert [round(at, 3) for at, _, _ in b.writes] == case["at"]
        if "last" in case:
            assert b.writes[-1][0] == pytest.approx(case["last"], abs=1.1)
        assert len(b.attempts) == case.get("attempts", len(b.attempts))
        assert b.metric("writes_total", result="superseded") == case.get("superseded", 0)


@jumping
async def test_a_hundred_reports_in_ten_seconds_are_four_writes_at_most() -> None:
    async with bench() as b:
        await every(0.1, 100, lambda number: b.report("a", number % 99))
        assert len(b.writes) <= 4
        await asyncio.sleep(10)
        assert b.percentages()[-1] == 0
        assert b.metric("coalesced_total") == 100 - len(b.writes)


@jumping
async def test_reports_in_the_long_run_are_one_write_each_interval() -> None:
    async with bench(interval=20) as b:
        await every(5, 200, lambda number: b.report("a", number % 100, step=str(number)))
        assert 50 <= len(b.writes) <= 53


@jumping
async def test_values_that_differ_in_their_time_alone_are_written_once_a_minute() -> None:
    async with bench() as b:
        await every(5, 120, lambda _: b.report("a", 50))
        assert 10 <= len(b.writes) <= 11
        assert b.writes[-1][2].last_updated_time != b.writes[0][2].last_updated_time


@jumping
async def test_a_hundred_percent_is_written_at_once_and_before_the_answer() -> None:
    async with bench() as b:
        await every(0.1, 10, lambda number: b.report("a", 90 + number))
        begin = b.now
        await b.report("a", 100)
        assert b.now == begin
        assert b.percentages()[-1] == 100


@jumping
async def test_only_the_first_hundred_percent_is_urgent() -> None:
    async with bench() as b:
        await every(1, 60, lambda number: b.report("a", 100, step=str(number)))
        assert len(b.writes) <= 9


@jumping
async def test_the_answer_to_a_hundred_percent_waits_three_seconds_for_a_slow_api_server() -> None:
    async with bench() as b:
        b.slow = 10.0
        begin = b.now
        await b.report("a", 100)
        assert b.now - begin == pytest.approx(3)
        assert b.writes == []
        await asyncio.sleep(8)
        assert b.percentages() == [100]


@jumping
@pytest.mark.parametrize("error", [None, Invalid("no such field", code=422)])
async def test_the_answer_to_a_hundred_percent_is_not_the_outcome_of_an_older_value(error: Invalid | None) -> None:
    async with bench() as b:
        b.slow = 1.0
        b.error = lambda _: error if len(b.attempts) == 1 else None
        await b.report("a", 50)
        await asyncio.sleep(0.1)  # it is on its way
        await b.report("a", 100)
        assert b.percentages()[-1:] == [100]
        assert b.now == pytest.approx(2, abs=0.1)


# ---------------------------------------------------------------------- many TrainJobs


@jumping
async def test_many_due_trainjobs_are_written_at_the_rate_the_longest_unwritten_first_and_100_percent_before_all() -> (
    None
):
    async with bench(rate=20, burst=40) as b:
        names = [f"job-{number}" for number in range(400)]
        for name in names:
            await b.report(name, 1)
        await asyncio.sleep(10)
        assert 239 <= len(b.writes) <= 242
        assert [name for _, name, _ in b.writes] == names[: len(b.writes)]
        for name in names[:200]:  # those were written; all others still wait
            await b.report(name, 2)
        await b.report("job-0", 100)
        assert b.writes[-1][1] == "job-0"
        assert b.now - 10 < 0.2
        await asyncio.sleep(8)
        written = [name for _, name, _ in b.writes[241:]]
        assert written[: 400 - 242] == [name for name in names[240:] if name in written][: 400 - 242]


@jumping
async def test_a_new_trainjob_and_a_hundred_percent_do_not_wait_behind_others() -> None:
    async with bench() as b:
        names = [f"job-{number}" for number in range(999)]

        async def all_report(number: int) -> None:
            for name in names:
                await b.report(name, number % 99)

        load = asyncio.ensure_future(every(5, 40, all_report))
        await asyncio.sleep(100)
        begin = b.now
        await b.report("new", 1)
        await asyncio.sleep(1)
        assert b.percentages("new") == [1]
        begin = b.now
        await b.report("job-500", 100)
        assert b.now - begin < 1
        assert b.percentages("job-500")[-1] == 100
        per_second = len([at for at, _, _ in b.writes if 50 <= at < 100]) / 50
        assert per_second == pytest.approx(20, rel=0.05)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)


@jumping
async def test_without_a_limit_all_due_values_are_written() -> None:
    async with bench(rate=None) as b:
        for number in range(500):
            await b.report(f"job-{number}", 1)
        await asyncio.sleep(0.1)
        assert len(b.writes) == 500


# ---------------------------------------------------------------------- failures


@jumping
async def test_while_the_api_server_is_away_the_newest_value_is_kept_and_written_once() -> None:
    async with bench() as b:
        await every(1, 12, lambda number: b.report("a", number))
        b.writes.clear()
        b.error = lambda _: Unreachable("away")
        await every(5, 24, lambda number: b.report("a", 20 + number))
        assert b.writes == []
        assert len([at for at, _ in b.attempts if at > 12]) <= 10
        b.error = lambda _: None
        await asyncio.sleep(61)
        assert b.percentages() == [43]


@jumping
async def test_the_api_server_says_when_to_come_back_and_nothing_is_written_before() -> None:
    async with bench() as b:
        b.error = lambda _: TooManyRequests("slow down", code=429, retry_after=7.0)
        await b.report("a", 1)
        await asyncio.sleep(0.1)
        b.error = lambda _: None
        await b.report("b", 1)
        await asyncio.sleep(6.8)
        assert b.writes == []
        await asyncio.sleep(0.5)
        assert {name for _, name, _ in b.writes} == {"a", "b"}


@jumping
async def test_a_trainjob_that_is_gone_is_forgotten() -> None:
    async with bench() as b:
        gone: list[KubernetesError] = [NotFound("gone", code=404), Conflict("another uid", code=409)]
        for error in gone:
            b.error = lambda _, error=error: error  # type: ignore[misc]
            with pytest.raises(UnknownJob):
                await b.report("a", 100)
            assert b.reports("a") is None
        b.error = lambda _: None
        await asyncio.sleep(100)
        assert b.writes == []
        assert b.metric("writes_total", result="gone") == 2


@jumping
async def test_what_the_api_server_refuses_is_dropped_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as b:
        b.error = lambda _: Invalid("no such field", code=422)
        with pytest.raises(InvalidReport, match="no such field"):
            await b.report("a", 100)
        await b.report("a", 5)
        await asyncio.sleep(100)
        assert len(b.attempts) == 2
        assert len([record for record in caplog.records if "refuses" in record.getMessage()]) == 1
        b.error = lambda _: None
        await b.report("a", 6)
        await asyncio.sleep(1)
        assert b.percentages() == [6]


@jumping
async def test_a_defect_in_the_writer_costs_no_other_trainjob_anything(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as b:

        def fail(name: str) -> KubernetesError | None:
            if name == "bad":
                raise RuntimeError("a defect")
            return None

        b.error = fail
        await b.report("bad", 1)
        await b.report("a", 1)
        await asyncio.sleep(0.1)
        assert b.percentages() == [1]
        assert "a defect" in caplog.text


# ---------------------------------------------------------------------- other replicas


@jumping
async def test_a_trainjob_is_stuck_until_another_replica_stores_a_newer_value() -> None:
    async with bench() as b:
        b.error = lambda _: Unreachable("away")
        await b.report("a", 50)
        await asyncio.sleep(0.5)
        found = b.reports("a")
        assert found is not None
        assert found.is_stuck
        b.show("a", b.value(60).status)
        found = b.reports("a")
        assert found is not None
        assert not found.is_stuck


@jumping
async def test_a_value_that_the_writer_finds_superseded_is_dropped() -> None:
    async with bench() as b:
        newer = b.value(100, at=START + timedelta(seconds=5)).status
        b.error = lambda _: Superseded(Key("n", "a"), newer)
        await b.report("a", 100)  # it is answered: the job has 100 %
        await asyncio.sleep(600)
        assert (b.now, len(b.attempts)) == (600, 1)
        assert b.metric("writes_total", result="superseded") == 1
        assert b.metric("writes_total", result="failed") == 0


@jumping
async def test_an_own_value_whose_answer_was_lost_supersedes_nothing() -> None:
    async with bench() as b:
        ahead = b.value(50, at=START + timedelta(seconds=60))  # of a pod whose clock is ahead
        errors: list[KubernetesError] = [Unreachable("the answer is lost"), Superseded(Key("n", "a"), ahead.status)]
        b.error = lambda _: errors.pop(0) if errors else None
        await b.coalescer.accept(b.job("a"), ahead)
        await asyncio.sleep(0.1)
        await b.report("a", 51)
        await asyncio.sleep(30)
        assert b.percentages() == [51]


@jumping
async def test_own_writes_that_the_watch_shows_late_are_known() -> None:
    async with bench() as b:
        await every(0.1, 3, lambda number: b.report("a", number))
        await b.report("a", 50)
        for _, _, status in list(b.writes):
            b.show("a", status)
        await asyncio.sleep(10)
        assert b.percentages() == [0, 1, 2, 50]
        assert b.metric("writes_total", result="superseded") == 0


# ---------------------------------------------------------------------- finished TrainJobs


def ended(kind: str) -> list[dict[str, Any]]:
    time = "2020-01-01T00:00:00Z"
    return [condition(kind, at=time)]


@jumping
async def test_late_reports_of_a_complete_trainjob_are_stored_unless_they_take_progress_back() -> None:
    async with bench() as b:
        b.conditions["a"] = ended("Complete")
        await b.report("a", 60)
        await b.report("a", 100)
        for percentage in (40, None):
            await b.report("a", percentage)
            await asyncio.sleep(100)
        assert b.percentages()[-1] == 100
        assert b.metric("reports_total", source="push", result="ignored") == 2


@jumping
async def test_a_finished_trainjob_is_written_once_a_minute() -> None:
    async with bench() as b:
        b.conditions["a"] = ended("Failed")
        await every(5, 120, lambda number: b.report("a", number % 99))
        assert 12 <= len(b.writes) <= 14


# ---------------------------------------------------------------------- who reported, and the end


@jumping
async def test_the_last_reports_of_pods_are_known() -> None:
    async with bench() as b:
        for number in range(70):
            await b.report("a", 1, pod=f"pod-{number}")
            await asyncio.sleep(1)
        await b.report("a", 1, pod="pod-10", source=ReportSource.FILE)
        found = b.reports("a")
        assert found is not None
        assert len(found.pods) == 64
        assert (found.pods["pod-69"], found.pods["pod-10"], found.last_push) == (69.0, 70.0, 69.0)
        assert b.reports("b") is None


@jumping
async def test_a_finished_trainjob_that_is_silent_is_forgotten() -> None:
    async with bench() as b:
        b.conditions["a"] = ended("Failed")
        await b.report("a", 1)
        await every(30, 30, lambda number: b.report("b", number))
        assert b.reports("a") is None
        assert b.reports("b") is not None


@jumping
async def test_a_stop_writes_everything_100_percent_first() -> None:
    async with bench(rate=1, burst=1) as b:
        for number in range(1000):
            await b.report(f"job-{number}", 1)
        last = asyncio.ensure_future(b.report("job-999", 100))
        b.slow = 0.01
        await asyncio.sleep(0)
    await last
    assert len({name for _, name, _ in b.writes}) == 1000
    assert [name for _, name in b.attempts].index("job-999") <= 1
    assert b.metric("lost_total") == 0


@jumping
async def test_reports_of_a_job_that_the_cache_does_not_show_yet_are_paced_and_written_at_a_stop() -> None:
    async with bench() as b:
        informer: Any = SimpleNamespace(store=InformerStore(), add_handler=lambda *_, **__: None)
        cache: Any = SimpleNamespace(informer=lambda _: informer)
        b.records.watch(cache)
        for percentage in range(1, 7):
            await b.report("a", percentage)
        await asyncio.sleep(0.1)
        assert len(b.writes) < 6
    assert b.percentages()[-1] == 6


@jumping
async def test_a_stop_gives_up_and_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as b:
        b.error = lambda _: Unreachable("away")
        for number in range(3):
            await b.report(f"job-{number}", 1)
        begin = b.now
    assert asyncio.get_running_loop().time() - begin == pytest.approx(15, abs=1)
    assert b.metric("lost_total") == 3
    assert "3 values of progress are lost" in caplog.text


@jumping
async def test_values_that_cannot_be_stored_do_not_keep_others_from_it_at_a_stop() -> None:
    async with bench(rate=1, burst=1) as b:
        b.error = lambda name: Unreachable("away") if name.startswith("bad") else None
        for number in range(2 * IN_FLIGHT):
            await b.report(f"bad-{number}", 1)
        for number in range(1000):
            await b.report(f"job-{number}", 1)
    assert len({name for _, name, _ in b.writes}) == 1000
    assert b.metric("lost_total") == 2 * IN_FLIGHT


@jumping
async def test_writes_that_hang_free_their_places() -> None:
    async with bench(rate=1000, burst=1000) as b:
        store = b.coalescer._store

        async def hangs(key: Key, uid: str, status: TrainerStatus) -> None:
            if key.name.startswith("bad"):
                await asyncio.Event().wait()
            await store(key, uid, status)

        b.coalescer._store = hangs
        for number in range(IN_FLIGHT):
            await b.report(f"bad-{number}", 1)
        await asyncio.sleep(1)
        await b.report("a", 1)
        await asyncio.sleep(WRITE_SECONDS + 1)
        assert b.percentages() == [1]
        assert b.metric("writes_total", result="failed") == IN_FLIGHT
        b.coalescer._store = store
        await asyncio.sleep(61)
        assert len({name for _, name, _ in b.writes}) == IN_FLIGHT + 1


@jumping
async def test_a_stop_that_is_cut_short_counts_what_was_on_its_way() -> None:
    made = Bench()
    task = asyncio.ensure_future(made.coalescer.run())
    made.slow = 100.0
    await made.report("a", 1)
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert made.metric("lost_total") == 1


@jumping
async def test_with_nothing_to_write_nothing_happens() -> None:
    async with bench() as b:
        await asyncio.sleep(3600)
        assert b.attempts == []
        assert isinstance(asyncio.get_running_loop(), JumpingLoop)
