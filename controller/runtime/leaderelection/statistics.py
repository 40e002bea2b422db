# SPDX-License-Identifier: Apache-2.0
"""Statistics of an election, as plain data and as metrics."""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


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


def election_metrics(now: ElectionStatistics) -> Iterator[Metric]:
    """The metrics of an election; the label `name` is the name of the Lease."""
    name = [now.lease.rpartition("/")[2]]
    master = GaugeMetricFamily("leader_election_master_status", "1 while this replica leads.", labels=["name"])
    master.add_metric(name, float(now.leader))
    yield master
    text = "Renewals that had to read the lease first."
    slow = CounterMetricFamily("leader_election_slowpath", text, labels=["name"])
    slow.add_metric(name, now.slow_renewals)
    yield slow
    text = "Time since the last answered renewal."
    age = GaugeMetricFamily("leader_election_renewal_age_seconds", text, labels=["name"])
    if now.renewed is not None:
        age.add_metric(name, now.renewed)
    yield age
