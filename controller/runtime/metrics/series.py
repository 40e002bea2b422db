# SPDX-License-Identifier: Apache-2.0
"""Series that cost little: durations that are observed in each reconcile, and counters whose labels have known values.

`prometheus_client.Histogram` goes through the buckets one by one and takes two locks. Here an observation is one binary
search; the series are made when they are scraped. For the event loop only, since nothing is locked.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Durations:
    """The durations of one series, in seconds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Observations in each bucket alone; the last one has no upper bound."""
        self.total = 0.0
        """Sum of all."""

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds


class DurationsCollector(Collector):
    """A histogram with labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        """Registers itself. `text` describes the metric; `buckets` are upper bounds in ascending order."""
        self._name = name
        self._text = text
        self._labels = labels
        self._buckets = tuple(buckets)
        self._children: dict[tuple[str, ...], Durations] = {}
        registry.register(self)

    def labels(self, *values: str) -> Durations:
        """The series with these values of the labels."""
        return self._children.setdefault(values, Durations(self._buckets))

    def describe(self) -> list[Metric]:
        """The name, so that no other metric gets it."""
        return [HistogramMetricFamily(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        names = [*map(floatToGoString, self._buckets), "+Inf"]
        for values, durations in self._children.items():
            counts = map(float, accumulate(durations.counts))
            family.add_metric(values, list(zip(names, counts, strict=True)), durations.total)
        yield family


class LabelledCounter:
    """All its series start at 0: Prometheus cannot see the rise to the first value of a new series."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry, **labels: Iterable[str]) -> None:
        """`labels` has the values of each label."""
        counter = Counter(name, text, list(labels), registry=registry)
        self._series = {values: counter.labels(*values) for values in itertools.product(*labels.values())}

    def inc(self, *values: str, by: float = 1) -> None:
        """Count one, or more. `values`: one for each label, in their order."""
        self._series[values].inc(by)
