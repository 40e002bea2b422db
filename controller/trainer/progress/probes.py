# SPDX-License-Identifier: Apache-2.0
"""Metrics of reading progress in pods. Labels are closed lists; none names a job."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from trainwright.controller.trainer.progress.reading import Result

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ProbeMetrics:
    """Counts reads by their result, and measures how long they take."""

    def __init__(self, registry: CollectorRegistry) -> None:
        probes = Counter(
            "trainer_progress_probes",
            "Reads of a progress file in a pod, by result.",
            ("result",),
            registry=registry,
        )
        self._results = {result: probes.labels(result.value) for result in Result}
        self.duration = Histogram(
            "trainer_progress_probe_duration_seconds",
            "Time of a read of a progress file in a pod.",
            buckets=_BUCKETS,
            registry=registry,
        )

    def count(self, result: Result) -> None:
        """Count one read."""
        self._results[result].inc()
