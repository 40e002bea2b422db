# SPDX-License-Identifier: Apache-2.0
"""A counter whose labels have few values, all of them known."""

import itertools
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter


class LabelledCounter:
    """All its series start at 0: Prometheus cannot see the rise to the first value of a new series."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry, **labels: Iterable[str]) -> None:
        """`labels` has the values of each label."""
        counter = Counter(name, text, list(labels), registry=registry)
        self._series = {values: counter.labels(*values) for values in itertools.product(*labels.values())}

    def inc(self, *values: str, by: float = 1) -> None:
        """Count one, or more. `values`: one for each label, in their order."""
        self._series[values].inc(by)
