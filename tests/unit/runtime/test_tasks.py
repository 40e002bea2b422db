# SPDX-License-Identifier: Apache-2.0
"""Work in threads whose task does not wait for it any more."""

import asyncio
import threading

import pytest

from trainwright.controller.runtime.tasks import made_in_thread
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
