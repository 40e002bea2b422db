# SPDX-License-Identifier: Apache-2.0
"""What this process remembers of each TrainJob between two reconciles.

The memory saves work and delays reports; no decision depends on it. After a restart it is empty, and the same decisions
follow a few seconds later.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from trainwright.api.objects import Key
from trainwright.controller.trainer.build.built import BuildMemory
from trainwright.controller.trainer.job.obstacles import PATIENCE_SECONDS, Obstacle, Reason


@dataclass(slots=True)
class Hindrance:
    """An obstacle, and since when the job has been meeting it."""

    obstacle: Obstacle
    since: float
    """On the clock of the memories, in seconds."""
    reported: bool = False
    """Whether the event and the log line were written."""


@dataclass(slots=True)
class JobMemory:
    """The memory of one job."""

    uid: str = ""
    """Of the TrainJob: one that is made anew under the name of another starts without its memory."""
    build: BuildMemory = field(default_factory=BuildMemory)
    hindrance: Hindrance | None = None
    counters_since: float | None = None
    """Since when counters differ from the written status, on the clock of the memories; None: they do not."""

    def meet(self, obstacle: Obstacle, now: float) -> float:
        """Note that the job has met the obstacle. Returns the seconds until it is to be shown; 0: show it now.

        An obstacle with the same reason counts as the same obstacle; another reason restarts the time.
        """
        if self.hindrance is None or self.hindrance.obstacle.reason is not obstacle.reason:
            self.hindrance = Hindrance(obstacle, now)
        self.hindrance.obstacle = obstacle
        return max(0.0, self.hindrance.since + PATIENCE_SECONDS - now)

    def reports(self) -> bool:
        """Whether to report the obstacle now: True once for each hindrance."""
        if self.hindrance is None or self.hindrance.reported:
            return False
        self.hindrance.reported = True
        return True


class Memories:
    """The memories of all jobs."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """`monotonic` gives seconds on a clock that never goes back, such as the event loop's."""
        self.monotonic = monotonic
        self._jobs: dict[Key, JobMemory] = {}

    def of(self, key: Key, uid: str) -> JobMemory:
        """The memory of the job with this uid, empty at first.

        No reconcile need see that a job is gone: it may be deleted and made anew before a worker takes its key.
        """
        memory = self._jobs.get(key)
        if memory is None or memory.uid != uid:
            memory = self._jobs[key] = JobMemory(uid)
        return memory

    def forget(self, key: Key) -> None:
        """Drop the memory of a job that is gone, has another manager, or has ended with nothing left to do."""
        self._jobs.pop(key, None)

    def hindered_by(self, reason: Reason) -> set[Key]:
        """The jobs whose obstacle has this reason."""
        return {
            key
            for key, memory in self._jobs.items()
            if memory.hindrance is not None and memory.hindrance.obstacle.reason is reason
        }

    def __len__(self) -> int:
        return len(self._jobs)
