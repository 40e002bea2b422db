# SPDX-License-Identifier: Apache-2.0
"""Takes SIGTERM and SIGINT before anything else of ours is imported; the entry points of the command do so first.

Then the garbage collector is tuned: what imports make stays, and looking through it again and again was 6 % of the CPU
of a command.

The first process of a container has no default action for SIGTERM: the kernel drops the signal until the process has a
handler. The imports take up to a second. A manager that lost its SIGTERM there would start, lead and run on until it is
killed.

Until a command takes the signals itself, a signal ends the process at once. Nothing has been started by then, so
nothing has to be finished. The exit code is 128 plus the signal, as for a process without a handler: with 0, a Job
would count the pod as succeeded.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

# Quoted: the module `typing` takes as long as all of this file.
_DEFAULT: "dict[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers]" = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


def begin() -> None:
    take_signals()
    from trainwright.controller.runtime.collector import tune_collector  # noqa: PLC0415 - after the signals are taken

    tune_collector()


def take_signals() -> None:
    """From now on SIGTERM and SIGINT end the process. A signal that the starter of the process ignores stays so."""
    for number, default in _DEFAULT.items():
        if signal.getsignal(number) is default:
            signal.signal(number, _end)


def release_signals() -> None:
    """Give SIGINT back, which asyncio and the commands expect as KeyboardInterrupt.

    SIGTERM gets its default action back, except in the first process, which has none: there it is kept until the
    command has a handler of its own.
    """
    for number, default in _DEFAULT.items():
        if signal.getsignal(number) is _end and not (number is signal.SIGTERM and os.getpid() == 1):
            signal.signal(number, default)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)  # the starter sees which signal ended the process
    os._exit(128 + number)  # the first process of a container is still there
