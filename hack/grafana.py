# SPDX-License-Identifier: Apache-2.0
"""Generates the Grafana dashboard in config/grafana from the metrics of docs/metrics.md.

`make generate` writes it; `make verify` (`--check`) fails if it is not up to date. A panel names metrics; their types
say how they are shown (a counter as a rate, a histogram as a percentile), and the page's words become the panel's
description. A name that is not on the page ends the program; a test compares the page with what the manager serves.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "metrics.md"
TARGET = ROOT / "config" / "grafana" / "trainwright.json"
_ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|(?: [^|]*\|)? ([^|]+) \|$", re.MULTILINE)
_JOB = 'job=~"$job"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 24, 8
SECONDS, PER_SECOND, SHARE, BYTES, COUNT = "s", "ops", "percentunit", "bytes", "short"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the page."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture: a metric, or more that belong together, as lines over time."""

    title: str
    metrics: tuple[str, ...]
    unit: str
    by: tuple[str, ...] = ()
    """Labels whose values get lines of their own."""
    only: str = ""
    """More label matchers, such as `result="failed"`."""
    expression: str = ""
    """PromQL in place of what follows from the type; `{0}` and so on stand for the metrics, `{job}` for the matcher."""
    quantile: float = 0.99
    """Of a histogram."""
    stacked: bool = False
    width: int = 8
    table: bool = False
    """The values of now, one row for each combination of `by`, instead of lines."""


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


_OF_JOBS = ("namespace", "name")
SECTIONS = (
    Section(
        "TrainJobs",
        (
            Panel(title="TrainJobs by state", metrics=("trainer_trainjobs",), unit=COUNT, by=("state",), stacked=True),
            Panel(
                title="Blocked, by reason",
                metrics=("trainer_trainjobs",),
                unit=COUNT,
                by=("reason", "runtime"),
                only='state="Blocked"',
            ),
            Panel(
                title="Standing still, by reason", metrics=("trainer_trainjobs_stalled",), unit=COUNT, by=("reason",)
            ),
            Panel(
                title="Time to the first pod",
                metrics=("trainer_trainjob_time_to_first_pod_seconds",),
                unit=SECONDS,
                by=("runtime",),
                quantile=0.9,
            ),
            Panel(
                title="Time in a state",
                metrics=("trainer_trainjob_state_duration_seconds",),
                unit=SECONDS,
                by=("state",),
                quantile=0.5,
            ),
            Panel(title="Defects", metrics=("trainer_trainjob_defects_total",), unit=PER_SECOND, by=("during",)),
        ),
    ),
    Section(
        "Progress",
        (
            Panel(
                title="Reports, by result", metrics=("trainer_progress_reports_total",), unit=PER_SECOND, by=("result",)
            ),
            Panel(
                title="Writes, by result", metrics=("trainer_progress_writes_total",), unit=PER_SECOND, by=("result",)
            ),
            Panel(title="From report to status", metrics=("trainer_progress_write_delay_seconds",), unit=SECONDS),
            Panel(title="Time to answer a report", metrics=("trainer_progress_report_duration_seconds",), unit=SECONDS),
            Panel(
                title="Reads of progress files, by result",
                metrics=("trainer_progress_probes_total",),
                unit=PER_SECOND,
                by=("result",),
            ),
            Panel(title="Values that wait to be written", metrics=("trainer_progress_pending",), unit=COUNT),
        ),
    ),
    Section(
        "Single TrainJobs (with progress.jobMetrics)",
        (
            Panel(
                title="Progress",
                metrics=("trainer_trainjob_progress_ratio",),
                unit=SHARE,
                by=_OF_JOBS,
                expression="max by (namespace, name) ({0}{{{job}}})",
                width=12,
            ),
            Panel(
                title="Time to go",
                metrics=("trainer_trainjob_remaining_seconds", "trainer_trainjob_last_report_timestamp_seconds"),
                unit=SECONDS,
                by=_OF_JOBS,
                expression="clamp_min(max by (namespace, name) ({0}{{{job}}} - (time() - {1}{{{job}}})), 0)",
                table=True,
                width=6,
            ),
            Panel(
                title="Age of the last report",
                metrics=("trainer_trainjob_last_report_timestamp_seconds",),
                unit=SECONDS,
                by=_OF_JOBS,
                expression="time() - max by (namespace, name) ({0}{{{job}}})",
                table=True,
                width=6,
            ),
        ),
    ),
    Section(
        "Manager",
        (
            Panel(
                title="Who leads",
                metrics=("leader_election_master_status",),
                unit=COUNT,
                by=("instance",),
                stacked=True,
            ),
            Panel(
                title="Reconciles that fail, by controller",
                metrics=("controller_runtime_reconcile_errors_total",),
                unit=PER_SECOND,
                by=("controller",),
            ),
            Panel(
                title="Time of a reconcile",
                metrics=("controller_runtime_reconcile_time_seconds",),
                unit=SECONDS,
                by=("controller",),
            ),
            Panel(
                title="Waiting for a worker",
                metrics=("workqueue_queue_duration_seconds",),
                unit=SECONDS,
                by=("controller",),
            ),
            Panel(
                title="Answers of webhooks",
                metrics=("controller_runtime_webhook_latency_seconds",),
                unit=SECONDS,
                by=("webhook",),
            ),
            Panel(title="Delay of the event loop", metrics=("event_loop_lag_seconds",), unit=SECONDS, by=("instance",)),
            Panel(title="CPU", metrics=("process_cpu_seconds_total",), unit=SHARE, by=("instance",)),
            Panel(title="Memory", metrics=("process_resident_memory_bytes",), unit=BYTES, by=("instance",)),
            Panel(
                title="Requests to the API server, by code",
                metrics=("rest_client_requests_total",),
                unit=PER_SECOND,
                by=("code",),
            ),
            Panel(title="Caches that fail", metrics=("informer_failing",), unit=COUNT, by=("kind",)),
            Panel(title="Objects held", metrics=("informer_objects",), unit=COUNT, by=("kind",)),
            Panel(
                title="Events that were not written",
                metrics=("event_recorder_lost_total",),
                unit=PER_SECOND,
                by=("cause",),
            ),
        ),
    ),
)


class UnknownMetric(Exception):  # noqa: N818 - it names what was found
    """A panel names a metric that is not on the page."""


def metrics(page: str) -> dict[str, Metric]:
    """The metrics of the page, by name."""
    return {name: Metric(name, kind, meaning) for name, kind, meaning in _ROW.findall(page)}


def expression(panel: Panel, known: dict[str, Metric]) -> str:
    """The PromQL of a panel. Raises UnknownMetric."""
    missing = [name for name in panel.metrics if name not in known]
    if missing:
        raise UnknownMetric(f"panel {panel.title!r}: {', '.join(missing)} is not in {PAGE.name}")
    if panel.expression:
        return panel.expression.format(*panel.metrics, job=_JOB)
    (name,) = panel.metrics
    labels = ", ".join(filter(None, (_JOB, panel.only)))
    by = f" by ({', '.join(panel.by)})" if panel.by else ""
    match known[name].kind:
        case "histogram":
            wanted = ", ".join((*panel.by, "le"))
            rate = f"rate({name}_bucket{{{labels}}}[$__rate_interval])"
            return f"histogram_quantile({panel.quantile:g}, sum by ({wanted}) ({rate}))"
        case "counter":
            return f"sum{by} (rate({name}{{{labels}}}[$__rate_interval]))"
        case _:
            return f"sum{by} ({name}{{{labels}}})"


def dashboard(known: dict[str, Metric]) -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "uid": "trainwright",
        "title": "Trainwright",
        "description": "TrainJobs, their progress, and the manager. Generated from docs/metrics.md by hack/grafana.py.",
        "tags": ["kubeflow", "trainwright"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                {
                    "name": "job",
                    "label": "Scrape job",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": {"query": "label_values(leader_election_master_status, job)", "refId": "job"},
                    "includeAll": True,
                    "refresh": 2,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": list(_placed(known)),
    }


def _placed(known: dict[str, Metric]) -> Iterator[dict[str, Any]]:
    """The panels with their places: from left to right, a row for each section."""
    number = top = 0
    for section in SECTIONS:
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": section.title, "collapsed": False, "gridPos": place, "panels": []}
        top, left = top + 1, 0
        for panel in section.panels:
            if left + panel.width > _WIDTH:
                top, left = top + _HEIGHT, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": _HEIGHT}
            yield {"id": number, "gridPos": place, **_drawn(panel, known)}
            left += panel.width
        top += _HEIGHT


def _drawn(panel: Panel, known: dict[str, Metric]) -> dict[str, Any]:
    query = {
        "refId": "A",
        "datasource": _SOURCE,
        "expr": expression(panel, known),
        "legendFormat": " / ".join(f"{{{{{label}}}}}" for label in panel.by) or panel.title,
    }
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    custom = {} if panel.table else {"fillOpacity": 10 if panel.stacked else 0, "stacking": stacking}
    is_quantile = not panel.expression and known[panel.metrics[0]].kind == "histogram"
    drawn: dict[str, Any] = {
        "title": f"{panel.title}, {100 * panel.quantile:g}th percentile" if is_quantile else panel.title,
        "description": _described(panel, known),
        "type": "table" if panel.table else "timeseries",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "targets": [{**query, **({"format": "table", "instant": True} if panel.table else {})}],
    }
    if not panel.table:
        drawn["options"] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    return drawn


def _described(panel: Panel, known: dict[str, Metric]) -> str:
    """What the page says about the metrics, without its links and marks."""
    found = [known[name] for name in panel.metrics]
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)|`([^`]+)`", r"\1\2", metric.meaning) for metric in found]
    return "\n".join(f"{metric.name}: {meaning}" for metric, meaning in zip(found, plain, strict=True))


def text() -> str:
    """The file."""
    return json.dumps(dashboard(metrics(PAGE.read_text(encoding="utf-8"))), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Exit code 1 with `--check` if the file is not up to date, or for a metric that does not exist."""
    parser = argparse.ArgumentParser(prog="hack/grafana.py", description="Generate the Grafana dashboard.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is not up to date")
    check: bool = parser.parse_args().check
    try:
        wanted = text()
    except UnknownMetric as error:
        print(f"grafana: {error}", file=sys.stderr)
        return 1
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == wanted:
        print("grafana: the dashboard is up to date")
        return 0
    if check:
        print(f"grafana: not up to date, run `make generate`: {TARGET.relative_to(ROOT)}", file=sys.stderr)
        return 1
    TARGET.write_text(wanted, encoding="utf-8")
    print("grafana: the dashboard was written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
