# SPDX-License-Identifier: Apache-2.0
"""Clocks for tests: an event loop whose clock jumps, and a clock that the test moves.

The clock of a JumpingLoop moves to the next timer when nothing else can run: ten minutes of delays take a millisecond,
and the order of events is always the same. It is for code that only uses memory (such as the scripted transport): a
real socket would get no time to answer. A ManualClock is for code that takes its clock as an argument.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ManualClock(Generic[T]):
    """A clock that only the test moves, by setting `now`: seconds for `time.monotonic`, a datetime for a wall clock."""

    def __init__(self, now: T) -> None:
        self.now = now

    def __call__(self) -> T:
        return self.now


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it moves the clock of the loop."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance
        self.waits_for_threads = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.waits_for_threads:
            return super().select(timeout)
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise RuntimeError("deadlock: every task waits, and there is no timer")
        self._advance(timeout)
        return []


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at 0 and only moves by jumps."""

    def __init__(self) -> None:
        self._now = 0.0
        self._jumps = _JumpingSelector(self.spend)
        super().__init__(self._jumps)

    def time(self) -> float:
        """Seconds since the loop was made, by its own clock."""
        return self._now

    def spend(self, seconds: float) -> None:
        """Let time pass in which nothing else runs, as in a callback that computes for so long."""
        self._now += seconds

    async def shutdown_default_executor(self, *timeout: float | None) -> None:
        """End the threads for `asyncio.to_thread`, and wait for them in real time: a thread of its own does it."""
        self._jumps.waits_for_threads = True
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self._jumps.waits_for_threads = False

    def is_settled(self) -> bool:
        """Whether nothing can run before the next timer."""
        return not self._ready  # type: ignore[attr-defined]  # the queue of callbacks has no public name


async def settle() -> None:
    """Run everything that can run now, without moving the clock. Only on a JumpingLoop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, JumpingLoop):
        raise TypeError("settle() needs the jumping clock; with a real server use settle_manager()")
    calm = 0
    while calm < 3:  # a callback may still be passed from a future to a task
        await asyncio.sleep(0)
        calm = calm + 1 if loop.is_settled() else 0


def jumping(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a JumpingLoop of its own. The test fails if it leaves tasks behind."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            await test(*args, **kwargs)
            await settle()
            left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not left, f"tasks left behind: {left}"

        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(main())

    return run
