# SPDX-License-Identifier: Apache-2.0
"""Until when this replica may write; read by the event loop, moved by the thread that keeps the lease.

Guarantees: a write is begun only while less than the renew deadline has passed since the last renewal that the server
answered, counted from before that renewal was sent, and it is given up before the lease can be taken. Others count the
lease's duration from when they saw the renewal, which is later, so no clocks are compared.

Caveats: the last step, from the check to the kernel, is not atomic; a deadline ends a process that is stopped in it
before others may lead. What the server has read it may carry out even if we hang up. The time between renew deadline
and lease duration is there for that.
"""

import time
from collections.abc import Callable
from typing import TypeAlias

from trainwright.controller.runtime.errors import NotLeading
from trainwright.controller.runtime.leaderelection.deadline import Deadline
from trainwright.controller.runtime.leaderelection.timing import Timing

Clock: TypeAlias = Callable[[], float]
"""Seconds that only grow."""

_NEVER = float("-inf")
_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def steady_clock() -> float:
    """The monotonic clock; where there is one that also counts while the machine sleeps, that one."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Fence:
    """A write permission that expires by itself. Each field is one value, set and read whole, so no lock is needed."""

    def __init__(self, timing: Timing, clock: Clock = steady_clock, *, deadline: Deadline | None = None) -> None:
        """`deadline` ends the process when the lease ends and nobody has revoked the permission."""
        self._timing = timing
        self._clock = clock
        self._deadline = deadline
        self._renewed = _NEVER
        self._revoked = False

    def renewed(self, before: float) -> None:
        """The server answered a renewal that was sent at `before`, by this fence's clock."""
        self._renewed = before
        if self._deadline is not None and not self._revoked:
            self._deadline.set(before + self._timing.lease)

    def revoke(self) -> None:
        """Nothing more, for good."""
        self._revoked = True
        if self._deadline is not None:
            self._deadline.clear()

    @property
    def open(self) -> bool:
        """Whether a write may begin now."""
        return not self._revoked and self._clock() < self._renewed + self._timing.renew

    def check(self) -> None:
        """Raises NotLeading if a write must not begin now."""
        if self.open:
            return
        if self._renewed == _NEVER or self._revoked:
            raise NotLeading("this replica does not lead; nothing was sent")
        late = self._clock() - self._renewed
        raise NotLeading(f"the lease was renewed {late:.1f} s ago, too long to be sure of it; nothing was sent")

    def remaining(self) -> float:
        """Seconds until others may take the lease; a write must have ended by then."""
        return max(0.0, self._renewed + self._timing.lease - self._clock())
