# SPDX-License-Identifier: Apache-2.0
"""The reports of a job as columns, for charts. Pure functions of what was seen."""

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.history import Point
from trainwright.controller.dashboard import contract
from trainwright.controller.trainer.progress.report import is_finite
from trainwright.controller.views.job import COUNTERS, metrics_of
from trainwright.controller.views.reports import KeptReport, falls


def attempt_at(starts: Mapping[int, datetime], moment: float) -> int | None:
    """The attempt that had begun last; None: not known. `moment`: in seconds since 1970."""
    return max((number for number, start in starts.items() if start.timestamp() <= moment), default=None)


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

    def take(self, report: KeptReport) -> tuple[float, int | None, bool]:
        """Time and attempt of a report, and whether a segment begins with it."""
        self.highest = max(self.highest, report.at)
        attempt = report.attempt if report.attempt is not None else attempt_at(self.starts, report.at)
        before = self._last
        if before is not None and before[1] is not None:
            # Clocks and late reports: attempts follow each other, and their segments do not mix.
            attempt = max(before[1], attempt or 0)
        self._last = report.segment, attempt
        # A report from before the first attempt is known does not belong to another one.
        is_new = before is None or before[0] != report.segment or (attempt is not None and attempt != (before[1] or 1))
        self.segment += is_new
        return self.highest, attempt, is_new


def not_finite_in(job: TrainJob) -> frozenset[str]:
    """The metrics of the last report that are NaN or infinite."""
    return frozenset(name for name, text in metrics_of(job).items() if not is_finite(text))


def report_of(point: Point, not_finite: frozenset[str] = frozenset()) -> KeptReport:
    """A point of a history, with the metrics that were NaN or infinite, which the history leaves out."""
    return KeptReport(
        at=point.at.timestamp(),
        percentage=point.percentage,
        attempt=point.attempt,
        values=point.metrics,
        not_finite=not_finite,
        segment=point.segment,
    )


def with_notes(points: Sequence[Point], notes: Iterable[tuple[datetime, str]]) -> list[KeptReport]:
    """The points of a history with the metrics that were not finite, of which time and name were noted.

    A history is thinned: a note goes to the point that stands for its time.
    """
    if not points:
        return []
    times = [point.at for point in points]
    found: list[set[str]] = [set() for _ in points]
    for moment, name in notes:
        index = min(bisect.bisect_left(times, moment.replace(microsecond=0)), len(points) - 1)
        while name in points[index].metrics and times[index : index + 2] == [times[index]] * 2:
            index += 1  # of the same second
        if name not in points[index].metrics:
            found[index].add(name)
    return [report_of(point, frozenset(names)) for point, names in zip(points, found, strict=True)]


def with_segments(reports: Iterable[KeptReport]) -> list[KeptReport]:
    """The reports of a run that was kept, each with its segment."""
    found: list[KeptReport] = []
    for report in reports:
        segment = found[-1].segment + falls(found[-1], report) if found else 0
        found.append(replace(report, segment=segment))
    return found


def points_of(uid: str, seen: Sequence[KeptReport], marker: Marker, *, number: int = 0) -> contract.Points:
    """The columns of reports that follow those that the marker has taken. `number`: of the last one."""
    answer = contract.Points(uid=uid, number=number, replace=False)
    for index, one in enumerate(seen):
        time, attempt, is_new = marker.take(one)
        if is_new:
            answer.marks.append(contract.Mark(index=index, segment=marker.segment, attempt=attempt))
        answer.times.append(time)
        answer.steps.append(one.step)
        answer.percentages.append(one.percentage)
    names = dict.fromkeys(name for one in seen for name in (*one.values, *sorted(one.not_finite)))
    answer.curves.extend(_curve(name, seen) for name in names if name not in COUNTERS)
    return answer


def _curve(name: str, seen: Sequence[KeptReport]) -> contract.Curve:
    return contract.Curve(
        name=name,
        values=[one.values.get(name) for one in seen],
        lows=_edges(name, seen, KeptReport.low),
        highs=_edges(name, seen, KeptReport.high),
        not_finite=[index for index, one in enumerate(seen) if name in one.not_finite],
    )


def _edges(
    name: str, seen: Sequence[KeptReport], edge: Callable[[KeptReport, str], float | None]
) -> list[float | None]:
    """The lowest or highest values of reports that were joined; empty if none was."""
    if not any(name in one.lows or name in one.highs for one in seen):
        return []
    return [edge(one, name) for one in seen]
