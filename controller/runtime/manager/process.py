# SPDX-License-Identifier: Apache-2.0
"""Runs a manager in an event loop of its own and stops it on a signal.

uvloop is used where it is installed. The first SIGTERM or SIGINT requests an orderly stop, the second ends the process
at once. Both work while the loop is blocked, because they use plain signal handlers.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from trainwright.controller.runtime.manager import logs
from trainwright.controller.runtime.manager.manager import Manager
from trainwright.controller.runtime.manager.supervisor import GraceExceeded

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(make: Callable[[], Manager | Coroutine[Any, Any, Manager]]) -> int:
    """Make a manager inside a new event loop and run it until a signal. Returns the exit code of the process.

    0 after an orderly stop, 1 after a failure. A task that ignores its cancellation ends the process at once. Logs go
    to standard error unless the process has set up logging itself. A signal that arrives while the manager is made ends
    that, and the manager does not run.
    """
    logs.configure_logging()
    factory = _loop_factory()
    with _signals() as signals, asyncio.Runner(loop_factory=factory) as runner:
        try:
            runner.run(_main(make, signals))
        except GraceExceeded as error:
            log.error("%s", error)  # noqa: TRY400 - the message is enough
            logging.shutdown()
            os._exit(1)
        except KeyboardInterrupt:
            return 1
        except Exception as error:
            log.log(logging.ERROR, "%s: %s", type(error).__name__, error, exc_info=log.isEnabledFor(logging.DEBUG))
            return 1
    return 0


class _Signals:
    """Stops what runs on the first signal, whether it came before or after there is something to stop."""

    def __init__(self) -> None:
        self._received = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], object] | None = None

    def received(self) -> bool:
        return self._received

    def stops(self, stop: Callable[[], object]) -> None:
        """Call `stop` in the event loop on a signal; at once if there was one."""
        self._loop, self._stop = asyncio.get_running_loop(), stop
        if self._received:
            stop()

    def handle(self, number: int, _: FrameType | None) -> None:
        if self._received:
            os.write(2, b"second signal: exiting at once\n")
            os._exit(1)
        self._received = True
        log.info("%s: stopping", signal.Signals(number).name)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        if self._stop is not None:
            self._stop()


async def _main(make: Callable[[], Manager | Coroutine[Any, Any, Manager]], signals: _Signals) -> None:
    manager = await _made(make, signals)
    if manager is not None:
        signals.stops(manager.stop)
        await manager.run()


async def _made(make: Callable[[], Manager | Coroutine[Any, Any, Manager]], signals: _Signals) -> Manager | None:
    """The manager; None: a signal came before it was complete."""
    made = make()
    if isinstance(made, Manager):
        return made
    if signals.received():
        made.close()
        return None
    task = asyncio.current_task()
    assert task is not None
    signals.stops(task.cancel)
    try:
        return await made
    except asyncio.CancelledError:
        if not signals.received():
            raise
        task.uncancel()
        return None


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Take the signals. They are given back when the event loop is closed: its end can take time, too."""
    signals = _Signals()
    before = {number: signal.signal(number, signals.handle) for number in SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
