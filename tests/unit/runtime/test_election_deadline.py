# SPDX-License-Identifier: Apache-2.0
"""The kernel ends a process whose lease expires, whatever state it is in."""

import signal
import subprocess
import sys
import time

import pytest

from trainwright.controller.runtime.leaderelection.fence import Fence, KernelDeadline, Timing

pytestmark = pytest.mark.only_where(sys.platform == "linux", "a timer of Linux")

SETUP = """
import os, signal, time
from trainwright.controller.runtime.leaderelection.fence import KernelDeadline, steady_clock
one, two = KernelDeadline(), KernelDeadline()
"""


def end_of(script: str) -> int:
    """The exit code of a process that runs the script; a process that stays stopped fails the test."""
    process = subprocess.Popen([sys.executable, "-c", SETUP + script])
    try:
        return process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()


def test_stopped_process_is_ended_without_going_on() -> None:
    assert end_of("one.set(steady_clock() + 0.5); os.kill(os.getpid(), signal.SIGSTOP)") == -signal.SIGKILL


def test_end_that_was_moved_or_cleared_does_not_come() -> None:
    moved = "one.set(steady_clock() + 1.0); one.set(steady_clock() + 600.0)"
    cleared = "two.set(steady_clock() + 1.0); two.clear()"
    assert end_of(f"{moved}\n{cleared}\ntime.sleep(1.2)") == 0


class Noted(KernelDeadline):
    """A deadline that only remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[float | None] = []

    def set(self, at: float) -> None:
        self.told.append(at)

    def clear(self) -> None:
        self.told.append(None)


def test_it_is_the_end_of_the_lease_counted_from_before_the_renewal() -> None:
    noted = Noted()
    fence = Fence(Timing(), lambda: 109.0, deadline=noted)
    fence.renewed(100.0)
    fence.revoke()
    fence.renewed(101.0)
    assert noted.told == [115.0, None], "an answer that comes after all was over arms nothing"


def test_kernel_refuses_nonsense() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        KernelDeadline().set(-time.time())
