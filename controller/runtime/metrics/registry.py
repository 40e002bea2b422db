# SPDX-License-Identifier: Apache-2.0
"""The metrics of one process, in a registry of its own.

Names and labels are those of controller-runtime. Counts and depths that a component keeps anyway are read from its
statistics at each scrape; only durations and outcomes are recorded when they happen.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from trainwright.controller.runtime.cache.informer import InformerStatistics
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.controller.controller import Controller, ReconcileOutcome
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.lag import LoopLag
from trainwright.controller.runtime.metrics.durations import Durations, DurationsCollector

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


class QueueDurations:
    """Records the durations of one queue; a QueueObserver."""

    def __init__(self, waited: Durations, worked: Durations) -> None:
        self._waited = waited
        self._worked = worked

    def waited(self, seconds: float) -> None:
        """A worker took a key."""
        self._waited.observe(seconds)

    def worked(self, seconds: float) -> None:
        """A worker finished a key."""
        self._worked.observe(seconds)


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
        """Count one outcome."""
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
        by_controller = ["controller"]
        prefix = "controller_runtime"
        self.reconcile_total = Counter(
            f"{prefix}_reconcile_total", "Reconciles by outcome.", ["controller", "result"], registry=registry
        )
        self.reconcile_errors = Counter(
            f"{prefix}_reconcile_errors_total", "Reconciles that failed.", by_controller, registry=registry
        )
        self.terminal_errors = Counter(
            f"{prefix}_terminal_reconcile_errors_total",
            "Reconciles that failed and are not retried.",
            by_controller,
            registry=registry,
        )
        self.panics = Counter(
            f"{prefix}_reconcile_panics_total",
            "Reconciles that raised an unexpected exception.",
            by_controller,
            registry=registry,
        )
        self.timeouts = Counter(
            f"{prefix}_reconcile_timeouts_total",
            "Reconciles cancelled for taking too long.",
            by_controller,
            registry=registry,
        )
        self.reconcile_seconds = DurationsCollector(
            f"{prefix}_reconcile_time_seconds",
            "Length of a reconcile.",
            by_controller,
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        names = ["name", "controller"]
        self.queue_waited = DurationsCollector(
            "workqueue_queue_duration_seconds",
            "Time from ready to taken by a worker.",
            names,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.queue_worked = DurationsCollector(
            "workqueue_work_duration_seconds",
            "Time from taken by a worker to done.",
            names,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server by outcome.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._runtime = _RuntimeCollector()
        registry.register(self._runtime)

    def queue(self, name: str) -> QueueDurations:
        """The observer of the queue of a controller."""
        return QueueDurations(self.queue_waited.labels(name, name), self.queue_worked.labels(name, name))

    def controller(self, name: str) -> ControllerCounts:
        """The observer of a controller. All its series start at 0, so that the first increase is visible."""
        return ControllerCounts(self, name)

    def watch_controller(self, controller: Controller) -> None:
        """Expose the statistics of a controller. Raises ConfigurationError for a second one of the same name."""
        if controller.name in self._runtime.controllers:
            raise ConfigurationError(
                f"a controller named {controller.name!r} exists already; the name is a metric label: choose another"
            )
        self._runtime.controllers[controller.name] = controller

    def watch_informers(self, statistics: Callable[[], Iterable[InformerStatistics]]) -> None:
        """Expose the statistics of informers."""
        self._runtime.informers = statistics

    def watch_lag(self, lag: LoopLag) -> None:
        """Expose the lag of the event loop."""
        self._runtime.lag = lag

    def render(self) -> bytes:
        """The text of a scrape."""
        return generate_latest(self.registry)


class RequestCounts:
    """Counts attempts by code, method and host; a RequestObserver."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._requests = metrics.requests
        self._host = host
        self._children: dict[tuple[str, str], Counter] = {}

    def attempt(self, request: Request, status: int | None) -> None:
        """An attempt ended; the code is `<error>` without an answer."""
        key = (str(status) if status is not None else "<error>", request.method)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._requests.labels(*key, self._host)
        child.inc()


class _RuntimeCollector(Collector):
    """Reads statistics at each scrape."""

    def __init__(self) -> None:
        self.controllers: dict[str, Controller] = {}
        self.informers: Callable[[], Iterable[InformerStatistics]] = tuple
        self.lag: LoopLag | None = None
        self._priorities: dict[str, set[int]] = {}

    def describe(self) -> list[Metric]:
        """No metrics to describe in advance."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        yield from self._queues()
        yield from self._caches()
        if self.lag is not None:
            recent = GaugeMetricFamily(
                "event_loop_lag_seconds", "The largest lag of the event loop in the last minute."
            )
            recent.add_metric([], self.lag.worst)
            yield recent
            stalls = CounterMetricFamily(
                "event_loop_stalls", "Number of times the event loop was blocked for over a second."
            )
            stalls.add_metric([], self.lag.stalls)
            yield stalls

    def _queues(self) -> Iterator[Metric]:
        names = ["name", "controller"]
        depth = GaugeMetricFamily("workqueue_depth", "Ready keys.", labels=[*names, "priority"])
        adds = CounterMetricFamily("workqueue_adds", "Keys that became ready.", labels=names)
        retries = CounterMetricFamily("workqueue_retries", "Keys queued with a delay.", labels=names)
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Sum of the durations of running work.", labels=names
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Duration of the longest running work.", labels=names
        )
        workers = GaugeMetricFamily(
            "controller_runtime_max_concurrent_reconciles", "Workers of a controller.", labels=["controller"]
        )
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers that are running a reconcile.", labels=["controller"]
        )
        for name, controller in self.controllers.items():
            statistics = controller.statistics()
            queue = statistics.queue
            for label, count in self._depths(name, queue.ready).items():
                depth.add_metric([name, name, label], count)
            adds.add_metric([name, name], queue.adds)
            retries.add_metric([name, name], queue.retries)
            unfinished.add_metric([name, name], queue.unfinished)
            longest.add_metric([name, name], queue.longest_running)
            workers.add_metric([name], statistics.workers)
            active.add_metric([name], statistics.active)
        yield from (depth, adds, retries, unfinished, longest, workers, active)

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

    def _caches(self) -> Iterator[Metric]:
        labels = ["kind", "scope"]
        synced = GaugeMetricFamily("informer_synced", "1 once the first list arrived.", labels=labels)
        objects = GaugeMetricFamily("informer_objects", "Objects held.", labels=labels)
        unfit = GaugeMetricFamily("informer_undecodable_objects", "Objects that do not fit their model.", labels=labels)
        failing = GaugeMetricFamily("informer_failing", "1 while list or watch fail.", labels=labels)
        events = CounterMetricFamily("informer_events", "Changes taken from the watch.", labels=labels)
        lists = CounterMetricFamily("informer_lists", "Lists taken.", labels=labels)
        failures = CounterMetricFamily("informer_failures", "Failed steps of list and watch.", labels=labels)
        for one in self.informers():
            values = [one.kind, one.scope]
            synced.add_metric(values, float(one.synced))
            objects.add_metric(values, one.objects)
            unfit.add_metric(values, one.undecodable)
            failing.add_metric(values, float(bool(one.last_error)))
            events.add_metric(values, one.events)
            lists.add_metric(values, one.lists)
            failures.add_metric(values, one.failures)
        yield from (synced, objects, unfit, failing, events, lists, failures)
