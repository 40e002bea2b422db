# SPDX-License-Identifier: Apache-2.0
"""Metrics of TrainJobs: how many are in which state, how long they stay there, how soon they have pods.

Counted from the events of the cache, so that a scrape costs the same whatever the number of jobs. Every replica counts,
and only the one that leads shows it: sums over replicas are right, and a new leader has the numbers at once. Durations
are those that this process saw begin and end, or whose beginning the object itself tells.

Labels are bounded whatever users do: a runtime is named only if it is a ClusterTrainingRuntime, which admins make, and
one of the first so many; names of TrainingRuntimes are left empty.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    CONDITION_SUSPENDED,
)
from trainwright.controller.runtime import Cache, Event, Key
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.metrics.registry import OVERFLOW
from trainwright.controller.runtime.objects import AnyObject, uid_of
from trainwright.controller.trainer.runtimes import RuntimeUnsupported, target_of
from trainwright.controller.trainer.status import CONDITION_BLOCKED

LABELS = ("runtime_kind", "runtime")
NAMES = 50
"""Distinct runtimes, and distinct reasons, that get a label of their own; the rest share one."""
STATE_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800)
POD_BUCKETS = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


class State(StrEnum):
    """What a TrainJob is doing; the first of its conditions that holds, else by its pods."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    SUSPENDED = "Suspended"
    RUNNING = "Running"
    PENDING = "Pending"


_CONDITIONS = {
    CONDITION_COMPLETE: State.COMPLETE,
    CONDITION_FAILED: State.FAILED,
    CONDITION_BLOCKED: State.BLOCKED,
    CONDITION_SUSPENDED: State.SUSPENDED,
}


class _Series(NamedTuple):
    """The labels of the gauge."""

    state: State
    runtime_kind: str
    runtime: str
    reason: str

    @property
    def of_runtime(self) -> tuple[str, str]:
        return self.runtime_kind, self.runtime


@dataclass(slots=True)
class _Seen:
    """What is remembered of one job."""

    uid: str
    series: _Series
    since: datetime | None
    """When it entered its state, as far as that is known."""
    had_pods: bool


class JobMetrics(Collector):
    """Counts the TrainJobs of a cache and registers itself."""

    def __init__(
        self, registry: CollectorRegistry, *, leads: Callable[[], bool] = lambda: True, now: Now = wall_clock
    ) -> None:
        """`leads`: whether this replica is the one that shows what it counts."""
        self._leads = leads
        self._now = now
        self._jobs: dict[Key, _Seen] = {}
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
        registry.register(self)

    def watch(self, cache: Cache) -> None:
        """Count the TrainJobs of the cache, to which they must be declared."""
        cache.informer(TrainJob).add_handler(self.handle, undecodable=True)

    def handle(self, event: Event[AnyObject]) -> None:
        """Count one change."""
        job = event.new
        before = self._jobs.get(event.key)
        if not isinstance(job, TrainJob):  # deleted, or something that nobody can read
            if before is not None:
                del self._jobs[event.key]
                self._counts[before.series] -= 1
            return
        series = self._series(job)
        if before is not None and before.uid != uid_of(job):
            self._counts[before.series] -= 1
            before = None
        if before is None:
            since = _entered(job, series.state)
            had_pods = series.state not in {State.PENDING, State.SUSPENDED}
            self._jobs[event.key] = _Seen(uid_of(job), series, since, had_pods)
        elif before.series != series:
            self._counts[before.series] -= 1
            self._changed(job, before, series)
        else:
            return
        self._counts[series] += 1

    def _changed(self, job: TrainJob, seen: _Seen, series: _Series) -> None:
        """A job has other labels than before."""
        left, now = seen.series, self._now()
        seen.series = series
        if left.state is series.state:
            return
        if seen.since is not None and self._leads():
            spent = max(0.0, (now - seen.since).total_seconds())
            self._in_state.labels(left.state, *left.of_runtime).observe(spent)
        seen.since = now
        if series.state is State.SUSPENDED:
            seen.had_pods = False
        elif series.state is State.RUNNING and not seen.had_pods:
            seen.had_pods = True
            begin = _entered(job, State.PENDING)
            if begin is not None and self._leads():
                self._to_first_pod.labels(*series.of_runtime).observe(max(0.0, (now - begin).total_seconds()))

    def describe(self) -> list[Metric]:
        """Nothing to check in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The gauge; empty on a replica that does not lead."""
        jobs = GaugeMetricFamily("trainer_trainjobs", "TrainJobs that exist.", labels=("state", *LABELS, "reason"))
        for series, count in self._counts.items() if self._leads() else ():
            jobs.add_metric(list(series), count)
        yield jobs

    # ------------------------------------------------------------------ labels

    def _series(self, job: TrainJob) -> _Series:
        state, reason = state_of(job)
        try:
            kind, key = target_of(job)
        except RuntimeUnsupported:
            return _Series(state, "", "", self._named("reason", reason))
        named = kind is ClusterTrainingRuntime
        runtime = self._named("runtime", key.name) if named else ""
        return _Series(state, kind.RESOURCE.kind, runtime, self._named("reason", reason))

    def _named(self, label: str, value: str) -> str:
        """The value, or the one that all values share once there were too many. The same at every time."""
        known = self._known[label]
        if value and value not in known:
            if len(known) >= NAMES:
                return OVERFLOW
            known.add(value)
        return value


def state_of(job: TrainJob) -> tuple[State, str]:
    """What the job is doing, and the reason of the condition that says so."""
    status = job.status
    held = {c.type: c for c in (status.conditions if status else None) or () if c.status == "True"}
    for name, state in _CONDITIONS.items():
        if name in held:
            return state, held[name].reason
    jobs = (status.jobs_status if status else None) or ()
    if any(one.active or one.ready or one.succeeded or one.failed for one in jobs):
        return State.RUNNING, ""
    return State.PENDING, ""


def _entered(job: TrainJob, state: State) -> datetime | None:
    """When the job entered the state, as far as the object tells: nothing says when the first pod came."""
    conditions = {c.type: c for c in (job.status.conditions if job.status else None) or ()}
    for name, of_condition in _CONDITIONS.items():
        if state is of_condition:
            return _transition(conditions.get(name))
    if state is State.RUNNING:
        return None
    resumed = conditions.get(CONDITION_SUSPENDED)
    created = job.metadata.creation_timestamp if job.metadata is not None else None
    return _transition(resumed) or (parse(created) if created else None)


def _transition(condition: Condition | None) -> datetime | None:
    return parse(condition.last_transition_time) if condition is not None else None
