# SPDX-License-Identifier: Apache-2.0
"""Whether the job that `local run` follows seems to hang.

It does if a rank ended or went silent while the job goes on. The command sees by itself when pods end and when reports
of the job come, so any limit will do. Which of several ranks that report is silent, the manager alone knows; it says so
in the condition `Stalled`, at its own limit.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from trainwright.api.conditions import find
from trainwright.api.objects import Document, annotations_of
from trainwright.api.times import Now, moment, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods
from trainwright.api.trainer.v1alpha1.progress import declared
from trainwright.controller.trainer.job.pods import attempt_of, is_of_initializer
from trainwright.controller.trainer.job.stall import (
    DEFAULT_SECONDS,
    StallClock,
    ended_ranks,
    ended_ranks_message,
    stall_of,
)
from trainwright.controller.trainer.job.status import CONDITION_STALLED, state_of
from trainwright.plugins.contract.picture import holds

EXIT_CODE = 123
"""Of a command that stopped its job because it seemed to hang."""


@dataclass
class Stalls:
    """Looks at one job again and again. `after`: seconds without progress."""

    after: float
    now: Now = wall_clock
    monotonic: Callable[[], float] = time.monotonic
    _clock: StallClock | None = field(default=None, init=False)

    def look(self, document: Document, pods: Iterable[Document]) -> str:
        """How the job stands still, in a sentence; empty: it does not, as far as is known."""
        job, found = msgspec.convert(document, TrainJob), list(pods)
        tick = self.monotonic()
        if self._clock is None:
            self._clock = StallClock.begin(tick)
        is_running = state_of(job).state.is_active and had_pods(job)
        attempt = max(map(attempt_of, found), default=None)
        self._clock.see(job, tick, running=is_running and any(map(_trains, found)), attempt=attempt)
        if not is_running:
            return ""
        text, _ = ended_ranks_message(ended_ranks(found), self.after, self.now())
        if text:
            return text
        # As the progress writer does it; others may report from elsewhere.
        usual = ["rank 0"] if sum(map(_trains, found)) == 1 else ["rank 0 as a rule"]
        stall, _ = stall_of(self._clock, self.after, tick, pods=usual, promised=False)
        return stall.message if stall is not None else self._of_manager(job)

    def _of_manager(self, job: TrainJob) -> str:
        """What the manager says, once that is true for as long as the command was told."""
        held = find(job.status_or_empty.conditions, CONDITION_STALLED)
        if held is None or held.status != "True" or held.reason == "NeverReported":
            return ""
        limit = declared(annotations_of(job), {})[0].stall_after or DEFAULT_SECONDS
        lasted = limit + (self.now() - (moment(held.last_transition_time) or self.now())).total_seconds()
        return held.message if lasted >= self.after else ""


def _trains(pod: Document) -> bool:
    return not is_of_initializer(pod) and holds(pod, "Ready") is not None
