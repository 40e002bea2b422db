# SPDX-License-Identifier: Apache-2.0
"""Metrics of admission, with the names and labels of controller-runtime."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics:
    """The metric families. The label `webhook` holds the path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "controller_runtime_webhook"
        self.requests = Counter(
            f"{prefix}_requests_total", "Admission requests by HTTP status.", ["webhook", "code"], registry=registry
        )
        self.seconds = Histogram(
            f"{prefix}_latency_seconds", "Duration of an admission.", ["webhook"], buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge(f"{prefix}_requests_in_flight", "Running admissions.", ["webhook"], registry=registry)
        self.panics = Counter(
            f"{prefix}_panics_total", "Admissions whose handler raised an exception.", [], registry=registry
        )

    def path(self, path: str) -> "PathMetrics":
        """The metrics of one path; all its series start at 0."""
        return PathMetrics(self, path)


class PathMetrics:
    def __init__(self, metrics: WebhookMetrics, path: str) -> None:
        self._requests = {code: metrics.requests.labels(path, str(code)) for code in (200, 500)}
        self._seconds = metrics.seconds.labels(path)
        self._in_flight = metrics.in_flight.labels(path)
        self._panics = metrics.panics

    def began(self) -> None:
        """A request has arrived."""
        self._in_flight.inc()

    def ended(self, status: int, seconds: float) -> None:
        """A request was answered with this HTTP status."""
        self._in_flight.dec()
        self._requests[status].inc()
        self._seconds.observe(seconds)

    def crashed(self) -> None:
        """A handler has raised an exception."""
        self._panics.inc()
