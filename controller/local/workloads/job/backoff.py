# SPDX-License-Identifier: Apache-2.0
"""How long a Job waits before it replaces failed pods: 10 s after the first failure, doubling to 10 minutes.

The count of failures is kept in memory, as in Kubernetes: after a restart of the controller the delays begin again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trainwright.api.objects import Document
from trainwright.controller.local.workloads.pods import finished_at

FIRST_SECONDS = 10.0
MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of a Job's pods since the last success."""

    count: int = 0
    last: datetime | None = None
    """When the last of them happened."""

    def after(self, succeeded: Sequence[Document], failed: Sequence[Document]) -> "Failures":
        """The record after pods have finished that it did not count before."""
        if not succeeded and not failed:
            return self
        times = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Failures(self.count + len(times), times[-1])
        success = max(finished_at(pod) for pod in succeeded)
        later = [time for time in times if time > success]
        return Failures(len(later), later[-1]) if later else Failures()

    def seconds_left(self, now: datetime) -> float:
        """Seconds until a pod may be created; 0: now."""
        if not self.count or self.last is None:
            return 0.0
        # The exponent is bounded: a Job may fail a million times.
        delay: float = min(FIRST_SECONDS * 2 ** min(self.count - 1, 10), MOST_SECONDS)
        return max(0.0, delay - (now - self.last).total_seconds())


NO_FAILURES = Failures()
