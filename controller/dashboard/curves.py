# SPDX-License-Identifier: Apache-2.0
"""The reports of a job as columns, for charts. Pure functions of what was seen."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trainwright.controller.dashboard import contract
from trainwright.controller.trainer.progress.curve import COUNTERS, Sample


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

    def take(self, report: Sample) -> tuple[float, int | None, bool]:
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


def points_of(uid: str, seen: Sequence[Sample], marker: Marker, *, number: int = 0) -> contract.Points:
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


def _curve(name: str, seen: Sequence[Sample]) -> contract.Curve:
    return contract.Curve(
        name=name,
        values=[one.values.get(name) for one in seen],
        lows=_edges(name, seen, Sample.low),
        highs=_edges(name, seen, Sample.high),
        not_finite=[index for index, one in enumerate(seen) if name in one.not_finite],
    )


def _edges(name: str, seen: Sequence[Sample], edge: Callable[[Sample, str], float | None]) -> list[float | None]:
    """The lowest or highest values of reports that were joined; empty if none was."""
    if not any(name in one.lows or name in one.highs for one in seen):
        return []
    return [edge(one, name) for one in seen]
