# SPDX-License-Identifier: Apache-2.0
"""Metrics of recorded events."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright.controller.runtime.events.recorder import RecorderStatistics


class EventCollector(Collector):
    """Reads the statistics of a recorder."""

    def __init__(self, statistics: Callable[[], RecorderStatistics]) -> None:
        self._statistics = statistics

    def describe(self) -> list[Metric]:
        """No metrics to describe in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        now = self._statistics()
        recorded = CounterMetricFamily("event_recorder_events", "Events recorded.")
        recorded.add_metric([], now.recorded)
        writes = CounterMetricFamily("event_recorder_writes", "Events written.", labels=["verb"])
        writes.add_metric(["create"], now.created)
        writes.add_metric(["patch"], now.patched)
        lost = CounterMetricFamily("event_recorder_lost", "Events not written, by cause.", labels=["cause"])
        lost.add_metric(["queue"], now.dropped)
        lost.add_metric(["limit"], now.refused)
        lost.add_metric(["failed"], now.failed)
        yield from (recorded, writes, lost)
