# SPDX-License-Identifier: Apache-2.0
"""How far attempts came, and which attempt a report of progress belongs to.

A report is written some seconds after it was made, so the job may show the last one of an attempt that has ended while
the next one runs. Report and start of a pod are times of the same node in whole seconds, so they can be compared. The
pods of an attempt start after all pods of the one before have ended.
"""

from dataclasses import dataclass
from datetime import datetime

from trainwright.api.times import format_time, parse
from trainwright.api.trainer.v1alpha1 import TrainerStatus

_STEPS = ("checkpoint_step", "current_step")
"""Metrics of a report: where the next attempt begins counts more than where this one was."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a job has reported."""

    step: float | None = None
    percent: int | None = None
    at: str = ""
    """When, in whole seconds; empty: not known."""
    is_own: bool = True
    """Whether the attempt in question has reported it; else one before it has."""


@dataclass(frozen=True, slots=True)
class Span:
    """When an attempt began and ended, by the clocks of its nodes, in whole seconds; None: not known."""

    began: datetime | None = None
    ended: datetime | None = None


def position_of(report: TrainerStatus | None) -> Position:
    """The step of the last checkpoint, else the last one, and the percentage."""
    if report is None:
        return Position()
    metrics = {metric.name: metric.value for metric in report.metrics or ()}
    text = next((metrics[name] for name in _STEPS if name in metrics), None)
    try:
        step = float(text) if text is not None else None
    except ValueError:
        step = None
    at = report.last_updated_time
    return Position(step, report.progress_percentage, format_time(parse(at)) if at else "")


def is_since(position: Position, span: Span, before: Span | None) -> bool:
    """Whether a report was made by this attempt or a later one; True where it is not known.

    `before` is the span of the attempt before; None: there is none.
    """
    if not position.at or span.began is None:
        return True
    at, began = parse(position.at), span.began.replace(microsecond=0)
    if at != began:
        return at > began
    # The second in which one attempt ended and the next one began does not tell: it counts as the earlier one's.
    return before is None or (before.ended is not None and before.ended.replace(microsecond=0) < at)
