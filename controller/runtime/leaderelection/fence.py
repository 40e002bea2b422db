# SPDX-License-Identifier: Apache-2.0
"""The time until which this replica may write. The event loop reads it; the thread that renews the lease moves it.

Guarantees: a write starts only within the renew deadline after the last answered renewal, counted from before that
renewal was sent. It is given up before another replica can take the lease. Others count the lease duration from when
they saw the renewal, which is later, so clocks are not compared.

Caveats: the last step, from the check to the kernel, is not atomic; a deadline kills a process that is stopped inside
it. The server may carry out a request that it has read even if the client hangs up. The time between renew deadline and
lease duration covers that.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.controller.runtime.errors import ConfigurationError, NotLeading
from trainwright.controller.runtime.leaderelection.deadline import Deadline

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


Clock: TypeAlias = Callable[[], float]
"""Returns seconds that never decrease."""

_NEVER = float("-inf")
_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def steady_clock() -> float:
    """The monotonic clock; one that also runs while the machine is suspended, if there is one."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Fence:
    """A write permission that expires by itself. Each field is read and set atomically, so no lock is needed."""

    def __init__(self, timing: Timing, clock: Clock = steady_clock, *, deadline: Deadline | None = None) -> None:
        """`deadline` ends the process when the lease expires and the permission was not revoked."""
        self._timing = timing
        self._clock = clock
        self._deadline = deadline
        self._renewed = _NEVER
        self._revoked = False

    def renewed(self, before: float) -> None:
        """The server answered a renewal that was sent at `before`, by the clock of this fence."""
        self._renewed = before
        if self._deadline is not None and not self._revoked:
            self._deadline.set(before + self._timing.lease)

    def revoke(self) -> None:
        """Refuse all further writes, for ever."""
        self._revoked = True
        if self._deadline is not None:
            self._deadline.clear()

    @property
    def open(self) -> bool:
        """Whether a write may start now."""
        return not self._revoked and self._clock() < self._renewed + self._timing.renew

    def check(self) -> None:
        """Raise NotLeading if a write must not start now."""
        if self.open:
            return
        if self._renewed == _NEVER or self._revoked:
            raise NotLeading("this replica does not lead; nothing was sent")
        late = self._clock() - self._renewed
        raise NotLeading(f"the lease was last renewed {late:.1f} s ago and may have expired; nothing was sent")

    def remaining(self) -> float:
        """Seconds until another replica may take the lease; a write must have ended by then."""
        return max(0.0, self._renewed + self._timing.lease - self._clock())
