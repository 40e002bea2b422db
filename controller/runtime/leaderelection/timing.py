# SPDX-License-Identifier: Apache-2.0
"""How long a lease lasts and how often it is renewed (M-10, M-11)."""

from dataclasses import dataclass

from trainwright.controller.runtime.errors import ConfigurationError

JITTER = 1.2
"""A candidate that does not lead tries again after the retry period times 1 to 1 + JITTER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All in seconds. Raises ConfigurationError when the three do not fit together."""

    lease: float = 15.0
    """Others may take the lease when they have not seen it renewed for this long."""
    renew: float = 10.0
    """A leader that could not renew for this long writes nothing more and ends."""
    retry: float = 2.0
    """Between two tries."""

    def __post_init__(self) -> None:
        if self.lease < 1 or not self.lease > self.renew:
            raise ConfigurationError(f"leader election: lease duration {self.lease:g} s must exceed {self.renew:g} s")
        if not self.renew > JITTER * self.retry:
            raise ConfigurationError(
                f"leader election: renew deadline {self.renew:g} s must exceed {JITTER} times the retry period"
                f" {self.retry:g} s"
            )
        if self.retry <= 0:
            raise ConfigurationError("leader election: the retry period must be positive")

    @property
    def request(self) -> float:
        """Limit of one request (M-12)."""
        return min(max(1.0, self.renew / 2), self.renew)

    @property
    def takeover(self) -> float:
        """At most this long after the last renewal of a leader that died, a waiting candidate leads."""
        return self.lease + 2 * self.retry * (1 + JITTER)
