# SPDX-License-Identifier: Apache-2.0
"""Statistics of an election, as plain data and as metrics."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class ElectionStatistics:
    """The view of one replica. Read from another thread, so the fields may be one attempt apart."""

    lease: str
    """namespace/name."""
    identity: str
    leader: bool
    """Whether this replica may write now."""
    holder: str
    """The last seen leader."""
    transitions: int
    renewed: float | None
    """Seconds since the last answered renewal; None: never led."""
    slow_renewals: int
    last_error: str


class ElectionCollector(Collector):
    """Reads the statistics at each scrape."""

    def __init__(self, statistics: Callable[[], ElectionStatistics]) -> None:
        self._statistics = statistics

    def describe(self) -> list[Metric]:
        """No metrics to describe in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metric families; the label `name` is the name of the Lease."""
        now = self._statistics()
        name = [now.lease.rpartition("/")[2]]
        master = GaugeMetricFamily("leader_election_master_status", "1 while this replica leads.", labels=["name"])
        master.add_metric(name, float(now.leader))
        slow = CounterMetricFamily(
            "leader_election_slowpath", "Renewals that had to read the lease first.", labels=["name"]
        )
        slow.add_metric(name, now.slow_renewals)
        age = GaugeMetricFamily(
            "leader_election_renewal_age_seconds", "Time since the last answered renewal.", labels=["name"]
        )
        if now.renewed is not None:
            age.add_metric(name, now.renewed)
        yield from (master, slow, age)
