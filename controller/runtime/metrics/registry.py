# SPDX-License-Identifier: Apache-2.0
"""The metrics of one process, in a registry of its own.

Names and labels are those of controller-runtime. Counts and depths that a component keeps anyway are read from its
statistics at each scrape; only durations and outcomes are recorded when they happen.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from trainwright.controller.runtime.cache.informer import InformerStatistics
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.controller.controller import Controller, ControllerStatistics, ReconcileOutcome
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.events.recorder import RecorderStatistics, event_metrics
from trainwright.controller.runtime.lag import LoopLag
from trainwright.controller.runtime.metrics.series import DurationsCollector
from trainwright.controller.runtime.workqueue.queue import QueueStatistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

QUEUE_BUCKETS = tuple(10.0**power for power in range(-8, 4))
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
RESULTS = ("error", "requeue_after", "requeue", "success")
PRIORITIES = 25
"""Maximum of priorities with a label of their own; further ones share `OVERFLOW`, as in controller-runtime."""
OVERFLOW = "exceeded_cardinality_limit"

T = TypeVar("T")
_Row: TypeAlias = tuple[type[GaugeMetricFamily] | type[CounterMetricFamily], str, str, Callable[[T], float]]
"""A metric of statistics: type, name, text, and where its value comes from."""
_QUEUE = ("name", "controller")
"""Labels of the metrics of a queue; both are the name of its controller."""
_OF_QUEUES: tuple[_Row[QueueStatistics], ...] = (
    (CounterMetricFamily, "workqueue_adds", "Keys that became ready.", lambda one: one.adds),
    (CounterMetricFamily, "workqueue_retries", "Keys queued with a delay.", lambda one: one.retries),
    (
        GaugeMetricFamily,
        "workqueue_unfinished_work_seconds",
        "Sum of the durations of running work.",
        lambda one: one.unfinished,
    ),
    (
        GaugeMetricFamily,
        "workqueue_longest_running_processor_seconds",
        "Duration of the longest running work.",
        lambda one: one.longest_running,
    ),
)
_OF_CONTROLLERS: tuple[_Row[ControllerStatistics], ...] = (
    (
        GaugeMetricFamily,
        "controller_runtime_max_concurrent_reconciles",
        "Workers of a controller.",
        lambda one: one.workers,
    ),
    (
        GaugeMetricFamily,
        "controller_runtime_active_workers",
        "Workers that are running a reconcile.",
        lambda one: one.active,
    ),
)
_OF_CACHES: tuple[_Row[InformerStatistics], ...] = (
    (GaugeMetricFamily, "informer_synced", "1 once the first list arrived.", lambda one: one.synced),
    (GaugeMetricFamily, "informer_objects", "Objects held.", lambda one: one.objects),
    (
        GaugeMetricFamily,
        "informer_undecodable_objects",
        "Objects that do not fit their model.",
        lambda one: one.undecodable,
    ),
    (GaugeMetricFamily, "informer_failing", "1 while list or watch fail.", lambda one: bool(one.last_error)),
    (CounterMetricFamily, "informer_events", "Changes taken from the watch.", lambda one: one.events),
    (CounterMetricFamily, "informer_lists", "Lists taken.", lambda one: one.lists),
    (CounterMetricFamily, "informer_failures", "Failed steps of list and watch.", lambda one: one.failures),
)


class QueueDurations(NamedTuple):
    """What records the durations of one queue; a QueueObserver."""

    waited: Callable[[float], None]
    worked: Callable[[float], None]


class ControllerCounts:
    """Counts the outcomes of one controller; a ControllerObserver."""

    def __init__(self, metrics: "Metrics", name: str) -> None:
        self._totals = {result: metrics.reconcile_total.labels(name, result) for result in RESULTS}
        self._errors = metrics.reconcile_errors.labels(name)
        self._terminal = metrics.terminal_errors.labels(name)
        self._panics = metrics.panics.labels(name)
        self._timeouts = metrics.timeouts.labels(name)
        self._seconds = metrics.reconcile_seconds.labels(name)

    def started(self) -> None:
        """Do nothing: active workers are read from the controller."""

    def ended(self, outcome: ReconcileOutcome) -> None:
        self._totals[outcome.result].inc()
        self._seconds.observe(outcome.seconds)
        if outcome.result == "error":
            self._errors.inc()
        if outcome.terminal:
            self._terminal.inc()
        if outcome.crashed:
            self._panics.inc()
        if outcome.timed_out:
            self._timeouts.inc()


class Metrics:
    """All metrics of a manager. Other parts can add collectors to `registry`."""

    def __init__(self, *, process: bool = True) -> None:
        """`process`: also memory, CPU and file descriptors of the process, and the Python version."""
        self.registry = registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"controller_runtime_{name}_total", text, ("controller", *labels), registry=registry)

        def durations(name: str, text: str, *labels: str, buckets: Sequence[float]) -> DurationsCollector:
            return DurationsCollector(name, text, labels, buckets=buckets, registry=registry)

        self.reconcile_total = counter("reconcile", "Reconciles by outcome.", "result")
        self.reconcile_errors = counter("reconcile_errors", "Reconciles that failed.")
        self.terminal_errors = counter("terminal_reconcile_errors", "Reconciles that failed and are not retried.")
        self.panics = counter("reconcile_panics", "Reconciles that raised an unexpected exception.")
        self.timeouts = counter("reconcile_timeouts", "Reconciles cancelled for taking too long.")
        self.reconcile_seconds = durations(
            "controller_runtime_reconcile_time_seconds",
            "Length of a reconcile.",
            "controller",
            buckets=RECONCILE_BUCKETS,
        )
        text = "Time from ready to taken by a worker."
        self.queue_waited = durations("workqueue_queue_duration_seconds", text, *_QUEUE, buckets=QUEUE_BUCKETS)
        text = "Time from taken by a worker to done."
        self.queue_worked = durations("workqueue_work_duration_seconds", text, *_QUEUE, buckets=QUEUE_BUCKETS)
        text = "Requests to the API server by outcome."
        self.requests = Counter("rest_client_requests_total", text, ("code", "method", "host"), registry=registry)
        self._controllers: dict[str, Controller] = {}
        self._priorities: dict[str, set[int]] = {}
        self.informers: Callable[[], Iterable[InformerStatistics]] = tuple
        """Returns the statistics of all informers."""
        self.lag: LoopLag | None = None
        registry.register(StatisticsCollector(self._families))

    def queue(self, name: str) -> QueueDurations:
        waited, worked = (durations.labels(name, name) for durations in (self.queue_waited, self.queue_worked))
        return QueueDurations(waited.observe, worked.observe)

    def controller(self, name: str) -> ControllerCounts:
        """The observer of a controller. All its series start at 0, so that the first increase is visible."""
        return ControllerCounts(self, name)

    def watch_controller(self, controller: Controller) -> None:
        """Expose the statistics of a controller. Raises ConfigurationError for a second one of the same name."""
        if controller.name in self._controllers:
            raise ConfigurationError(
                f"a controller named {controller.name!r} exists already; the name is a metric label: choose another"
            )
        self._controllers[controller.name] = controller

    def render(self) -> bytes:
        return generate_latest(self.registry)

    # ------------------------------------------------------------------ read from statistics at each scrape

    def _families(self) -> Iterator[Metric]:
        yield from self._queues()
        if self.lag is not None:
            text = "The largest lag of the event loop in the last minute."
            yield GaugeMetricFamily("event_loop_lag_seconds", text, value=self.lag.worst)
            text = "Number of times the event loop was blocked for over a second."
            yield CounterMetricFamily("event_loop_stalls", text, value=self.lag.stalls)

    def _queues(self) -> Iterator[Metric]:
        found = {name: controller.statistics() for name, controller in self._controllers.items()}
        depth = GaugeMetricFamily("workqueue_depth", "Ready keys.", labels=[*_QUEUE, "priority"])
        for name, one in found.items():
            for label, count in self._depths(name, one.queue.ready).items():
                depth.add_metric([name, name, label], count)
        yield depth
        yield from _made(_OF_QUEUES, _QUEUE, [((name, name), one.queue) for name, one in found.items()])
        yield from _made(_OF_CONTROLLERS, ("controller",), [((name,), one) for name, one in found.items()])
        caches = [((one.kind, one.scope), one) for one in self.informers()]
        yield from _made(_OF_CACHES, ("kind", "scope"), caches)

    def _depths(self, name: str, ready: dict[int, int]) -> dict[str, int]:
        known = self._priorities.setdefault(name, set())
        for priority in ready:
            if len(known) < PRIORITIES:
                known.add(priority)
        depths = {str(priority): ready.get(priority, 0) for priority in sorted(known)}
        rest = sum(count for priority, count in ready.items() if priority not in known)
        if rest or any(priority not in known for priority in ready):
            depths[OVERFLOW] = rest
        return depths or {"0": 0}


def _made(rows: Sequence[_Row[T]], labels: Sequence[str], found: Sequence[tuple[Sequence[str], T]]) -> Iterator[Metric]:
    """A family for each row, with a value of each of the statistics that were found, which have their labels before."""
    for family, metric, text, value_of in rows:
        made = family(metric, text, labels=labels)
        for values, one in found:
            made.add_metric(values, value_of(one))
        yield made


class RequestCounts:
    """Counts attempts by code, method and host; a RequestObserver."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._requests = metrics.requests
        self._host = host
        self._children: dict[tuple[str, str], Counter] = {}

    def attempt(self, request: Request, status: int | None) -> None:
        key = (str(status) if status is not None else "<error>", request.method)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(*key, self._host)
        child.inc()


class StatisticsCollector(Collector):
    """Metrics that a function makes of statistics at each scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        return self._families()


class EventCollector(StatisticsCollector):
    """Reads the statistics of a recorder at each scrape."""

    def __init__(self, statistics: Callable[[], RecorderStatistics]) -> None:
        super().__init__(lambda: event_metrics(statistics()))
