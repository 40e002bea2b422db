# SPDX-License-Identifier: Apache-2.0
"""Metrics read from the TrainJobs of the cache at each scrape: which stand still, and how far single ones are.

Only the leader exposes them. The series of single jobs are bounded: `JOBS` of those that have not ended, the oldest
first, so that a job which is shown stays until it ends; the others are counted in one series. No name or value of a
user's metric becomes a label or a name.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright.api.conditions import find
from trainwright.api.objects import deletion_timestamp_of
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.silence import Reason
from trainwright.controller.trainer.job.state import CONDITION_STALLED, is_ours
from trainwright.controller.trainer.job.status import is_finished
from trainwright.controller.trainer.progress.shown import percentage_of, remaining_seconds_of

JOBS = 200
"""How many jobs have series of their own."""
LABELS = ("namespace", "name")

Jobs = Callable[[], Sequence[TrainJob]]


class _OfJobs(Collector):
    """Registers itself."""

    def __init__(self, registry: CollectorRegistry, jobs: Jobs, *, leads: Callable[[], bool] = lambda: True) -> None:
        """Args:
        registry: of the manager.
        jobs: the TrainJobs of the cache; none before they are known.
        leads: whether this replica exposes its numbers.
        """
        self._jobs, self._leads = jobs, leads
        registry.register(self)

    def describe(self) -> list[Metric]:
        """Empty, so that the registry does not collect when the collector registers."""
        return []

    def _unfinished(self) -> Iterator[TrainJob]:
        """The jobs of this manager that are on their way; none on a replica that does not lead."""
        for job in self._jobs() if self._leads() else ():
            if is_ours(job) and not is_finished(job) and deletion_timestamp_of(job) is None:
                yield job


class StalledJobs(_OfJobs):
    """How many jobs have the condition `Stalled`."""

    def collect(self) -> Iterator[Metric]:
        """One series for each reason."""
        family = GaugeMetricFamily("trainer_trainjobs_stalled", "TrainJobs that stand still.", labels=("reason",))
        counts: Counter[str] = Counter()
        for job in self._unfinished():
            held = find(job.status_or_empty.conditions, CONDITION_STALLED)
            if held is not None and held.status == "True":
                counts[held.reason] += 1
        for reason in Reason if self._leads() else ():
            family.add_metric([reason], counts[reason])
        yield family


class JobProgress(_OfJobs):
    """How far each of some jobs is."""

    def collect(self) -> Iterator[Metric]:
        """Series of single jobs, and the number of those that have none."""
        prefix = "trainer_trainjob"
        ratio = GaugeMetricFamily(
            f"{prefix}_progress_ratio",
            "Reported progress, 0 to 1; below 1, since the job has not ended.",
            labels=LABELS,
        )
        last = GaugeMetricFamily(
            f"{prefix}_last_report_timestamp_seconds",
            "Time of the last report, by the clock of the job.",
            labels=LABELS,
        )
        remaining = GaugeMetricFamily(f"{prefix}_remaining_seconds", "Time to go as of the last report.", labels=LABELS)
        left_out = GaugeMetricFamily(
            f"{prefix}_progress_left_out", "TrainJobs that report and have no series of their own."
        )
        found = [job for job in self._unfinished() if _reported(job) is not None]
        for job in heapq.nsmallest(JOBS, found, key=_age):
            labels, at = [job.namespace, job.name], _reported(job)
            assert at is not None
            last.add_metric(labels, at)
            if (percentage := percentage_of(job)) is not None:
                ratio.add_metric(labels, percentage / 100)
            if (seconds := remaining_seconds_of(job)) is not None:
                remaining.add_metric(labels, seconds)
        if self._leads():
            left_out.add_metric([], max(0, len(found) - JOBS))
        yield from (ratio, last, remaining, left_out)


def _age(job: TrainJob) -> tuple[str, str, str]:
    created = job.metadata_or_empty.creation_timestamp
    return created or "", job.namespace, job.name


def _reported(job: TrainJob) -> float | None:
    """When the job reported last, in seconds since 1970; None: never."""
    status = job.status_or_empty.trainer_status
    if status is None or not status.last_updated_time:
        return None
    try:
        return parse(status.last_updated_time).timestamp()
    except ValueError:  # no API server stores such a time: its schema forbids it
        return None
