# SPDX-License-Identifier: Apache-2.0
"""The reports of a job as columns, for charts. Pure functions of what was seen."""

import bisect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, pairwise

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.history import Point
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.cli.dashboard.reports import KeptReport, falls
from trainwright.controller.cli.progress.view import COUNTERS, metrics_of

_STEP = "current_step"


@dataclass(frozen=True, slots=True)
class Seen:
    """One report, with what a history does not keep."""

    point: Point
    not_finite: frozenset[str] = frozenset()
    """The metrics that were NaN or infinite."""
    report: KeptReport | None = None
    """What the file of the cluster has of it; it may stand for several reports."""

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.point.at.timestamp()

    @property
    def step(self) -> float | None:
        """The step, if the training told it."""
        return self.point.step

    @property
    def values(self) -> Mapping[str, float]:
        """The metrics that are finite numbers."""
        return self.point.metrics

    def low(self, metric: str) -> float | None:
        """The lowest value of a metric in what it stands for."""
        return self.report.low(metric) if self.report is not None else self.point.metrics.get(metric)

    def high(self, metric: str) -> float | None:
        """The highest value of a metric in what it stands for."""
        return self.report.high(metric) if self.report is not None else self.point.metrics.get(metric)


@dataclass(slots=True)
class Marker:
    """Finds where segments begin, in reports that are given one after the other.

    A segment begins where the training falls back to an earlier step, and with each attempt that is known.
    """

    starts: Mapping[int, datetime] = field(default_factory=dict)
    """When attempts began, of those of which it is known; 1 is the first."""
    segment: int = -1
    """Number of the present one."""
    highest: float = -math.inf
    """The latest time: clocks of pods may be set back, and an axis of time cannot."""
    _last: tuple[int, int | None] | None = None

    def take(self, point: Point) -> tuple[float, int | None, bool]:
        """Time and attempt of a report, and whether a segment begins with it."""
        self.highest = max(self.highest, point.at.timestamp())
        attempt = point.attempt if point.attempt is not None else self._attempt_at(point.at)
        before = self._last
        if before is not None and before[1] is not None:
            # Clocks and late reports: attempts follow each other, and their segments do not mix.
            attempt = max(before[1], attempt or 0)
        self._last = point.segment, attempt
        # A report from before the first attempt is known does not belong to another one.
        is_new = before is None or before[0] != point.segment or (attempt is not None and attempt != (before[1] or 1))
        self.segment += is_new
        return self.highest, attempt, is_new

    def _attempt_at(self, moment: datetime) -> int | None:
        return max((number for number, start in self.starts.items() if start <= moment), default=None)


def not_finite_in(job: TrainJob) -> frozenset[str]:
    """The metrics of the last report that are NaN or infinite."""
    return frozenset(name for name, text in metrics_of(job).items() if _is_not_finite(text))


def with_notes(points: Sequence[Point], notes: Iterable[tuple[datetime, str]]) -> list[Seen]:
    """The points of a history with the metrics that were not finite, of which time and name were noted.

    A history is thinned: a note goes to the point that stands for its time.
    """
    times = [point.at for point in points]
    found: list[set[str]] = [set() for _ in points]
    for moment, name in notes:
        index = min(bisect.bisect_left(times, moment.replace(microsecond=0)), len(points) - 1)
        if index >= 0 and name not in points[index].metrics:
            found[index].add(name)
    return [Seen(point, frozenset(names)) for point, names in zip(points, found, strict=True)]


def seen_of(reports: Iterable[KeptReport]) -> list[Seen]:
    """The reports of a run that was kept, as they would have been seen."""
    found: list[Seen] = []
    segment = 0
    for before, report in pairwise(chain((None,), reports)):
        assert report is not None
        segment += before is not None and falls(before, report)
        at = datetime.fromtimestamp(report.at, UTC)
        point = Point(at, report.percentage, report.values, segment, report.attempt)
        found.append(Seen(point, report.not_finite, report))
    return found


def points_of(uid: str, seen: Sequence[Seen], marker: Marker) -> contract.Points:
    """The columns of reports that follow those that the marker has taken."""
    answer = contract.Points(uid=uid, replace=False, times=[], steps=[], percentages=[], curves=[], marks=[])
    for index, one in enumerate(seen):
        time, attempt, is_new = marker.take(one.point)
        if is_new:
            answer.marks.append(contract.Mark(index=index, segment=marker.segment, attempt=attempt))
        answer.times.append(time)
        answer.steps.append(one.point.metrics.get(_STEP))
        answer.percentages.append(one.point.percentage)
    answer.curves.extend(_curve(name, seen) for name in _names(seen))
    return answer


def replaced(uid: str) -> contract.Points:
    """That the series has to be read again."""
    return contract.Points(uid=uid, replace=True, times=[], steps=[], percentages=[], curves=[], marks=[])


def _names(seen: Sequence[Seen]) -> Collection[str]:
    found: dict[str, None] = {}
    for one in seen:
        found.update(dict.fromkeys(one.point.metrics))
        found.update(dict.fromkeys(sorted(one.not_finite)))
    return [name for name in found if name not in COUNTERS]


def _curve(name: str, seen: Sequence[Seen]) -> contract.Curve:
    return contract.Curve(
        name=name,
        values=[one.point.metrics.get(name) for one in seen],
        lows=_edges(name, seen, KeptReport.low),
        highs=_edges(name, seen, KeptReport.high),
        not_finite=[index for index, one in enumerate(seen) if name in one.not_finite],
    )


def _edges(name: str, seen: Sequence[Seen], edge: Callable[[KeptReport, str], float | None]) -> list[float | None]:
    """The lowest or highest values of reports that were joined; empty if none was."""
    if not any(one.report is not None and (name in one.report.lows or name in one.report.highs) for one in seen):
        return []
    return [edge(one.report, name) if one.report is not None else one.point.metrics.get(name) for one in seen]


def _is_not_finite(text: str) -> bool:
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False
