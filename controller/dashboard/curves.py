# SPDX-License-Identifier: Apache-2.0
"""The reports of a job as columns, for charts: their form in answers and events, and how they are made. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from trainwright.controller.dashboard.contract import PageAnswer
from trainwright.controller.trainer.progress.curve import COUNTERS, Sample
from trainwright.controller.views.watch import attempt_at


class Curve(PageAnswer):
    """One metric over time."""

    name: str
    values: list[float | None]
    """One for each entry of `times`. Null: not reported then, or not finite."""
    not_finite: list[int]
    """Indices at which it was NaN or infinite."""
    lows: list[float | None] = msgspec.field(default_factory=list)
    """Where an entry stands for several reports: the lowest value of each entry. Empty: each stands for one."""
    highs: list[float | None] = msgspec.field(default_factory=list)
    """The same, the highest."""


class Mark(PageAnswer):
    """The begin of a segment: where the training started, or fell back to an earlier step."""

    index: int
    """Into `times`."""
    segment: int
    """Rises by one with each mark; the first is 0."""
    attempt: int | None
    """The attempt that begins here; 1 for the first. Null: not known."""


class Points(PageAnswer):
    """Columns of reports: entry i of each list belongs to one report. Event `points`: reports to append.

    A report may be in the series and in an event that is sent at the same time: leave out reports of an event of which
    the numbers are not above `number` of the series. A page that holds a series appends the rest, and adds curves that
    are new with nulls in front. `index` of marks and `not_finite` count from the begin of these columns. If `replace`
    is true, the series begins again, or has an earlier begin: read `/series`.
    """

    uid: str
    """Of the job."""
    number: int
    """Of the last report. This process counts those that it sees of a job; one that it saw before has no number. Times
    cannot tell reports apart: they are whole seconds, and clocks are set back."""
    replace: bool
    times: list[float] = msgspec.field(default_factory=list)
    """Seconds since 1970, by the clock of the training; never falling."""
    steps: list[float | None] = msgspec.field(default_factory=list)
    percentages: list[int | None] = msgspec.field(default_factory=list)
    curves: list[Curve] = msgspec.field(default_factory=list)
    """By name; without steps, epochs and their totals."""
    marks: list[Mark] = msgspec.field(default_factory=list)


class JobSeries(PageAnswer):
    """Answer of `/series`: the whole run as far as it is known, in at most about a thousand entries.

    A local cluster keeps the run on disk. Elsewhere it is what the dashboard has seen and a manager has recorded, a few
    hundred reports, thinned evenly.
    """

    now: str
    namespace: str
    name: str
    points: Points
    since: str | None
    """The dashboard itself has seen the reports since then."""
    recorded: bool
    """Earlier reports come from the file of a local cluster, or from the ConfigMap `<job>-progress`."""
    unread: str
    """Why earlier reports are missing, for the user; empty if nothing is known to be missing."""
    joined: int = 1
    """The most reports that one entry stands for. 1: each entry is one report, or one of those that were left."""


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


def points_of(uid: str, seen: Sequence[Sample], marker: Marker, *, number: int = 0) -> Points:
    """The columns of reports that follow those that the marker has taken. `number`: of the last one."""
    answer = Points(uid=uid, number=number, replace=False)
    for index, one in enumerate(seen):
        time, attempt, is_new = marker.take(one)
        if is_new:
            answer.marks.append(Mark(index=index, segment=marker.segment, attempt=attempt))
        answer.times.append(time)
        answer.steps.append(one.step)
        answer.percentages.append(one.percentage)
    names = dict.fromkeys(name for one in seen for name in (*one.values, *sorted(one.not_finite)))
    answer.curves.extend(_curve(name, seen) for name in names if name not in COUNTERS)
    return answer


def _curve(name: str, seen: Sequence[Sample]) -> Curve:
    return Curve(
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
