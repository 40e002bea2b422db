# SPDX-License-Identifier: Apache-2.0
"""The time until which this replica may write. The event loop reads it; the thread that renews the lease moves it.

Guarantees: a write starts only within the renew deadline after the last answered renewal, counted from before that
renewal was sent. It is given up before another replica can take the lease. Others count the lease duration from when
they saw the renewal, which is later, so clocks are not compared.

Caveats: the last step, from the check to the kernel, is not atomic; it takes a tenth of a millisecond, more on a busy
machine. A process that is stopped inside it (SIGSTOP, a frozen container, a suspended machine) would send when it goes
on, long after another replica leads: a kernel timer kills it when its lease expires. Without such timers (not on Linux,
32 bits, a sandbox that refuses them) nothing is armed. The server may carry out a request that it has read even if the
client hangs up. The time between renew deadline and lease duration covers that.
"""

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.controller.runtime.errors import ConfigurationError, NotLeading

log = logging.getLogger(__name__)

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

    def __init__(
        self, timing: Timing, clock: Clock = steady_clock, *, deadline: "KernelDeadline | None" = None
    ) -> None:
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


# ------------------------------------------------------------------ the kernel's timers

_ABSOLUTE = 1
_NANOSECONDS = 10**9


class _Event(ctypes.Structure):
    """`struct sigevent`: 64 bytes; notify 0 is SIGEV_SIGNAL."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec`: all zero disarms the timer."""

    _fields_ = (
        ("interval", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class KernelDeadline:
    """A timer that sends SIGKILL. Can be used from any thread; ends with the process."""

    def __init__(self) -> None:
        """Raises OSError if the kernel has no such timer."""
        if sys.platform != "linux" or sys.maxsize <= 2**32:
            raise OSError("this system has no kernel timers that run while the machine is suspended")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        event = _Event(signal=signal.SIGKILL)
        try:
            create = self._libc.timer_create
        except AttributeError as error:
            raise OSError("the C library has no timer_create") from error
        if create(ctypes.c_int(time.CLOCK_BOOTTIME), ctypes.byref(event), ctypes.byref(self._timer)) != 0:
            raise _last_error()

    def set(self, at: float) -> None:
        """End the process at `at`, a time of `steady_clock`, instead of at the time set before."""
        seconds, rest = divmod(at, 1.0)
        self._arm(_Times(seconds=int(seconds), nanoseconds=int(rest * _NANOSECONDS)))

    def clear(self) -> None:
        self._arm(_Times())

    def _arm(self, times: _Times) -> None:
        if self._libc.timer_settime(self._timer, ctypes.c_int(_ABSOLUTE), ctypes.byref(times), None) != 0:
            raise _last_error()


def kernel_deadline() -> KernelDeadline | None:
    """A deadline that the kernel enforces; None, with a line in the log, if there is none."""
    try:
        return KernelDeadline()
    except OSError as error:
        log.info("leader election: the kernel cannot end a stopped process when its lease expires: %s", error)
        return None


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
