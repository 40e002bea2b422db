# SPDX-License-Identifier: Apache-2.0
"""What the controller of TrainJobs keeps in the record of a job between two reconciles."""

from dataclasses import dataclass, field

from trainwright.controller.trainer.build.built import BuildMemory
from trainwright.controller.trainer.job.obstacles import PATIENCE_SECONDS, Obstacle, Reason


@dataclass(slots=True)
class JobMemory:
    """The part of one job: what was built, and what keeps the job from going on."""

    build: BuildMemory = field(default_factory=BuildMemory)
    obstacle: Obstacle | None = None
    """What keeps the job from going on."""
    obstacle_since: float = 0.0
    """On a clock that never goes back, in seconds."""
    is_reported: bool = False
    """Whether the event and the log line of the obstacle were written."""
    counters_since: float | None = None
    """Since when counters differ from the written status, on the same clock; None: they do not."""

    def meet(self, obstacle: Obstacle, now: float) -> float:
        """Note that the job has met the obstacle. Returns the seconds until it is to be shown; 0: show it now.

        An obstacle with the same reason counts as the same obstacle; another reason restarts the time.
        """
        if not self.has(obstacle.reason):
            self.obstacle_since, self.is_reported = now, False
        self.obstacle = obstacle
        return max(0.0, self.obstacle_since + PATIENCE_SECONDS - now)

    def has(self, reason: Reason) -> bool:
        """Whether the obstacle has this reason."""
        return self.obstacle is not None and self.obstacle.reason is reason

    def reports(self) -> bool:
        """Whether to report the obstacle now: True once for each."""
        if self.obstacle is None or self.is_reported:
            return False
        self.is_reported = True
        return True
