# SPDX-License-Identifier: Apache-2.0
"""What an election looks like from outside, as plain data and as metrics (M-20)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class ElectionStatistics:
    """One replica's view. Taken from another thread, so the fields may be one try apart."""

    lease: str
    """namespace/name."""
    identity: str
    leader: bool
    """Whether this replica may write now."""
    holder: str
    """Who led when last looked."""
    transitions: int
    renewed: float | None
    """Seconds since the last renewal that was answered; None: never led."""
    slow_renewals: int
    last_error: str


class ElectionCollector(Collector):
    """Reads the statistics at the time of the scrape."""

    def __init__(self, statistics: Callable[[], ElectionStatistics]) -> None:
        self._statistics = statistics

    def describe(self) -> list[Metric]:
        """Nothing to check in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families; `name` is the Lease's name."""
        now = self._statistics()
        name = [now.lease.rpartition("/")[2]]
        master = GaugeMetricFamily("leader_election_master_status", "1 while this replica leads.", labels=["name"])
        master.add_metric(name, float(now.leader))
        slow = CounterMetricFamily(
            "leader_election_slowpath", "Renewals that had to read the lease first.", labels=["name"]
        )
        slow.add_metric(name, now.slow_renewals)
        age = GaugeMetricFamily(
            "leader_election_renewal_age_seconds", "Since the last renewal that was answered.", labels=["name"]
        )
        if now.renewed is not None:
            age.add_metric(name, now.renewed)
        yield from (master, slow, age)
