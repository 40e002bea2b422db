# SPDX-License-Identifier: Apache-2.0
"""The metrics of single TrainJobs and of those that stand still, read from a registry as a scrape reads them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from tests import builders
from tests.builders import condition, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.progress.metrics import JOBS, JobProgress, StalledJobs

BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def job(number: int, *, stalled: str = "", end: str = "", managed_by: str | None = None, **progress: Any) -> TrainJob:
    """The `number`th job that was created."""
    at = BEGIN + timedelta(seconds=number)
    told = [(end, "r"), ("Stalled", stalled)]
    return train_job(
        f"job-{999 - number}",  # names in another order than ages
        uid=str(number),
        created=at,
        conditions=[condition(kind, reason=reason, at=BEGIN) for kind, reason in told if kind and reason],
        progress=builders.progress(at=at, **progress) if progress else None,
        managedBy=managed_by,
    )


class World:
    """Jobs, and what a scrape shows."""

    def __init__(self, *jobs: TrainJob) -> None:
        self.jobs, self.leads, self.registry = list(jobs), True, CollectorRegistry()
        for made in (JobProgress, StalledJobs):
            made(self.registry, lambda: self.jobs, leads=lambda: self.leads)

    def value(self, metric: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"trainer_{metric}", labels)

    def samples(self) -> int:
        return sum(len(family.samples) for family in self.registry.collect())

    def text(self) -> str:
        return generate_latest(self.registry).decode()


def test_of_five_hundred_jobs_two_hundred_have_series_and_one_counts_the_rest() -> None:
    """Scenario 73 of progress."""
    world = World(*(job(number, progressPercentage=number % 100) for number in range(500)))
    assert world.value("trainjob_progress_left_out") == 300
    assert world.text().count("trainer_trainjob_progress_ratio{") == JOBS
    # The oldest have them, and keep them whatever comes.
    world.jobs.insert(0, job(600, progressPercentage=7))
    assert world.value("trainjob_progress_ratio", namespace="n", name="job-999") == 0
    assert world.value("trainjob_progress_ratio", namespace="n", name="job-399") is None
    # One that ends makes place.
    world.jobs.remove(world.jobs[1])
    assert world.value("trainjob_progress_ratio", namespace="n", name="job-799") == 0
    assert world.value("trainjob_progress_left_out") == 300


def test_what_a_job_did_not_report_has_no_series() -> None:
    names = {"namespace": "n", "name": "job-998"}
    world = World(job(1, estimatedRemainingSeconds=60, metrics={"loss": "0.5"}), job(2))
    assert world.value("trainjob_progress_ratio", **names) is None
    assert world.value("trainjob_remaining_seconds", **names) == 60
    assert world.value("trainjob_last_report_timestamp_seconds", **names) == (BEGIN + timedelta(seconds=1)).timestamp()
    assert "job-997" not in world.text()
    assert "loss" not in world.text()


def test_the_end_of_the_rank_that_reports_is_not_that_of_the_job() -> None:
    names = {"namespace": "n", "name": "job-999"}
    world = World(job(0, progressPercentage=100, estimatedRemainingSeconds=0))
    assert world.value("trainjob_progress_ratio", **names) == 0.99
    assert world.value("trainjob_remaining_seconds", **names) is None


def test_jobs_that_ended_or_are_anothers_have_no_series() -> None:
    done = [job(1, end="Complete", progressPercentage=100), job(2, end="Failed", progressPercentage=3)]
    world = World(*done, job(3, managed_by="kueue.x-k8s.io/multikueue", progressPercentage=5))
    assert "job-" not in world.text()
    assert world.value("trainjob_progress_left_out") == 0


def test_a_replica_that_does_not_lead_shows_nothing() -> None:
    world = World(job(1, progressPercentage=5, stalled="NoReport"))
    assert world.samples() > 0
    world.leads = False
    assert world.samples() == 0


def test_jobs_that_stand_still_are_counted_by_reason() -> None:
    world = World(
        job(1, stalled="NoReport"),
        job(2, stalled="NoReport", progressPercentage=4),
        job(3, stalled="NoAdvance"),
        job(4, stalled="InventedByAUser"),
        job(5, stalled="NoReport", end="Failed"),
    )
    found = {reason: world.value("trainjobs_stalled", reason=reason) for reason in ("NoReport", "NoAdvance")}
    assert found == {"NoReport": 2, "NoAdvance": 1}
    assert world.value("trainjobs_stalled", reason="NeverReported") == 0
    assert "InventedByAUser" not in world.text()
