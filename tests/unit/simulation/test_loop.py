# SPDX-License-Identifier: Apache-2.0
"""The loop with virtual time only."""

import asyncio

import pytest

from trainwright.api.surroundings import Surroundings, entered
from trainwright.controller.simulation.loop import AT_SERVER, DeadlockError, HotLoopError, SimulatedLoop


def test_time_goes_on_however_small_a_delay_is() -> None:
    """At 137 s the next number that a float can hold is further away than the rest of a difference."""

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(137.13)
        before = loop.time()
        await asyncio.sleep(1e-15)
        assert before < loop.time() < before + 1e-8

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(waits())


def test_many_who_wait_for_moments_that_are_almost_now_let_time_go_on() -> None:
    """Each keeps the loop busy for the others, and none of them is there yet."""

    async def wait_until(moment: float) -> float:
        loop = asyncio.get_running_loop()
        while loop.time() < moment:  # noqa: ASYNC110 - what this is about
            await asyncio.sleep(moment - loop.time())
        return loop.time()

    async def waits() -> list[float]:
        return await asyncio.gather(*(wait_until(60 + number * 1e-11) for number in range(40)))

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        assert max(runner.run(waits())) < 60.001


def test_a_hot_loop_is_ended_and_says_where_it_spins() -> None:
    async def spins() -> None:
        while True:  # noqa: ASYNC110 - what this is about
            await asyncio.sleep(0)

    with (
        pytest.raises(HotLoopError, match=r"20000 turns .* at .*test_loop.py:\d+"),
        asyncio.Runner(loop_factory=SimulatedLoop) as runner,
    ):
        runner.run(spins())


def test_a_deadlock_is_ended_and_says_who_waits() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    with (
        pytest.raises(DeadlockError, match=r"no timer: .*test_loop.py:\d+"),
        asyncio.Runner(loop_factory=SimulatedLoop) as runner,
    ):
        runner.run(waits())


def test_a_frozen_process_stands_still_and_goes_on_in_the_order_in_which_its_timers_were_due() -> None:
    frozen, said = Surroundings(), list[tuple[str, float]]()

    async def life(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        said.append((name, asyncio.get_running_loop().time()))

    async def freezes() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        with entered(frozen):
            tasks = [asyncio.create_task(life(name, seconds)) for name, seconds in (("late", 5.0), ("soon", 2.0))]
            cancelled = asyncio.create_task(life("cancelled", 3.0))
        tasks.append(asyncio.create_task(life("other", 4.0)))
        await asyncio.sleep(1.0)
        loop.freeze(frozen)
        await asyncio.sleep(9.0)
        cancelled.cancel()
        await asyncio.sleep(0.0)
        assert not cancelled.done()
        loop.thaw(frozen)
        await asyncio.wait([*tasks, cancelled])
        assert cancelled.cancelled()

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(freezes())
    assert said == [("other", 4.0), ("soon", 10.0), ("late", 10.0)]


def test_what_a_server_does_for_a_frozen_process_goes_on() -> None:
    frozen, said = Surroundings(), list[float]()

    async def served() -> None:
        AT_SERVER.set(True)
        await asyncio.sleep(2.0)
        said.append(asyncio.get_running_loop().time())

    async def freezes() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        with entered(frozen):
            task = asyncio.create_task(served())
        await asyncio.sleep(1.0)
        loop.freeze(frozen)
        await task

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(freezes())
    assert said == [2.0]
