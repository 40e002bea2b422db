# SPDX-License-Identifier: Apache-2.0
"""What was seen of the progress of one job while the command runs: curves, and the slope of its percentage."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

POINTS = 480
"""Most points that are kept. When there are more, every second one is dropped, so that the whole run stays."""
SLOPE = timedelta(minutes=10)
"""The slope of the percentage is that of so long a time."""


@dataclass(frozen=True, slots=True)
class Point:
    """One report."""

    at: datetime
    percentage: int | None
    step: float | None
    metrics: Mapping[str, float]
    """Those that are finite numbers."""
    segment: int
    """Counts up when the training falls back to an earlier step, as after a restart from a checkpoint."""


def numbers_of(metrics: Mapping[str, str]) -> dict[str, float]:
    """The metrics that are finite numbers."""
    found = {}
    for name, text in metrics.items():
        try:
            number = float(text)
        except ValueError:
            continue
        if math.isfinite(number):
            found[name] = number
    return found


class History:
    """The reports of one job, in the order in which they were seen."""

    def __init__(self) -> None:
        self._points: list[Point] = []

    @property
    def points(self) -> tuple[Point, ...]:
        """What is kept, oldest first."""
        return tuple(self._points)

    def add(self, at: datetime, percentage: int | None, metrics: Mapping[str, str]) -> None:
        """Take in a report. The same one again changes nothing."""
        numbers = numbers_of(metrics)
        step = numbers.get("current_step")
        last = self._points[-1] if self._points else None
        if last is not None and (last.at, last.percentage, last.metrics) == (at, percentage, numbers):
            return
        segment = 0 if last is None else last.segment + _fell(last, percentage, step)
        self._points.append(Point(at, percentage, step, numbers, segment))
        if len(self._points) > POINTS:
            # The newest one stays.
            self._points = self._points[-1::-2][::-1]

    def seconds_left(self) -> float | None:
        """Seconds from the last report to 100 %, by the slope of the last ten minutes.

        None if there is no percentage, or if it does not rise.
        """
        if not self._points:
            return None
        last = self._points[-1]
        recent = [
            point
            for point in self._points
            if point.segment == last.segment and point.percentage is not None and point.at >= last.at - SLOPE
        ]
        if last.percentage is None or len(recent) < 2:
            return None
        first = recent[0]
        rise, seconds = last.percentage - (first.percentage or 0), (last.at - first.at).total_seconds()
        return (100 - last.percentage) * seconds / rise if rise > 0 and seconds > 0 else None

    def curve(self, metric: str) -> list[float]:
        """The values of a metric, oldest first."""
        return [point.metrics[metric] for point in self._points if metric in point.metrics]


def _fell(last: Point, percentage: int | None, step: float | None) -> bool:
    if step is not None and last.step is not None:
        return step < last.step
    return percentage is not None and last.percentage is not None and percentage < last.percentage
