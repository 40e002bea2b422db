# SPDX-License-Identifier: Apache-2.0
"""Tasks that are cancelled: a scope ends as cancelled, whatever fails; work in threads is left, or waited for."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from trainwright.controller.runtime.tasks import TaskScope, finished_in_thread, made_in_thread, together
from trainwright.controller.runtime.testing.waiting import equals, eventually


async def test_what_is_made_is_returned() -> None:
    discarded: list[str] = []
    assert await made_in_thread(lambda: "made", discarded.append) == "made"
    assert discarded == []


@pytest.mark.parametrize("is_made_first", [False, True])
async def test_what_nobody_waits_for_is_discarded(is_made_first: bool) -> None:
    """Also if it was made, and the task has not run since."""
    began, go_on, made, discarded = threading.Event(), threading.Event(), threading.Event(), list[str]()

    def make() -> str:
        began.set()
        go_on.wait()
        made.set()
        return "made"

    task = asyncio.create_task(made_in_thread(make, discarded.append))
    await eventually(began.is_set)
    if is_made_first:
        go_on.set()
        made.wait()  # Blocks the loop, so the task cannot go on.
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await eventually(lambda: discarded, equals(["made"]))


async def test_what_cannot_be_made_is_raised() -> None:
    def fail() -> str:
        raise OSError("no room")

    discarded: list[str] = []
    with pytest.raises(OSError, match="no room"):
        await made_in_thread(fail, discarded.append)
    assert discarded == []


async def test_a_cancellation_waits_for_what_has_to_be_finished() -> None:
    """Also a second one, and also if the work fails: then the cancellation is what is raised."""
    began, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        go_on.wait()
        over.set()
        raise OSError("no room")

    task = asyncio.create_task(finished_in_thread(work))
    await eventually(began.is_set)
    for _ in range(2):
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert over.is_set()


async def test_what_is_finished_in_a_thread_returns_or_raises() -> None:
    def fail() -> str:
        raise OSError("no room")

    assert await finished_in_thread(lambda: "done") == "done"
    with pytest.raises(OSError, match="no room"):
        await finished_in_thread(fail)


async def _refused() -> None:
    """What many libraries make of a cancellation."""
    try:
        await asyncio.Event().wait()
    finally:
        raise ConnectionError("refused")


async def _wait(scope: TaskScope) -> None:
    scope.start("refused", _refused())
    await asyncio.Event().wait()


async def _fail(scope: TaskScope) -> None:
    """Fail, and be cancelled while the scope waits for the end of its task."""
    scope.start("refused", _refused())
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    raise ConnectionError("reset")


@pytest.mark.parametrize("body", [_wait, _fail])
async def test_whoever_tries_again_after_an_error_is_cancelled_all_the_same(
    body: Callable[[TaskScope], Awaitable[None]],
) -> None:
    caught = []

    async def keep_trying() -> None:
        while True:
            try:
                async with TaskScope("attempt") as scope:
                    await body(scope)
            except ConnectionError as error:
                caught.append(error)

    trying = asyncio.create_task(keep_trying())
    await asyncio.sleep(0.01)
    trying.cancel()
    done, _ = await asyncio.wait({trying}, timeout=10)
    trying.cancel()
    assert done
    assert trying.cancelled()
    assert caught == []
    with pytest.raises(asyncio.CancelledError) as ended:
        await trying
    assert repr(ended.value.__cause__) == "ConnectionError('refused')"


async def test_a_time_limit_around_a_scope_is_told_as_one() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await together("attempt", _refused())
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_failure_of_a_task_is_raised_as_itself() -> None:
    async def fail() -> None:
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError, match="reset") as raised:
        await together("attempt", _refused(), fail())
    assert raised.value.__notes__ == ["also failed: ConnectionError: refused"]


async def test_a_task_that_is_cancelled_cleans_up_in_scopes() -> None:
    seen = []

    async def fail() -> None:
        raise ConnectionError("reset")

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await together("clean up", fail())
            except ConnectionError as error:
                seen.append(str(error))

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["reset"]
