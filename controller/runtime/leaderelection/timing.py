# SPDX-License-Identifier: Apache-2.0
"""Durations of leader election: the lease, the renew deadline, the retry period."""

from dataclasses import dataclass

from trainwright.controller.runtime.errors import ConfigurationError

JITTER = 1.2
"""A candidate that does not lead retries after the retry period times a factor from 1 to 1 + JITTER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All in seconds. Raises ConfigurationError if the durations do not fit together."""

    lease: float = 15.0
    """Lease duration: others may take the lease when they have not seen a renewal for this long."""
    renew: float = 10.0
    """Renew deadline: a leader that could not renew for this long stops writing and ends."""
    retry: float = 2.0
    """Retry period: the time between two attempts."""

    def __post_init__(self) -> None:
        if self.lease < 1 or not self.lease > self.renew:
            raise ConfigurationError(
                f"leader election: the lease duration {self.lease:g} s must exceed the renew deadline {self.renew:g} s"
            )
        if not self.renew > JITTER * self.retry:
            raise ConfigurationError(
                f"leader election: the renew deadline {self.renew:g} s must exceed {JITTER} times the retry period"
                f" {self.retry:g} s"
            )
        if self.retry <= 0:
            raise ConfigurationError("leader election: the retry period must be positive")

    @property
    def request(self) -> float:
        """Time limit of one request."""
        return min(max(1.0, self.renew / 2), self.renew)

    @property
    def takeover(self) -> float:
        """Longest time from the last renewal of a leader that died until a waiting candidate leads."""
        return self.lease + 2 * self.retry * (1 + JITTER)
