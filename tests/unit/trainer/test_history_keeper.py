# SPDX-License-Identifier: Apache-2.0
"""When histories are written, and what becomes of ConfigMaps that others touch."""

import asyncio
import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.builders import condition, progress, train_job
from tests.virtual_trainer import VirtualTrainer
from trainwright.api.config.v1alpha1 import Progress
from trainwright.api.objects import Document, wire
from trainwright.controller.runtime import NO_SERVERS, Manager
from trainwright.controller.runtime.errors import Forbidden, TooManyRequests
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.history import AT_ONCE, INTERVAL_SECONDS, WRITE_SECONDS, HistoryKeeper
from trainwright.controller.trainer.progress.ring import KEY, TEXT_BYTES, Ring, read
from trainwright.controller.trainer.progress.writer import Budget, Pace

SPACE = "default"
CREATE, PATCH = "POST /api/v1/namespaces/default/configmaps", "PATCH /api/v1/namespaces/default/configmaps"


class Bench:
    """TrainJobs that report, and a manager that keeps their histories and does nothing else."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster, self.stored, self.advance = cluster, cluster.stored, cluster.stored.advance
        self.attempts: dict[str, int] = {}
        self.calls = cluster.requests("/configmaps")
        self.maps = cluster.changes("configmaps")
        self.jobs = set[str]()
        self.budget: Budget
        self.registry: CollectorRegistry

    def start(self, **pace: Any) -> None:
        """A manager begins; `pace`: of its writes."""

        async def boot(process: Process) -> Manager:
            manager = Manager(
                CONFIG, user_agent=process.name, servers=NO_SERVERS, process=PROCESS, transport=process.network
            )
            records = JobRecords()
            records.watch(manager.cache)
            self.budget = Budget(Pace(**pace), asyncio.get_running_loop().time)
            HistoryKeeper(
                manager,
                self.budget,
                manager.metrics.registry,
                records,
                attempt_of=lambda job: self.attempts.get(job.name),
                uniform=lambda _, high: high,
            )
            self.registry = manager.metrics.registry
            return manager

        self.replica = self.cluster.run(boot)
        self.advance(1)

    def stop(self) -> float:
        """SIGTERM; returns the seconds until it has ended."""
        return self.cluster.stop(self.replica)

    def job(self, name: str, **spec: Any) -> None:
        self.jobs.add(name)
        self.stored.create(wire(train_job(name, SPACE, uid="", **spec)))

    def show(self, name: str, **status: Any) -> None:
        """The status of the job changes."""
        if name not in self.jobs:
            self.job(name)
        self.stored.patch("trainjob", name, {"status": status}, SPACE, subresource="status")

    def report(self, name: str, percentage: int, **metrics: float) -> None:
        self.show(name, trainerStatus=self.value(percentage, **metrics))

    def value(self, percentage: int, **metrics: float | str) -> Document:
        told = {name: str(value) for name, value in metrics.items()}
        return progress(at=self.cluster.now, metrics=told, progressPercentage=percentage)

    def end(self, name: str) -> None:
        self.show(name, conditions=[condition("Complete", at=self.cluster.now)])

    def train(self, name: str, seconds: int, *, begin: int = 0, step: int = 10) -> None:
        """Report every few seconds."""
        for second in range(0, seconds, step):
            self.report(name, min(99, begin + second * 100 // 6000), loss=1 / (1 + second), current_step=float(second))
            self.advance(step)

    def held(self, name: str) -> Document | None:
        return self.stored.get("configmap", f"{name}-progress", SPACE)

    def damage(self, name: str) -> None:
        self.stored.patch("configmap", f"{name}-progress", {"data": {KEY: '{"version":1'}}, SPACE)

    def forget(self, name: str) -> None:
        self.stored.delete("configmap", f"{name}-progress", SPACE)

    def ring(self, name: str) -> Ring:
        found = self.held(name)
        assert found is not None
        return read(found["data"])

    def points(self, name: str) -> list[Sample]:
        return self.ring(name).samples()

    def percentages(self, name: str) -> list[int | None]:
        return [point.percentage for point in self.points(name)]

    def verbs(self) -> list[str]:
        return [verb for _, verb in self.calls]

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("trainer_progress_history_writes_total", {"result": result}) or 0


@pytest.fixture
def unstarted(virtual_cluster: VirtualCluster) -> Bench:
    return Bench(virtual_cluster)


@pytest.fixture
def b(unstarted: Bench) -> Bench:
    unstarted.start()
    return unstarted


@pytest.fixture(autouse=True)
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log warns of."""
    caplog.set_level(logging.WARNING)
    return lambda: [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


Warned = Callable[[], list[str]]


def test_a_job_is_written_every_five_minutes_and_at_its_end(b: Bench) -> None:
    b.train("a", 1_500)
    times = [round(at) - 1 for at, verb in b.calls if verb != "GET"]
    assert times == [300, 600, 900, 1200, 1500][: len(times)]
    assert len(times) >= 4
    assert b.verbs()[:2] == ["GET", "POST"]
    b.report("a", 100, loss=0.0)
    b.end("a")
    b.advance(1)
    assert b.percentages("a")[-1] == 100
    assert len(b.points("a")) == 151
    b.report("a", 100, loss=0.1)
    b.advance(61)
    assert len(b.points("a")) == 152


def test_a_spike_between_two_reports_is_in_the_history(b: Bench) -> None:
    b.report("a", 1, loss=1.0, current_step=10.0)
    spike = {"loss.recent_max": "9.0 at step 15", "loss.max": "20.0 at step 3", "loss.min": "0.5 so far"}
    b.show("a", trainerStatus=b.value(2, loss=1.0, current_step=20.0, **spike))
    b.advance(10)
    b.show("a", trainerStatus=b.value(3, loss=1.0, current_step=30.0, **spike))
    b.advance(301)
    assert [point.high("loss") for point in b.points("a")] == [1.0, 9.0, 1.0]
    assert b.ring("a").metrics == ("loss", "current_step")


def test_nothing_is_called_after_a_start_until_a_job_reports(b: Bench) -> None:
    b.train("a", 400)
    b.stop()
    stored = b.percentages("a")
    b.show("never", jobsStatus=[])
    b.start()
    b.calls.clear()
    b.advance(3600)
    assert b.calls == []
    b.report("a", 50)
    b.advance(301)
    assert b.verbs() == ["GET", "PATCH"]
    assert b.percentages("a") == [*stored, 50]


@pytest.mark.parametrize(("away", "is_written"), [(60, True), (86_400 * 2, False)])
def test_a_job_that_ended_while_no_manager_led_gets_its_last_point(b: Bench, away: int, is_written: bool) -> None:
    b.train("a", 400)
    b.stop()
    b.report("a", 100)
    b.end("a")
    b.advance(away)
    b.calls.clear()
    b.start()
    b.advance(10)
    assert len(b.points("a")) == (41 if is_written else 40)
    assert bool(b.calls) is is_written


def test_what_is_left_is_written_at_a_graceful_stop(unstarted: Bench) -> None:
    unstarted.start(rate=0.001, burst=1)
    names = [f"job-{number}" for number in range(40)]
    for name in names:
        unstarted.report(name, 7)
    unstarted.advance(1)
    assert unstarted.maps == []
    unstarted.stop()
    assert [unstarted.percentages(name) for name in names] == [[7]] * 40


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_stop_does_not_wait_for_the_budget(unstarted: Bench, is_silent: bool) -> None:
    b = unstarted
    b.start(rate=0.001, burst=1)
    b.report("a", 7)
    b.advance(299)
    # What comes due in a second waits for Retry-After, or for the rate.
    if is_silent:
        b.budget.be_silent(600)
    else:
        b.budget.take()
    b.advance(5)
    assert b.held("a") is None
    assert b.stop() < 1
    assert b.percentages("a") == [7]


def test_the_rate_of_all_writes_holds(unstarted: Bench) -> None:
    unstarted.start(rate=2.0, burst=1)
    for number in range(100):
        unstarted.report(f"job-{number}", 7)
    unstarted.advance(400)
    times = [at for at, verb in unstarted.calls if verb == "POST"]
    assert len(times) == 100
    assert min(later - earlier for earlier, later in pairwise(times)) > 0.49


def test_a_foreign_config_map_is_left_alone_and_said_once(b: Bench, warned: Warned) -> None:
    foreign = b.stored.create(config_map("a-progress", SPACE, data={KEY: "mine"}))
    b.train("a", 4_000, step=80)
    assert b.held("a") == foreign
    assert set(b.verbs()) == {"GET"}
    assert len(b.calls) <= 8
    (said,) = warned()
    assert "is not kept, because ConfigMap a-progress is not the manager's" in said
    b.forget("a")
    b.train("a", 1_400, begin=50, step=70)
    assert len(b.points("a")) > 50


def test_the_config_map_of_a_deleted_namesake_is_left_to_the_garbage_collector(b: Bench) -> None:
    b.train("a", 400)
    held = b.held("a")
    b.stored.delete("trainjob", "a", SPACE)
    b.job("a")
    b.report("a", 1)
    b.advance(1)
    b.report("a", 2)
    b.advance(310)
    assert b.held("a") == held
    b.forget("a")
    b.advance(700)
    assert b.percentages("a") == [1, 2]
    now = b.held("a")
    assert now is not None
    job = b.stored.wait("trainjob", "a", namespace=SPACE)
    assert now["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize(
    ("hurt", "told"),
    [
        pytest.param(Bench.damage, "changed by another program", id="edited"),
        pytest.param(Bench.forget, "made again", id="deleted"),
    ],
)
def test_what_others_do_to_it_is_mended_and_said_once(
    b: Bench, hurt: Callable[[Bench, str], None], told: str, warned: Warned
) -> None:
    b.train("a", 400)
    for _ in range(2):
        hurt(b, "a")
        b.train("a", 400)
    assert len(b.points("a")) >= 100
    (said,) = warned()
    assert told in said


def test_a_damaged_one_is_begun_again_by_the_next_manager(b: Bench, warned: Warned) -> None:
    b.train("a", 400)
    b.stop()
    b.damage("a")
    b.start()
    b.train("a", 400, begin=50)
    b.stop()
    assert len(b.points("a")) <= 41
    assert "is damaged and begins again" in warned()[0]
    assert len(warned()) == 1


def test_a_refusal_is_tried_again_ever_more_rarely_and_said_once(b: Bench, warned: Warned) -> None:
    tries = b.cluster.refuse(CREATE, Forbidden("no", code=403, reason="Forbidden"), until=3_000)
    b.train("a", 3_000, step=60)
    assert len(warned()) == 1
    assert 1 < len(tries) <= 3_000 / INTERVAL_SECONDS
    b.train("a", 700, begin=50, step=70)
    assert b.points("a")[0].percentage == 0
    assert len(b.points("a")) > 50


def test_retry_after_holds_for_all(b: Bench) -> None:
    busy = TooManyRequests("busy", code=429, reason="TooManyRequests", retry_after=100.0)
    tries = b.cluster.refuse(CREATE, busy, until=350)
    b.report("a", 1)
    b.report("b", 1)
    b.advance(345)
    assert len(tries) <= 2
    b.advance(400)
    assert [b.percentages(name) for name in ("a", "b")] == [[1], [1]]


def test_a_restart_of_the_jobset_is_the_next_attempt(b: Bench) -> None:
    for attempt in (1, 2):
        b.attempts["a"] = attempt
        b.train("a", 200)
    b.end("a")
    b.advance(1)
    assert [(one.segment, one.attempt) for one in b.points("a")] == [(0, 1)] * 20 + [(1, 2)] * 20


def test_a_create_whose_answer_was_lost_stores_no_point_twice(b: Bench) -> None:
    b.cluster.delay_answers(CREATE, 3600)
    b.train("a", 310)
    b.cluster.delay_answers(CREATE, 0)
    b.train("a", 290, begin=10)
    b.advance(400)
    stored = b.points("a")
    assert len(stored) == 60
    assert all(one.at < other.at for one, other in pairwise(stored))
    assert b.count("failed") == 1
    # Once it is stored, what is read again is kept again.
    b.end("a")
    b.advance(100)
    b.report("a", 100)
    b.advance(600)
    assert b.points("a")[:60] == stored
    assert b.percentages("a")[60:] == [100]


def test_a_job_of_another_manager_and_a_deleted_one_are_left_alone(b: Bench) -> None:
    b.job("b", managedBy="kueue.x-k8s.io/multikueue")
    for name in ("a", "b"):
        b.report(name, 1)
    b.stored.delete("trainjob", "a", SPACE)
    b.advance(1000)
    assert b.calls == []


def test_a_run_with_hostile_metrics_stays_small(b: Bench) -> None:
    hostile = {f"{index}{chr(1)}" + "\N{PILE OF POO}" * 60: 1e-300 for index in range(256)}
    for number in range(60):
        b.report("a", 1, **(hostile if number % 20 == 0 else {"loss": number}))
        b.advance(10)
    b.stop()
    held = b.held("a")
    assert held is not None
    assert len(held["data"][KEY].encode()) <= TEXT_BYTES
    assert "loss" in b.ring("a").metrics


def test_a_write_that_hangs_holds_up_no_other(b: Bench) -> None:
    names = [f"j{number}" for number in range(40)]
    # These have a ConfigMap already, whose change hangs.
    for name in names[:2]:
        b.report(name, 1)
    b.advance(INTERVAL_SECONDS + 3)
    for name in names[:2]:
        b.cluster.delay_answers(f"{PATCH}/{name}-progress", 3600)
    for name in names:
        b.report(name, 10)
    b.advance(INTERVAL_SECONDS + 3)
    assert [name for name in names[2:] if b.held(name) is None] == []
    assert len(names) > AT_ONCE
    # It is given up, and tried again later.
    for name in names[:2]:
        b.cluster.delay_answers(f"{PATCH}/{name}-progress", 0)
    b.advance(WRITE_SECONDS + 60)
    assert b.count("failed") == 2
    assert [b.percentages(name) for name in names[:3]] == [[1, 10], [1, 10], [10]]


def test_no_job_is_written_twice_at_once_and_its_end_is_written_at_once(b: Bench) -> None:
    b.cluster.delay_answers(CREATE, 4)
    b.report("j", 10)
    b.advance(INTERVAL_SECONDS + 1)
    b.report("j", 100)
    b.end("j")
    b.advance(1)
    assert b.verbs() == ["GET", "POST"]
    b.advance(3)
    assert b.verbs() == ["GET", "POST", "PATCH"]
    assert b.percentages("j") == [10, 100]


def test_a_stop_waits_for_what_is_being_written(b: Bench) -> None:
    b.cluster.delay_answers(CREATE, 4)
    b.report("j", 10)
    b.advance(INTERVAL_SECONDS + 1)
    b.report("j", 20)
    b.stop()
    assert b.verbs() == ["GET", "POST", "PATCH"]
    assert b.percentages("j") == [10, 20]


def test_a_write_that_was_carried_out_after_it_was_given_up_is_not_taken_for_that_of_others(
    b: Bench, warned: Warned
) -> None:
    b.train("a", 310)
    b.cluster.delay_answers(PATCH, 3600)
    b.train("a", 310, begin=10)
    b.cluster.delay_answers(PATCH, 0)
    b.train("a", 60, begin=20)
    b.stop()
    assert b.count("failed") == 1
    assert [one for one in warned() if "by another program" in one] == []
    assert len(b.points("a")) == 68


def test_the_attempts_of_a_history_are_those_of_the_jobset(virtual_cluster: VirtualCluster) -> None:
    trainer = VirtualTrainer(virtual_cluster)
    trainer.start(feature_gates={"ProgressPull": True}, progress=Progress(history=True))
    trainer.job()
    trainer.advance(1)
    for restarts in (0, 2):
        trainer.jobset_status({"restarts": restarts})
        trainer.advance(10)
        trainer.report(10 * (restarts + 1), loss="0.5")
        trainer.advance(INTERVAL_SECONDS)
    (found,) = [one for one in trainer.stored.list("configmaps", SPACE) if one["metadata"]["name"] == "job-progress"]
    assert [(one.percentage, one.attempt) for one in read(found["data"]).samples()] == [(10, 1), (30, 3)]
