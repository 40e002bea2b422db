# SPDX-License-Identifier: Apache-2.0
"""Ends the process with a kernel timer when its lease expires, even while the process is stopped.

The fence is checked just before the bytes of a write are sent, but some work lies between the two (a tenth of a
millisecond, more on a busy machine). A process that is stopped there (SIGSTOP, a frozen container, a suspended machine)
would send when it continues, long after another replica leads. The kernel kills it before that.

Without such timers (not on Linux, 32 bits, a sandbox that refuses them) nothing is armed.
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
    """Ends the process at a time of `fence.steady_clock`."""

    def set(self, at: float) -> None:
        """End the process at `at`, instead of at the time set before."""
        ...

    def clear(self) -> None:
        """Do not end the process."""
        ...


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
        seconds, rest = divmod(at, 1.0)
        self._arm(_Times(seconds=int(seconds), nanoseconds=int(rest * _NANOSECONDS)))

    def clear(self) -> None:
        self._arm(_Times())

    def _arm(self, times: _Times) -> None:
        if self._libc.timer_settime(self._timer, ctypes.c_int(_ABSOLUTE), ctypes.byref(times), None) != 0:
            raise _last_error()


def kernel_deadline() -> Deadline | None:
    """A deadline that the kernel enforces; None, with a line in the log, if there is none."""
    try:
        return KernelDeadline()
    except OSError as error:
        log.info("leader election: the kernel cannot end a stopped process when its lease expires: %s", error)
        return None


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
