# SPDX-License-Identifier: Apache-2.0
"""The progress of one job as this command knows it: curves, and the slope of its percentage.

It holds the reports that were seen while the command runs, after those that the manager recorded, if it did.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from trainwright.api.trainer.v1alpha1.history import Point, Ring, numbers_of

SLOPE = timedelta(minutes=10)
"""The slope of the percentage is that of so long a time."""


class History:
    def __init__(self) -> None:
        self._ring = Ring()
        self._left: tuple[float | None] | None = None
        self._means: dict[tuple[str, int], list[float]] = {}
        """The same is asked for again and again, and reports are rare."""

    @property
    def points(self) -> tuple[Point, ...]:
        """What is kept, oldest first."""
        return tuple(self._ring.points())

    @property
    def last(self) -> Point | None:
        return next(self._ring.backwards(), None)

    def add(
        self, at: datetime, percentage: int | None, metrics: Mapping[str, str], *, attempt: int | None = None
    ) -> bool:
        """Take in a report; returns whether it is new. `attempt`: None if it is not known."""
        is_new = self._ring.add(at, percentage, numbers_of(metrics), attempt)
        if is_new:
            self._forget()
        return is_new

    def begin_with(self, recorded: Ring) -> None:
        """Put the points that the manager recorded before those that were seen."""
        later = _after(next(recorded.backwards(), None), self._ring.points())
        self._ring = recorded
        for point in later:
            recorded.add(point.at, point.percentage, point.metrics, point.attempt)
        self._forget()

    def seconds_left(self) -> float | None:
        """Seconds from the last report to 100 %, by the slope of the last ten minutes.

        None if there is no percentage, or if it does not rise.
        """
        if self._left is None:
            self._left = (self._seconds_left(),)
        return self._left[0]

    def _seconds_left(self) -> float | None:
        last, rise = self.last, self._ring.rise(SLOPE.total_seconds())
        if last is None or last.percentage is None or rise is None:
            return None
        percent, seconds = rise
        return (100 - last.percentage) * seconds / percent if percent > 0 and seconds > 0 else None

    def curve(self, metric: str) -> list[float]:
        """The values of a metric, oldest first."""
        return self._ring.curve(metric)

    def means(self, metric: str, most: int) -> list[float]:
        """The course of a metric in at most so many numbers. Not to be changed."""
        if (found := self._means.get((metric, most))) is None:
            found = self._means[metric, most] = means_of(self.curve(metric), most)
        return found

    def _forget(self) -> None:
        self._left = None
        self._means.clear()


def _after(last: Point | None, seen: Sequence[Point]) -> Sequence[Point]:
    """The points after the last one that was recorded.

    If both have seen it, it tells more than its time: those are whole seconds, and clocks are set back.
    """
    if last is None:
        return seen
    for place in range(len(seen) - 1, -1, -1):
        point = seen[place]
        is_as_far = (point.at, point.percentage) == (last.at, last.percentage)
        if is_as_far and last.metrics.items() <= point.metrics.items():
            return seen[place + 1 :]
    return [point for point in seen if point.at > last.at]


def means_of(values: Sequence[float], most: int) -> list[float]:
    """The course of the values in at most so many numbers: each is the mean of its part."""
    count = min(most, len(values))
    parts = [values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    if not all(map(math.isfinite, means)):
        # The sum of large numbers may not be finite.
        means = [sum(value / len(part) for value in part) for part in parts]
    return means
