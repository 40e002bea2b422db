# SPDX-License-Identifier: Apache-2.0
"""The curve of a training: the reports of a whole run as samples.

`Sample` is one report, or several in a row that were joined. Everything that shows or keeps curves uses it: the
manager, the commands, the files of a local cluster, the dashboard.

`thinned` bounds a list of samples without losing what a chart must show: it joins neighbours, and a joined sample says
the lowest and the highest value.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.progress import Extreme

_DIGITS = ".6g"
_EXACT = 2.0**53
_STEP = "current_step"
COUNTERS = ("current_step", "total_steps", "current_epoch", "total_epochs")
"""Metrics that say how far the training is. They are not shown as curves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One report of a training, or several in a row that were joined."""

    at: float
    """Seconds since 1970, by the clock of the training; of several: of the last."""
    percentage: int | None = None
    attempt: int | None = None
    """1 for the first start of the pods, one more for each restart of the JobSet. None: not known."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics that are finite, the steps and epochs among them; of several reports: the last value of each."""
    not_finite: frozenset[str] = frozenset()
    """Metrics that were NaN or infinite at least once. A ring leaves them out."""
    count: int = 1
    segment: int = 0
    """Rises when the training falls back to an earlier step, as after a restart from a checkpoint."""
    lows: Mapping[str, float] = field(default_factory=dict)
    """The lowest value of a metric, where the training passed a lower one than the last since the sample before."""
    highs: Mapping[str, float] = field(default_factory=dict)
    """The same, the highest."""

    @property
    def step(self) -> float | None:
        """The step, if the training told it."""
        return self.values.get(_STEP)

    def low(self, metric: str) -> float | None:
        return self.lows.get(metric, self.values.get(metric))

    def high(self, metric: str) -> float | None:
        return self.highs.get(metric, self.values.get(metric))


def sample_of(status: TrainerStatus, metrics: Mapping[str, str], attempt: int | None = None) -> Sample | None:
    """The report of a job's status, with its metrics as text; None if it has no time."""
    at = moment(status.last_updated_time)
    if at is None:
        return None
    numbers = dict[str, float]()
    for name, text in metrics.items():
        with suppress(ValueError):
            numbers[name] = float(text)
    return Sample(
        at=at.timestamp(),
        percentage=status.progress_percentage,
        attempt=attempt,
        values={name: number for name, number in numbers.items() if math.isfinite(number)},
        not_finite=frozenset(name for name, number in numbers.items() if not math.isfinite(number)),
    )


def passed(said: Extreme, first: float | None) -> tuple[dict[str, float], dict[str, float]]:
    """The lowest and highest values that a report tells of after step `first`; None: of the whole run."""
    lows, highs = dict[str, float](), dict[str, float]()
    for told in (said.run, said.recent):
        for name, known in told.items():
            if known.lowest is not None and _is_after(known.lowest_step, first):
                lows[name] = min(known.lowest, lows.get(name, known.lowest))
            if known.highest is not None and _is_after(known.highest_step, first):
                highs[name] = max(known.highest, highs.get(name, known.highest))
    return lows, highs


def _is_after(step: float | None, first: float | None) -> bool:
    return step is not None and (first is None or step > first)


def falls(before: Sample, sample: Sample) -> bool:
    """Whether the training fell back to an earlier step between two samples, or another attempt began."""
    if before.attempt is not None and sample.attempt is not None and before.attempt != sample.attempt:
        return True
    if before.step is not None and sample.step is not None:
        return sample.step < before.step
    return before.percentage is not None and sample.percentage is not None and sample.percentage < before.percentage


def with_segments(run: Iterable[Sample]) -> list[Sample]:
    """The samples of a run, each with its segment."""
    found: list[Sample] = []
    for sample in run:
        segment = found[-1].segment + falls(found[-1], sample) if found else 0
        found.append(replace(sample, segment=segment))
    return found


def joined(first: Sample, second: Sample) -> Sample:
    """One sample for two: the last values, and the lowest and highest ones of both."""
    names = [name for name in {**first.values, **second.values} if name not in COUNTERS]
    values = {**first.values, **second.values}
    both = (first, second)
    lows = {name: min(low for one in both if (low := one.low(name)) is not None) for name in names}
    highs = {name: max(high for one in both if (high := one.high(name)) is not None) for name in names}
    return Sample(
        at=second.at,
        percentage=second.percentage if second.percentage is not None else first.percentage,
        attempt=second.attempt if second.attempt is not None else first.attempt,
        values=values,
        not_finite=first.not_finite | second.not_finite,
        count=first.count + second.count,
        lows={name: low for name, low in lows.items() if low != values[name]},
        highs={name: high for name, high in highs.items() if high != values[name]},
    )


def thinned(run: Sequence[Sample], most: int) -> list[Sample]:
    """The same run in at most so many samples, or in as few as its segments allow."""
    found = list(run)
    while len(found) > most:
        made: list[Sample] = []
        is_open = False
        for sample in found:
            if is_open and not falls(made[-1], sample):
                made[-1] = joined(made[-1], sample)
                is_open = False
            else:
                made.append(sample)
                is_open = True
        if len(made) == len(found):  # each is a segment of its own
            return made
        found = made
    return found


def after(last: Sample | None, run: Sequence[Sample]) -> Sequence[Sample]:
    """The samples after the last one that a ring holds.

    If both have it, it tells more than its time: a ring has whole seconds, and clocks are set back.
    """
    if last is None:
        return run
    for place in range(len(run) - 1, -1, -1):
        sample = run[place]
        is_as_far = (math.floor(sample.at), sample.percentage) == (last.at, last.percentage)
        if is_as_far and last.values.items() <= {name: rounded(one) for name, one in sample.values.items()}.items():
            return run[place + 1 :]
    return [sample for sample in run if math.floor(sample.at) > last.at]


def rounded(number: float) -> float:
    """As a ring keeps it: with six digits, and integers as they are."""
    return number if number.is_integer() and abs(number) < _EXACT else float(format(number, _DIGITS))
