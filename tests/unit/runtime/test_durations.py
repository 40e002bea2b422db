# SPDX-License-Identifier: Apache-2.0
"""Histograms of durations: the text of a scrape is that of the library's own histogram."""

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from trainwright.controller.runtime.metrics.registry import QUEUE_BUCKETS, RECONCILE_BUCKETS
from trainwright.controller.runtime.metrics.series import DurationsCollector


def scrape(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@pytest.mark.parametrize("buckets", [QUEUE_BUCKETS, RECONCILE_BUCKETS])
def test_a_scrape_shows_what_the_histogram_of_the_library_shows(buckets: tuple[float, ...]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    durations = DurationsCollector("x_seconds", "Text.", ["name"], buckets=buckets, registry=ours)
    histogram = Histogram("x_seconds", "Text.", ["name"], buckets=buckets, registry=theirs)
    for name in ("a", "b"):
        # Below and above all buckets, inside of one, and on a bound, which belongs to the bucket.
        for seconds in (0.0, 1e-9, 0.005, 0.0051, buckets[-1], 1e9):
            durations.labels(name).observe(seconds)
            histogram.labels(name).observe(seconds)
    durations.labels("unused")
    histogram.labels("unused")
    assert scrape(ours) == scrape(theirs)
    assert any("+Inf" in line for line in scrape(ours))


def test_a_name_cannot_be_taken_twice() -> None:
    registry = CollectorRegistry()
    DurationsCollector("x_seconds", "Text.", ["name"], buckets=[1.0], registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        DurationsCollector("x_seconds", "Text.", ["name"], buckets=[1.0], registry=registry)
