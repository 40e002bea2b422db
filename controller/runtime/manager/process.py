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
from collections.abc import Callable, Coroutine
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
    to standard error unless the process has set up logging itself.
    """
    logs.configure()
    factory = _loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            runner.run(_main(make))
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


async def _main(make: Callable[[], Manager | Coroutine[Any, Any, Manager]]) -> None:
    made = make()
    manager = await made if asyncio.iscoroutine(made) else made
    assert isinstance(manager, Manager)
    restore = _on_signal(manager.stop)
    try:
        await manager.run()
    finally:
        restore()


def _on_signal(stop: Callable[[], None]) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    asked = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os.write(2, b"second signal: exiting at once\n")
            os._exit(1)
        asked = True
        log.info("%s: stopping", signal.Signals(number).name)
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, handle) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
