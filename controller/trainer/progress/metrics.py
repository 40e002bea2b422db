# SPDX-License-Identifier: Apache-2.0
"""Metrics of progress. The values of all labels are closed lists; none names a TrainJob."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

ANSWER_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAY_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)

SOURCES = ("push", "file", "final")
REPORTS = (
    "accepted",
    "empty",
    "ignored",
    "forbidden",
    "unknown_job",
    "too_large",
    "invalid",
    "too_many",
    "failed",
)
"""What became of a report."""
WRITES = ("stored", "superseded", "gone", "refused", "throttled", "failed")
"""What became of a value: `superseded` by a newer one of another replica, `refused` by the API server."""


class ProgressMetrics:
    """Counts reports and writes. All series start at 0, so that the first increase is visible."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """`registry`: of the manager."""
        prefix = "trainer_progress"
        reports = Counter(
            f"{prefix}_reports_total", "Reports by what became of them.", ["source", "result"], registry=registry
        )
        self._reports = {(source, result): reports.labels(source, result) for source in SOURCES for result in REPORTS}
        self.duration = Histogram(
            f"{prefix}_report_duration_seconds",
            "Time to answer a report.",
            buckets=ANSWER_BUCKETS,
            registry=registry,
        )
        writes = Counter(f"{prefix}_writes_total", "Values by what became of them.", ["result"], registry=registry)
        self._writes = {result: writes.labels(result) for result in WRITES}
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
        self._pending = Gauge(f"{prefix}_pending", "Values that wait to be written.", registry=registry)

    def report(self, source: str, result: str) -> None:
        """Count a report; both are of the lists above."""
        self._reports[source, result].inc()

    def write(self, result: str) -> None:
        """Count what became of a value."""
        self._writes[result].inc()

    def watch_pending(self, count: Callable[[], int]) -> None:
        """Read the number of pending values at each scrape."""
        self._pending.set_function(count)
