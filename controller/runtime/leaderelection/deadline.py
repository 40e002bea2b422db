# SPDX-License-Identifier: Apache-2.0
"""Ends the process by a timer of the kernel when its lease ends, even while it is stopped.

The fence is asked just before the bytes of a write leave, but between the two lies some work (a tenth of a millisecond,
and more on a busy machine). A process that is stopped right there (SIGSTOP, a frozen container, a paused machine) would
send when it goes on, long after somebody else leads. The kernel kills it before that, without a step of its own.

Nothing is armed where there are no such timers (other systems than Linux, 32 bits, a sandbox that refuses them).
"""

import ctypes
import logging
import os
import signal
import sys
import time
from typing import Protocol

log = logging.getLogger(__name__)

_ABSOLUTE = 1
_NANOSECONDS = 10**9


class Deadline(Protocol):
    """Something that ends the process at a time, by `fence.steady_clock`."""

    def set(self, at: float) -> None:
        """Not before `at`; replaces what was set."""
        ...

    def clear(self) -> None:
        """Not at all."""
        ...


class _Event(ctypes.Structure):
    """`struct sigevent`: 64 bytes; notification 0 is a signal to the process."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec`: all zero disarms."""

    _fields_ = (
        ("interval", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class KernelDeadline:
    """A timer that sends SIGKILL. May be used from any thread; goes with the process."""

    def __init__(self) -> None:
        """Raises OSError where the kernel has no such timer for us."""
        if sys.platform != "linux" or sys.maxsize <= 2**32:
            raise OSError("no kernel timers that count while the machine sleeps")
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
        """See Deadline. Raises OSError."""
        seconds, rest = divmod(at, 1.0)
        self._arm(_Times(seconds=int(seconds), nanoseconds=int(rest * _NANOSECONDS)))

    def clear(self) -> None:
        """See Deadline. Raises OSError."""
        self._arm(_Times())

    def _arm(self, times: _Times) -> None:
        if self._libc.timer_settime(self._timer, ctypes.c_int(_ABSOLUTE), ctypes.byref(times), None) != 0:
            raise _last_error()


def kernel_deadline() -> Deadline | None:
    """A deadline kept by the kernel; None, and a line in the log, where there is none."""
    try:
        return KernelDeadline()
    except OSError as error:
        log.info("leader election: a stopped process is not ended by the kernel here: %s", error)
        return None


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
