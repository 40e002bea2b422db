# SPDX-License-Identifier: Apache-2.0
"""The loop with virtual time only."""

import asyncio

import pytest

from trainwright.controller.local.testing.simulation.loop import DeadlockError, HotLoopError, SimulatedLoop


def test_time_goes_on_however_small_a_delay_is() -> None:
    """At 137 s the next number that a float can hold is further away than the rest of a difference."""

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(137.13)
        before = loop.time()
        await asyncio.sleep(1e-15)
        assert before < loop.time() < before + 1e-9

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(waits())


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
