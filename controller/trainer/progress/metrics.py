# SPDX-License-Identifier: Apache-2.0
"""Metrics of progress. The values of labels are closed lists, except in the series of single jobs.

Those are read from the TrainJobs of the cache at each scrape, and only the leader exposes them. They are bounded:
`JOBS` of the jobs that have not ended, the oldest first, so that a job which is shown stays until it ends; the others
are counted in one series. No name or value of a user's metric becomes a label or a name.
"""

import heapq
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from trainwright.api.conditions import find_true
from trainwright.api.objects import deletion_timestamp_of
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.runtime.metrics.series import LabelledCounter
from trainwright.controller.trainer.job.metrics import LeadersCollector
from trainwright.controller.trainer.job.stall import StallReason
from trainwright.controller.trainer.job.status import CONDITION_STALLED, is_ours
from trainwright.controller.trainer.progress.report import ReportSource, percentage_of, remaining_seconds_of

ANSWER_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FILE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAY_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

REPORTS = ("accepted", "empty", "ignored", "forbidden", "unknown_job", "too_large", "invalid", "too_many", "failed")
"""What became of a report."""
WRITES = ("stored", "superseded", "gone", "refused", "throttled", "failed")
"""What became of a value: `superseded` by a newer one of another replica, `refused` by the API server."""


class ProgressMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "trainer_progress"
        self.reports = LabelledCounter(
            f"{prefix}_reports_total", "Reports by what became of them.", registry, source=ReportSource, result=REPORTS
        )
        self.duration = Histogram(
            f"{prefix}_report_duration_seconds", "Time to answer a report.", buckets=ANSWER_BUCKETS, registry=registry
        )
        self.writes = LabelledCounter(
            f"{prefix}_writes_total", "Values by what became of them.", registry, result=WRITES
        )
        self.coalesced = Counter(
            f"{prefix}_coalesced_total", "Values that a newer one replaced before they were written.", registry=registry
        )
        self.lost = Counter(
            f"{prefix}_lost_total",
            "Values that were accepted and not written when the manager stopped.",
            registry=registry,
        )
        self.delay = Histogram(
            f"{prefix}_write_delay_seconds",
            "Time from the arrival of a value until it was stored.",
            buckets=DELAY_BUCKETS,
            registry=registry,
        )
        self.pending = Gauge(f"{prefix}_pending", "Values that wait to be written.", registry=registry)


class ReadResult(StrEnum):
    OK = "ok"
    STALE = "stale"
    """The report is old; it is shown."""
    MISSING = "missing"
    EMPTY = "empty"
    PARTIAL = "partial"
    """A JSON object without its end: the file is being written."""
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    """The file cannot be read: a folder, no permission, no such container."""
    NO_READER = "no_reader"
    """The image has neither tail nor Python."""
    TIMEOUT = "timeout"
    """The command started and did not end."""
    UNREACHABLE = "unreachable"
    """The node or the API server does not answer."""
    NOT_READY = "not_ready"
    """There is no pod whose container runs."""
    GONE = "gone"
    FORBIDDEN = "forbidden"
    """A right is missing, or an admission policy refuses the command."""


class FileMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.results = LabelledCounter(
            "trainer_progress_probes", "Reads of a progress file in a pod, by result.", registry, result=ReadResult
        )
        self.duration = Histogram(
            "trainer_progress_probe_duration_seconds",
            "Time of a read of a progress file in a pod.",
            buckets=FILE_BUCKETS,
            registry=registry,
        )


JOBS = 200
"""How many jobs have series of their own."""
LABELS = ("namespace", "name")


class _OfJobs(LeadersCollector):
    def __init__(
        self,
        registry: CollectorRegistry,
        jobs: Callable[[], Sequence[TrainJob]],
        *,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(registry, leads)
        self._jobs = jobs

    def _unfinished(self) -> Iterator[TrainJob]:
        """The jobs of this manager that are on their way; none on a replica that does not lead."""
        for job in self._jobs() if self._leads() else ():
            if is_ours(job) and not is_finished(job) and deletion_timestamp_of(job) is None:
                yield job


class StalledJobs(_OfJobs):
    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("trainer_trainjobs_stalled", "TrainJobs that stand still.", labels=("reason",))
        counts: Counts[str] = Counts()
        for job in self._unfinished():
            if held := find_true(job.status_or_empty.conditions, CONDITION_STALLED):
                counts[held.reason] += 1
        for reason in StallReason if self._leads() else ():
            family.add_metric([reason], counts[reason])
        yield family


class JobProgress(_OfJobs):
    def collect(self) -> Iterator[Metric]:
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
        for job in heapq.nsmallest(
            JOBS, found, key=lambda one: (one.metadata_or_empty.creation_timestamp or "", one.namespace, one.name)
        ):
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


def _reported(job: TrainJob) -> float | None:
    """When the job reported last, in seconds since 1970; None: never."""
    at = moment(job.status_or_empty.trainer_status_or_empty.last_updated_time)
    return at.timestamp() if at is not None else None
