# SPDX-License-Identifier: Apache-2.0
"""The metrics of TrainJobs, read from a registry as a scrape reads them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests import builders
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Event, Key
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.trainer.job.metrics import NAMES, JobMetrics
from trainwright.controller.trainer.job.records import JobRecords, JobStates

BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TORCH = {"runtime_kind": "ClusterTrainingRuntime", "runtime": "torch"}


def condition(kind: str, *, status: str = "True", reason: str = "", at: float = 0) -> Document:
    return builders.condition(kind, status, reason, at=BEGIN + timedelta(seconds=at))


class World:
    """Jobs that change, at times that the test sets."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = 0.0
        self.leads = True
        self.records = JobRecords()
        self.states = JobStates(self.records, now=self.now)
        self.states.listen(JobMetrics(self.registry, leads=lambda: self.leads))

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def shows(
        self,
        *conditions: dict[str, Any],
        at: float,
        pods: bool = False,
        ready: int = 1,
        runtime: str = "torch",
        name: str = "a",
        **more: Any,
    ) -> None:
        """A job of a runtime, created at the beginning, has these conditions."""
        self.seconds = at
        job = builders.train_job(
            name,
            uid=name,
            created=BEGIN,
            conditions=conditions,
            jobs=[builders.counts(active=1, ready=ready)] if pods else [],
            runtimeRef={"name": runtime, **more},
        )
        self.records.handle(Event(EventType.MODIFIED, Key("n", name), None, job))

    def gone(self, name: str = "a") -> None:
        self.records.handle(Event(EventType.DELETED, Key("n", name), None, None))

    def jobs(self) -> dict[tuple[str, str], float]:
        """Number of jobs by state and reason."""
        found: dict[tuple[str, str], float] = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == "trainer_trainjobs" and sample.value:
                    found[sample.labels["state"], sample.labels["reason"]] = sample.value
        return found

    def spent(self, state: str) -> tuple[float | None, float | None]:
        """How many left the state, and the seconds that they were in it."""
        name, labels = "trainer_trainjob_state_duration_seconds", {"state": state, **TORCH}
        return self.registry.get_sample_value(f"{name}_count", labels), self.registry.get_sample_value(
            f"{name}_sum", labels
        )

    def first_pod(self) -> tuple[float | None, float | None]:
        """How many had a first pod, and the seconds that it took."""
        name = "trainer_trainjob_time_to_first_pod_seconds"
        return self.registry.get_sample_value(f"{name}_count", TORCH), self.registry.get_sample_value(
            f"{name}_sum", TORCH
        )


@pytest.fixture(name="world")
def _world() -> World:
    return World()


def test_a_job_is_in_one_state_at_a_time_and_drops_out_when_it_is_deleted(world: World) -> None:
    world.shows(at=1)
    assert world.jobs() == {("Pending", ""): 1}
    world.shows(condition("Blocked", reason="RuntimeMissing"), at=6)
    assert world.jobs() == {("Blocked", "RuntimeMissing"): 1}
    world.shows(at=10)
    world.shows(at=12, pods=True, ready=0)
    assert (world.jobs(), world.first_pod()) == ({("Pending", ""): 1}, (1, 12))
    world.shows(at=13, pods=True)
    assert world.jobs() == {("Running", ""): 1}
    world.shows(condition("Failed", reason="FailedJobs"), at=20, pods=True)
    assert world.jobs() == {("Failed", "FailedJobs"): 1}
    assert world.spent("Pending") == (2, 6 + 3)
    assert world.spent("Blocked") == (1, 4)
    assert world.spent("Running") == (1, 7)
    assert world.first_pod() == (1, 12)
    world.gone()
    assert world.jobs() == {}


def test_a_resumed_job_waits_for_its_first_pod_anew(world: World) -> None:
    world.shows(condition("Suspended", reason="Suspended"), at=0)
    resumed = condition("Suspended", status="False", reason="Resumed", at=3600)
    world.shows(resumed, at=3600)
    world.shows(resumed, at=3605, pods=True)
    world.shows(resumed, condition("Blocked", reason="ApplyRefused"), at=3610, pods=True)
    world.shows(resumed, at=3620, pods=True)
    assert world.spent("Suspended") == (1, 3600)
    assert world.first_pod() == (1, 5)


def test_what_began_before_this_process_is_not_guessed(world: World) -> None:
    world.shows(at=100, pods=True)
    world.shows(condition("Complete", reason="AllJobsCompleted"), at=200, pods=True)
    assert world.spent("Running") == (None, None)
    assert world.first_pod() == (None, None)
    world.shows(condition("Suspended", reason="Suspended", at=50), at=100, name="b")
    world.shows(condition("Suspended", status="False", reason="Resumed", at=110), at=110, name="b")
    assert world.spent("Suspended") == (1, 60)


def test_a_replica_that_does_not_lead_counts_and_is_silent(world: World) -> None:
    world.leads = False
    world.shows(at=1)
    world.shows(at=5, pods=True)
    assert world.jobs() == {}
    assert world.first_pod() == (None, None)
    world.leads = True
    assert world.jobs() == {("Running", ""): 1}


def test_labels_do_not_grow_without_bound(world: World) -> None:
    for index in range(2 * NAMES):
        world.shows(at=0, name=f"a{index}", runtime=f"r{index}")
        world.shows(at=0, name=f"b{index}", runtime=f"r{index}", kind="TrainingRuntime")
    runtimes = {
        (sample.labels["runtime_kind"], sample.labels["runtime"])
        for family in world.registry.collect()
        for sample in family.samples
        if sample.name == "trainer_trainjobs"
    }
    assert len(runtimes) == NAMES + 2
    assert ("ClusterTrainingRuntime", "exceeded_cardinality_limit") in runtimes
    assert ("TrainingRuntime", "") in runtimes
    for index in range(2 * NAMES):
        world.gone(f"a{index}")
        world.gone(f"b{index}")
    assert world.jobs() == {}


def test_a_job_of_the_same_name_is_another_job(world: World) -> None:
    world.shows(at=1, pods=True)
    job = msgspec.convert({"metadata": {"name": "a", "namespace": "n", "uid": "other"}}, TrainJob)
    world.records.handle(Event(EventType.MODIFIED, Key("n", "a"), None, job))
    assert world.jobs() == {("Pending", ""): 1}
    assert world.spent("Running") == (None, None)
