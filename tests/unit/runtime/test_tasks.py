# SPDX-License-Identifier: Apache-2.0
"""Work in threads whose task is cancelled: it is left, and what it makes discarded; or the task waits for it."""

import asyncio
import threading

import pytest

from trainwright.controller.runtime.tasks import finished_in_thread, made_in_thread
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
