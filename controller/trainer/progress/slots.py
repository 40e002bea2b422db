# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one TrainJob that reports, and when its newest value is due."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from trainwright.api.conditions import is_true
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE
from trainwright.controller.trainer.job.status import is_finished
from trainwright.controller.trainer.progress.budget import Allowance
from trainwright.controller.trainer.progress.refusals import Refused
from trainwright.controller.trainer.progress.reports import COMPLETE, Report, is_newer, same_content

BURST = 3
"""Values of a TrainJob that are written at once, before `interval` applies."""
SAME_SECONDS = 60.0
"""Pause between two writes of values that differ in their time alone."""
FINISHED_SECONDS = 60.0
"""Shortest pause between two writes of a TrainJob that has ended."""
FLOOR_SECONDS = 60.0
FLOOR_INTERVALS = 3.0
"""A value is due at the latest after FLOOR_SECONDS, or so many intervals if that is longer."""
PODS = 64
"""Pods of a TrainJob whose last report is remembered."""
OWN = 4
"""Own values that are remembered, to know them when the watch shows them."""


@dataclass(slots=True, eq=False)
class Slot:
    """One TrainJob. All times are of a clock that never goes back, in seconds."""

    key: Key
    uid: str
    allowance: Allowance
    pending: Report | None = None
    """The newest accepted value that is not written. A first 100 % stays until it is written."""
    arrived: float = 0.0
    """When it was accepted."""
    behind: tuple[Report, float] | None = None
    """A newer value that waits for the first 100 % to be written, and when it was accepted."""
    waiting_since: float | None = None
    """When the oldest value was accepted that neither it nor a newer one has been written since."""
    stored: TrainerStatus | None = None
    """What the API server holds, as far as known."""
    own: deque[TrainerStatus] = field(default_factory=lambda: deque(maxlen=OWN))
    last_write: float = float("-inf")
    not_before: float = float("-inf")
    """After a failure: when to try again."""
    failures: int = 0
    is_finished: bool = False
    is_complete: bool = False
    """Whether it ended with success."""
    has_diverged: bool = False
    """Whether the last value that was written has a loss that is not finite."""
    is_busy: bool = False
    """Whether a write is on its way."""
    writing: Report | None = None
    """The value that is on its way."""
    was_refused: bool = False
    """Whether a refusal of the API server was logged."""
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    """Reports that are answered when the value is stored."""
    pods: dict[str, float] = field(default_factory=dict)
    """When each pod reported last, in the order of their last reports."""
    again: set[str] = field(default_factory=set)
    """Those of them that reported more than once."""
    last_report: float = 0.0
    last_push: float | None = None
    rank: int | None = None
    """With which rank it is in the queue of due slots; None: it is not."""
    timer: float | None = None
    """For when a look at it is planned."""

    def learn(self, job: TrainJob) -> None:
        """Note whether the TrainJob has ended."""
        self.is_finished = is_finished(job)
        self.is_complete = job.status is not None and is_true(job.status.conditions, CONDITION_COMPLETE)

    def saw(self, pod: str, now: float) -> None:
        """Remember when a pod reported."""
        if not pod:
            return
        if self.pods.pop(pod, None) is not None:
            self.again.add(pod)
        self.pods[pod] = now
        if len(self.pods) > PODS:
            oldest = next(iter(self.pods))
            del self.pods[oldest]
            self.again.discard(oldest)

    def is_urgent(self) -> bool:
        """Whether the pending value is the first with 100 %."""
        return self.pending is not None and self.pending.is_complete and not self._has_completed()

    def _has_completed(self) -> bool:
        return self.stored is not None and self.stored.progress_percentage == COMPLETE

    def is_stuck(self) -> bool:
        """Whether its newest value could not be written, and still has to be."""
        return self.failures > 0 and (self.is_busy or self.pending is not None)

    # ------------------------------------------------------------------ values

    def put(self, report: Report, now: float) -> bool:
        """Accept a value. Returns whether an older one is dropped for it."""
        if self.waiting_since is None:
            self.waiting_since = now
        if self.is_urgent() and not report.is_complete:
            replaced = self.behind is not None
            self.behind = report, now
            return replaced
        replaced = self.pending is not None
        self.pending, self.arrived, self.behind = report, now, None
        return replaced

    def drop(self) -> None:
        """Remove the pending value; one behind it comes forward."""
        self.pending = self.waiting_since = None
        if self.behind is not None:
            self.pending, self.arrived = self.behind
            self.waiting_since = self.arrived
            self.behind = None

    def put_back(self, report: Report, arrived: float, since: float | None) -> None:
        """Accept a value again that could not be written, unless a newer one came meanwhile."""
        self.waiting_since = since
        if self.pending is None:
            self.pending, self.arrived = report, arrived
        elif report.is_complete and not self.pending.is_complete and not self._has_completed():
            self.behind = self.pending, self.arrived
            self.pending, self.arrived = report, arrived

    def lowers(self, report: Report) -> bool:
        """Whether a late report takes back progress of a TrainJob that ended with success."""
        last = self.pending or self.writing
        newest = last.status if last is not None else self.stored
        shown = newest.progress_percentage if newest is not None else None
        if not self.is_complete or shown is None:
            return False
        return shown == COMPLETE if report.percentage is None else report.percentage < shown

    def is_behind(self, stored: TrainerStatus) -> bool:
        """Whether a value that another replica stored is newer than the pending one."""
        return self.pending is not None and is_newer(stored, self.pending.status)

    def is_overtaken(self, report: Report, known: TrainerStatus | None) -> bool:
        """Whether another replica has stored a newer value since `known` was what the API server holds."""
        if self.stored is None or self.stored is known or self.stored in self.own:
            return False
        return is_newer(self.stored, report.status)

    def answer(self, error: Refused | None) -> None:
        """Let the reports go on that wait for the value."""
        if self.is_urgent():
            return  # theirs is still to be written: this is the outcome of an older one
        for waiter in self.waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        self.waiters.clear()

    # ------------------------------------------------------------------ times

    def interval(self, interval: float) -> float:
        """Seconds between two writes, if those of other TrainJobs have `interval`."""
        return max(interval, FINISHED_SECONDS) if self.is_finished else interval

    def due(self, now: float, interval: float) -> float:
        """When the pending value is due; there must be one. `interval` is as in the method of this name."""
        report = self.pending
        assert report is not None
        if self.is_urgent() or (report.diverged and not self.has_diverged):
            at = now
        elif self.stored is not None and same_content(self.stored, report.status):
            at = self.last_write + SAME_SECONDS
        else:
            at = now + self.allowance.wait(now, self.interval(interval))
        if self.waiting_since is not None:
            at = min(at, self.waiting_since + max(FLOOR_SECONDS, FLOOR_INTERVALS * self.interval(interval)))
        return max(at, self.not_before)

    def wrote(self, now: float, interval: float) -> None:
        """A write began, by this process or by another."""
        self.last_write = now
        self.allowance.take(now, self.interval(interval))
