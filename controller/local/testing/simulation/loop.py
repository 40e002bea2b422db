# SPDX-License-Identifier: Apache-2.0
"""An event loop with virtual time only: no sockets, no threads, and the same order of everything in each run.

Where nothing is ready, the clock moves to the next timer. Work for threads is done at once. Tasks and futures are told
apart by numbers in the order of their making, not by addresses, so that sets of them have the same order each time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any

STEPS_PER_MOMENT = 20_000
"""Turns of the loop within a millisecond of virtual time that are taken for a hot loop."""
_MOMENT_SECONDS = 1e-3


class HotLoopError(Exception):
    """Too many callbacks ran without time passing."""


class DeadlockError(Exception):
    """Every task waits, and there is no timer, or none before the end of the simulation."""


class _Task(asyncio.Task[Any]):
    """A task with a number for its hash."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    """A future with a number for its hash."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _NoSelector(selectors.BaseSelector):
    """Nothing is ever ready; instead of waiting the clock moves."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        self._map: dict[Any, selectors.SelectorKey] = {}
        self._advance = advance

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._map[fileobj] = key = selectors.SelectorKey(fileobj, 0, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[Any]:
        self._advance(timeout)
        return []

    def close(self) -> None:
        self._map.clear()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._map


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its clock starts at 0.

    Args:
        end: virtual seconds after which the main task must have ended.

    Raises, out of `run_until_complete`: HotLoopError, DeadlockError.
    """

    def __init__(self, *, end: float = 200_000.0) -> None:
        self._now = 0.0
        self._end = end
        self._made = 0
        self._moment, self._turns = 0.0, 0
        self.jumps = 0
        super().__init__(_NoSelector(self._advance))
        self._clock_resolution = 1e-9
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # Python 3.11 passes the context only if there is one

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        made = _Future(loop=self)
        made.number = self._next()
        return made

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], *, context: Context | None = None
    ) -> asyncio.Task[Any]:
        made = _Task.__new__(_Task)
        made.number = self._next()  # before it is put into the set of all tasks
        made.__init__(work, loop=loop, context=context)  # type: ignore[misc]
        return made

    def _next(self) -> int:
        self._made += 1
        return self._made

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002 - of every loop
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Do the work now. The caller goes on a turn later, as it would after a thread."""
        future = self.create_future()
        try:
            result = func(*args)
        except BaseException as error:  # as an executor
            future.set_exception(error)
        else:
            self.call_soon(lambda: None if future.done() else future.set_result(result))
        return future

    def _advance(self, timeout: float | None) -> None:
        if timeout is None:
            raise DeadlockError("every task waits, and there is no timer")
        if timeout > 0:
            # Exactly to the timer: the sum of now and the difference may be a little less, and whoever finds its key
            # not due yet sets the timer again.
            scheduled = self._scheduled  # type: ignore[attr-defined]  # the heap of timers has no public name
            due = max(self._now, scheduled[0].when() if scheduled else self._now + timeout)
            if due > self._end:
                raise DeadlockError(f"the simulation has not ended after {self._end:.0f} s of virtual time")
            self._now = due
            self.jumps += 1
        if self._now - self._moment > _MOMENT_SECONDS:
            self._moment, self._turns = self._now, 0
            return
        self._turns += 1
        if self._turns > STEPS_PER_MOMENT:
            raise HotLoopError(f"{STEPS_PER_MOMENT} turns of the loop within a millisecond, at {self._now:.3f} s")
