# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - stand-ins have the signatures of what they stand for
"""The order of the checks of a report, its rate, and where a TrainJob is looked up."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tests.builders import train_job
from tests.reports import path_of, progress
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime.errors import (
    ConnectionLost,
    NotCached,
    NotFound,
    NotSynced,
)
from trainwright.controller.runtime.servers.bounded import BodyTooLarge, BoundedAnswer
from trainwright.controller.runtime.testing.clock import ManualClock
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.access import AccessUnknown, ReportAccess, ReporterForbidden, ReportingPod
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.report import JobReports
from trainwright.controller.trainer.progress.server import JobLookup, StatusEndpoint
from trainwright.controller.trainer.progress.writer import Coalescer, Pace

SPACE = "space"


class FakeCall:
    """A request."""

    def __init__(self, path: str, body: Any, *, method: str = "POST", length: int | None = None) -> None:
        self.method, self.path, self.was_read = method, path, False
        self._body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.too_large = (len(self._body) if length is None else length) > 65536

    def header(self, name: str) -> str | None:
        return None

    async def body(self) -> bytes:
        self.was_read = True
        if len(self._body) > 65536:
            raise BodyTooLarge
        return self._body


class Bench:
    """The endpoint; this stands for what it asks: who reports, the cache and the API server."""

    def __init__(self) -> None:
        self.clock, self.registry, self.records = ManualClock(0.0), CollectorRegistry(), JobRecords()
        self.denied: Exception | None = None
        self.stranger: Exception | None = None
        self.cached: dict[str, TrainJob | Exception] = {"a": job("a")}
        self.stored: dict[str, TrainJob | Exception] = {}
        self.asked: list[str] = []
        cache = SimpleNamespace(get=lambda _, name, __: _given(self.cached.get(name, self.cached.get("*"))))
        client = SimpleNamespace(get=self._live)
        access = SimpleNamespace(check=self._check, belongs=self._belongs)
        coalescer = Coalescer(self._write, Pace(), ProgressMetrics(self.registry), self.records, time=self.clock)
        jobs = JobLookup(cast("Any", client), cast("Any", cache), time=self.clock)
        self.endpoint = StatusEndpoint(cast("ReportAccess", access), jobs, coalescer)

    async def _live(self, _: object, name: str, __: str) -> TrainJob | None:
        self.asked.append(name)
        return _given(self.stored.get(name, self.stored.get("*", NotFound("no such TrainJob", code=404))))

    async def _check(self, *_: object) -> ReportingPod:
        _given(self.denied)
        return ReportingPod("pod", "pod-uid", "account", 0.0)

    async def _belongs(self, *_: object) -> None:
        _given(self.stranger)

    async def _write(self, key: Key, uid: str, status: TrainerStatus) -> None:
        raise AssertionError("the coalescer does not run")

    async def ask(self, body: Any, *, name: str = "a", path: str = "", **options: Any) -> BoundedAnswer:
        return await self.endpoint.answer(cast("Any", FakeCall(path or path_of(SPACE, name), body, **options)))

    def counted(self, result: str) -> float:
        labels = {"source": "push", "result": result}
        return self.registry.get_sample_value("trainer_progress_reports_total", labels) or 0.0


def _given(answer: TrainJob | Exception | None) -> TrainJob | None:
    if isinstance(answer, Exception):
        raise answer
    return answer


def job(name: str, *, uid: str = "") -> TrainJob:
    return train_job(name, SPACE, uid=uid or f"uid-of-{name}")


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def reason(answer: BoundedAnswer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body).get("reason", "")


async def test_a_hundred_reports_at_once_are_too_many_and_it_may_go_on_later(bench: Bench) -> None:
    answers = [await bench.ask(progress(1)) for _ in range(60)]
    assert [answer.status for answer in answers] == [200] * 50 + [429] * 10
    assert reason(answers[-1]) == (429, "TooManyRequests")
    assert answers[-1].headers["Retry-After"] == "5"
    assert bench.counted("too_many") == 10
    bench.cached["b"] = job("b")
    assert (await bench.ask(progress(1), name="b")).status == 200
    bench.clock.now += 1.0
    answers = [await bench.ask(progress(1)) for _ in range(12)]
    assert [answer.status for answer in answers] == [200] * 10 + [429] * 2


async def test_a_steady_ten_reports_a_second_are_taken(bench: Bench) -> None:
    for _ in range(1000):
        assert (await bench.ask(progress(1))).status == 200
        bench.clock.now += 0.1


async def test_pods_of_others_use_up_nothing(bench: Bench) -> None:
    bench.stranger = ReporterForbidden()
    assert {(await bench.ask(progress(1))).status for _ in range(100)} == {403}
    bench.stranger = None
    assert [(await bench.ask(progress(1))).status for _ in range(51)] == [200] * 50 + [429]


async def test_a_namesake_begins_anew(bench: Bench) -> None:
    assert [(await bench.ask(progress(1))).status for _ in range(51)] == [200] * 50 + [429]
    bench.cached["a"] = job("a", uid="uid-of-the-namesake")
    assert (await bench.ask(progress(1))).status == 200


async def test_what_is_refused_counts_however_long_it_goes_on(bench: Bench) -> None:
    bench.cached["b"] = job("b")
    refused: list[int] = []
    for _ in range(60):
        refused += [(await bench.ask({"trainerStatus": {}})).status for _ in range(20)]
        assert (await bench.ask(progress(1), name="b")).status == 200
        bench.clock.now += 1.0
    assert 50 + 590 <= refused.count(422) <= 50 + 600
    assert refused.count(422) + refused.count(429) == 1200


async def test_the_memory_of_rates_is_bounded(bench: Bench) -> None:
    for number in range(100):
        bench.cached[f"job-{number}"] = job(f"job-{number}")
        assert (await bench.ask({"trainerStatus": {}}, name=f"job-{number}")).status == 422
        bench.clock.now += 1.0
    # Only reports that are accepted make a TrainJob one that reports; of others nothing is left after a while.
    assert (await bench.ask(progress(1))).status == 200
    assert len(list(bench.records.each(JobReports))) <= 6


async def test_the_declared_length_comes_before_the_token(bench: Bench) -> None:
    bench.denied = ReporterForbidden()
    assert reason(await bench.ask(b"", length=65537)) == (413, "RequestEntityTooLarge")
    assert reason(await bench.ask(b"", length=65536)) == (403, "Forbidden")


async def test_the_token_comes_before_the_body(bench: Bench) -> None:
    bench.denied = ReporterForbidden(why="expired")
    call = FakeCall(path_of(SPACE, "a"), b"{")
    assert (await bench.endpoint.answer(cast("Any", call))).status == 403
    assert not call.was_read


async def test_a_body_that_turns_out_too_large(bench: Bench) -> None:
    assert reason(await bench.ask(b"x" * 70_000, length=0)) == (413, "RequestEntityTooLarge")


async def test_tokens_that_cannot_be_checked_are_a_failure(bench: Bench) -> None:
    bench.denied = AccessUnknown(why="no keys")
    answer = await bench.ask(progress(1))
    assert reason(answer) == (500, "InternalError")
    assert b"no keys" not in answer.body
    assert bench.counted("failed") == 1


async def test_a_report_without_a_value_asks_for_no_trainjob(bench: Bench) -> None:
    assert (await bench.ask({}, name="nobody")).body == b"{}"
    assert bench.asked == []


async def test_the_trainjob_comes_before_the_schema_and_the_pod_before_both(bench: Bench) -> None:
    assert reason(await bench.ask(progress(101), name="nobody")) == (404, "NotFound")
    bench.stranger = ReporterForbidden(why="another TrainJob's pod")
    assert reason(await bench.ask(progress(101))) == (403, "Forbidden")


async def test_a_trainjob_that_the_cache_does_not_hold_is_asked_for_once(bench: Bench) -> None:
    for _ in range(3):
        assert reason(await bench.ask(progress(1), name="young")) == (404, "NotFound")
    assert bench.asked == ["young"]
    bench.stored["young"] = job("young")
    bench.clock.now += 5.1
    for _ in range(3):
        assert (await bench.ask(progress(1), name="young")).status == 200
    assert bench.asked == ["young"] * 2


async def test_before_the_first_list_the_api_server_is_asked(bench: Bench) -> None:
    bench.cached = {"*": NotSynced("not yet")}
    bench.stored["a"] = job("a")
    assert (await bench.ask(progress(1))).status == 200


async def test_a_namespace_of_another_manager_has_no_trainjobs(bench: Bench) -> None:
    bench.cached = {"*": NotCached("another namespace")}
    assert reason(await bench.ask(progress(1))) == (404, "NotFound")
    assert bench.asked == []


async def test_an_api_server_that_does_not_answer_is_a_failure(bench: Bench) -> None:
    bench.stored["*"] = ConnectionLost("away")
    assert reason(await bench.ask(progress(1), name="young")) == (500, "InternalError")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/space/trainjobs/a",
        path_of(SPACE, "a") + "/",
        path_of(SPACE, "a/b"),
        path_of(SPACE, ".."),
        path_of("", "a"),
        path_of(SPACE, "a%20b"),
        path_of(SPACE, "A"),
        "/" + path_of(SPACE, "a"),
    ],
)
async def test_other_paths_are_not_found(bench: Bench, path: str) -> None:
    assert reason(await bench.ask(progress(1), path=path)) == (404, "NotFound")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post"])
async def test_other_methods_are_not_found(bench: Bench, method: str) -> None:
    assert (await bench.ask(progress(1), method=method)).status == 404


async def test_the_pod_of_a_report_is_remembered(bench: Bench) -> None:
    await bench.ask(progress(1))
    found = bench.records.find(Key(SPACE, "a"), "uid-of-a", JobReports)
    assert found is not None
    assert dict(found.pods) == {"pod": 0.0}
