# SPDX-License-Identifier: Apache-2.0
"""Metrics of searches. They come from the leader alone, since only it reconciles; no label names a search."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from trainwright.controller.optimization.trials import State


class SearchMetrics:
    """How trials end, and how long the sampler takes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ended = Counter("trainer_search_trials_total", "Trials that have ended.", ["state"], registry=registry)
        # All from the start: Prometheus cannot see the rise to the first value of a new series.
        self.trials: dict[State, Counter] = {one: ended.labels(one) for one in State if one is not State.RUNNING}
        self.suggestion_seconds = Histogram(
            "trainer_search_suggestion_duration_seconds",
            "Time to an answer of the sampler.",
            buckets=(0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
            registry=registry,
        )
