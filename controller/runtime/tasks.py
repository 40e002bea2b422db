# SPDX-License-Identifier: Apache-2.0
"""Named tasks that end together.

A TaskScope is a TaskGroup with named tasks. Leaving it cancels the tasks that still run and waits for them. The first
failure of a task cancels the others. It is raised as itself, not in a group; other failures become notes on it.

A scope whose own task is cancelled from outside ends as cancelled, with the first error as its cause. A TaskGroup
raises the errors of such a moment in place of the cancellation: whoever takes them and tries again never ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class TaskScope:
    """An async context manager: `start` adds a task, leaving the context ends all tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._group = asyncio.TaskGroup()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order of their start, which is that of their end."""

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._asked = _cancellations()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            await self._group.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            first = first_error(group)
            if _cancellations() > self._asked:
                raise asyncio.CancelledError from first
            raise first from None

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a task of this scope. Raises RuntimeError once the scope is being left."""
        try:
            task = self._group.create_task(work, name=name)
        except RuntimeError:
            work.close()
            raise
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def first(self, *waited: asyncio.Task[Any] | asyncio.Event) -> None:
        """Wait until one of the tasks has ended or one of the events is set."""
        events = [self.start(f"{self.name}/event", one.wait()) for one in waited if isinstance(one, asyncio.Event)]
        tasks: list[asyncio.Task[Any]] = [one for one in waited if isinstance(one, asyncio.Task)]
        await asyncio.wait([*tasks, *events], return_when=asyncio.FIRST_COMPLETED)


def _cancellations() -> int:
    """How often this task was cancelled, without those that are over."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


@asynccontextmanager
async def limited(limit: asyncio.Timeout, late: Callable[[], Exception]) -> AsyncIterator[None]:
    """Raise what `late` returns when the limit ends the block. A TimeoutError of the block itself is passed on."""
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise late() from None


async def made_in_thread(make: Callable[[], T], discard: Callable[[T], object]) -> T:
    """Make something in a thread that somebody has to close.

    A thread cannot be cancelled. If the task is, the thread goes on, and `discard` gets what it has made.
    """
    made: Future[T] = Future()
    try:
        await asyncio.to_thread(lambda: made.set_result(make()))
    except BaseException:
        made.add_done_callback(lambda done: discard(done.result()))
        raise
    return made.result()


async def finished_in_thread(work: Callable[[], T]) -> T:
    """Run something in a thread, and return only when it is over.

    If the task is cancelled meanwhile, the cancellation waits: what the thread works on is not left to others before.
    """
    # Not a task: the end of the event loop cancels all tasks, but no thread.
    running = asyncio.get_running_loop().run_in_executor(None, work)
    if (cancelled := await outlasted(running)) is not None:
        running.exception()
        raise cancelled
    return running.result()


async def outlasted(
    running: asyncio.Future[Any], hurry: Callable[[], object] | None = None
) -> asyncio.CancelledError | None:
    """Wait until it is over, also if this task is cancelled meanwhile.

    `hurry` is called at each cancellation.

    Returns:
        The last cancellation, which the caller has to pass on.
    """
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
            if hurry is not None:
                hurry()
    return cancelled


async def together(name: str, *work: Coroutine[Any, Any, T]) -> list[T]:
    """Run all concurrently; returns the results in order. The first failure cancels the others and is raised."""
    async with TaskScope(name) as tasks:
        started = [tasks.start(f"{name}/{index}", one) for index, one in enumerate(work)]
        return [await task for task in started]


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group at any depth, with a note for each other error. Cancellations do not count."""
    # By identity: who waits for a task that fails raises its error once more.
    unique = {id(leaf): leaf for leaf in _leaves(group)}
    leaves = [leaf for leaf in unique.values() if not isinstance(leaf, asyncio.CancelledError)]
    if not leaves:
        return asyncio.CancelledError()
    first, *others = leaves
    for other in others:
        first.add_note(f"also failed: {type(other).__name__}: {other}")
    return first


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for child in error.exceptions for leaf in _leaves(child)]
    return [error]
