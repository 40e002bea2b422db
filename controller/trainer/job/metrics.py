# SPDX-License-Identifier: Apache-2.0
"""Metrics of TrainJobs: how many are in which state, how long they stay there, how soon they have pods.

The numbers come from transitions, so a scrape costs the same for any number of jobs. Every replica counts, but only the
leader exposes its numbers: a sum over replicas is right, and a new leader has the numbers at once. A duration is
observed only if this process saw its start, or the object records it.

The number of label values is bounded: the label `runtime` holds names of ClusterTrainingRuntimes, which admins create,
up to `NAMES` of them; it is empty for TrainingRuntimes, which users create.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.runtime.metrics.registry import OVERFLOW
from trainwright.controller.trainer.build.runtimes import RuntimeUnsupported, target_of
from trainwright.controller.trainer.job.records import Transition
from trainwright.controller.trainer.job.status import StateReason
from trainwright.plugins.contract import JobState

LABELS = ("runtime_kind", "runtime")
NAMES = 50
"""How many runtimes, and how many reasons, get a label value of their own; the others share one."""
STATE_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800)
POD_BUCKETS = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


class _Series(NamedTuple):
    state: JobState
    runtime_kind: str
    runtime: str
    reason: str


class LeadersCollector(Collector):
    """Registers itself. `leads`: whether this replica exposes its numbers."""

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool]) -> None:
        self._leads = leads
        registry.register(self)

    def describe(self) -> list[Metric]:
        """Empty, so that the registry does not collect when the collector registers."""
        return []


class JobMetrics(LeadersCollector):
    """A listener of `JobStates`."""

    def __init__(self, registry: CollectorRegistry, *, leads: Callable[[], bool] = lambda: True) -> None:
        super().__init__(registry, leads)
        self._counts: Counter[_Series] = Counter()
        self._known: dict[str, set[str]] = {"runtime": set(), "reason": set()}
        self._in_state = Histogram(
            "trainer_trainjob_state_duration_seconds",
            "Time that TrainJobs spent in a state that they have left.",
            ("state", *LABELS),
            buckets=STATE_BUCKETS,
            registry=registry,
        )
        self._to_first_pod = Histogram(
            "trainer_trainjob_time_to_first_pod_seconds",
            "From the creation of a TrainJob, or its last resumption, to its first pod.",
            LABELS,
            buckets=POD_BUCKETS,
            registry=registry,
        )

    def __call__(self, transition: Transition) -> None:
        labels = self._labels(transition.job)
        if transition.before is not None:
            self._counts[self._series(transition.before, labels)] -= 1
        if transition.after is not None:
            self._counts[self._series(transition.after, labels)] += 1
        if not self._leads():
            return
        if transition.before is not None and transition.seconds is not None:
            self._in_state.labels(transition.before.state, *labels).observe(transition.seconds)
        if transition.first_pod_seconds is not None:
            self._to_first_pod.labels(*labels).observe(transition.first_pod_seconds)

    def collect(self) -> Iterator[Metric]:
        """The gauge `trainer_trainjobs`; without samples on a replica that does not lead."""
        jobs = GaugeMetricFamily("trainer_trainjobs", "TrainJobs that exist.", labels=("state", *LABELS, "reason"))
        for series, count in self._counts.items() if self._leads() else ():
            jobs.add_metric(list(series), count)
        yield jobs

    def _labels(self, job: TrainJob) -> tuple[str, str]:
        try:
            kind, key = target_of(job)
        except RuntimeUnsupported:
            return "", ""
        return kind.RESOURCE.kind, self._named("runtime", key.name) if kind is ClusterTrainingRuntime else ""

    def _series(self, found: StateReason, labels: tuple[str, str]) -> _Series:
        return _Series(found.state, *labels, self._named("reason", found.reason))

    def _named(self, label: str, value: str) -> str:
        """The value, or the shared one once there are too many. The answer for a value never changes."""
        known = self._known[label]
        if value and value not in known:
            if len(known) >= NAMES:
                return OVERFLOW
            known.add(value)
        return value
