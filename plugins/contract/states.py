# SPDX-License-Identifier: Apache-2.0
"""The states of a TrainJob: the words that metrics, events, views and plugins share."""

from enum import StrEnum


class JobState(StrEnum):
    """What a TrainJob is doing. The first one that applies counts, in this order."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    """The manager cannot build or apply its objects; the condition `Blocked` says why."""
    SUSPENDED = "Suspended"
    RUNNING = "Running"
    """At least one of its pods is active, ready, succeeded or failed."""
    PENDING = "Pending"
    """It has had no pod since it was created or resumed."""

    @property
    def is_over(self) -> bool:
        """Whether a job in this state has ended."""
        return self in {JobState.COMPLETE, JobState.FAILED}
