# SPDX-License-Identifier: Apache-2.0
"""Requests that arrive at once are spread over turns of the event loop."""

import asyncio
from collections.abc import Callable

from trainwright.controller.local.apiserver.http.priority import PriorityAndFairness


async def count_turns(work: Callable[[], object]) -> list[int]:
    """Do work in ten tasks that are ready at once; returns how many had begun at each turn of the loop."""
    turns = PriorityAndFairness(slice_seconds=0.0)
    begun: list[int] = []
    seen: list[int] = []

    async def request(number: int) -> None:
        await turns.next_turn()
        begun.append(number)
        work()

    async with asyncio.TaskGroup() as tasks:
        for number in range(10):
            tasks.create_task(request(number))
        while len(begun) < 10:
            await asyncio.sleep(0)
            seen.append(len(begun))
    assert begun == list(range(10))
    return seen


async def test_a_burst_takes_several_turns() -> None:
    seen = await count_turns(lambda: None)
    assert all(later - earlier <= 1 for earlier, later in zip([0, *seen], seen, strict=False))


async def test_who_gives_up_holds_up_no_other() -> None:
    turns = PriorityAndFairness(slice_seconds=0.0)
    begins, leaves, waits = (asyncio.ensure_future(turns.next_turn()) for _ in range(3))
    await begins
    leaves.cancel()
    await waits
    assert leaves.cancelled()


async def test_requests_one_after_the_other_do_not_wait() -> None:
    turns = PriorityAndFairness(slice_seconds=0.0)
    passed: list[int] = []
    asyncio.get_running_loop().call_soon(passed.append, 1)
    await turns.next_turn()
    assert not passed
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await turns.next_turn()
    assert passed == [1]
