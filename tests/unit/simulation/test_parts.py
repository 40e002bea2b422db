# SPDX-License-Identifier: Apache-2.0
"""The parts of a simulation: the loop with virtual time, writes that are sent late, replicas, what a seed draws."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest

from trainwright.api.surroundings import Surroundings, entered
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.runtime import NO_SERVERS, Manager
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import RequestTimeout
from trainwright.controller.simulation.loop import AT_SERVER, DeadlockError, HotLoopError, SimulatedLoop, Trace
from trainwright.controller.simulation.network import FaultProfile, Hooks, Network
from trainwright.controller.simulation.plan import CHAOS_SECONDS, Step, drawn_steps
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process, World, simulated_world

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """On a loop with virtual time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)


# ---------------------------------------------------------------------- the loop


def test_time_goes_on_however_small_a_delay_is() -> None:
    """At 137 s the next number that a float can hold is further away than the rest of a difference."""

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(137.13)
        before = loop.time()
        await asyncio.sleep(1e-15)
        assert before < loop.time() < before + 1e-8

    run(waits())


def test_many_who_wait_for_moments_that_are_almost_now_let_time_go_on() -> None:
    """Each keeps the loop busy for the others, and none of them is there yet."""

    async def wait_until(moment: float) -> float:
        loop = asyncio.get_running_loop()
        while loop.time() < moment:  # noqa: ASYNC110 - what this is about
            await asyncio.sleep(moment - loop.time())
        return loop.time()

    async def waits() -> list[float]:
        return await asyncio.gather(*(wait_until(60 + number * 1e-11) for number in range(40)))

    assert max(run(waits())) < 60.001


def test_a_hot_loop_is_ended_and_says_where_it_spins() -> None:
    async def spins() -> None:
        while True:  # noqa: ASYNC110 - what this is about
            await asyncio.sleep(0)

    with pytest.raises(HotLoopError, match=r"20000 turns .* at .*test_parts.py:\d+"):
        run(spins())


def test_a_deadlock_is_ended_and_says_who_waits() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"no timer: .*test_parts.py:\d+"):
        run(waits())


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

    run(freezes())
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

    run(freezes())
    assert said == [2.0]


# ---------------------------------------------------------------------- the network

LIMIT = 12.0


class Server:
    """Carries out everything at once."""

    def __init__(self) -> None:
        self.met: list[float] = []

    async def send(self, request: Request) -> Response:  # noqa: ARG002 - the interface's
        self.met.append(asyncio.get_running_loop().time())
        return Response(200, {}, b"{}")


async def sent(seed: int, faults: FaultProfile) -> tuple[float, bool, float]:
    """When the server met a write, whether that was answered, and when the caller knew. -1: it never met one."""
    server, trace = Server(), Trace()
    network = Network(cast("InProcessTransport", server), "client", faults, trace, random.Random(seed), Hooks())
    begun = asyncio.get_running_loop().time()
    try:
        await network.send(Request("PATCH", "/api/v1/nodes/a", timeout=LIMIT))
        answered = True
    except RequestTimeout:
        answered = False
    met = server.met[0] - begun if server.met else -1.0
    return met, answered, asyncio.get_running_loop().time() - begun


def test_a_slow_write_is_sent_within_its_limit_or_never() -> None:
    async def every() -> list[tuple[float, bool, float]]:
        return [await sent(seed, FaultProfile(slow_request=1.0)) for seed in range(60)]

    found = run(every())
    late = [one for one in found if one[1]]
    never = [one for one in found if not one[1]]
    assert late
    assert never
    assert all(0 < met < LIMIT + 0.1 for met, _, _ in late)
    assert all(met == -1.0 and known == pytest.approx(LIMIT, abs=0.1) for met, _, known in never)


def test_without_that_fault_a_write_is_sent_at_once() -> None:
    met, answered, _ = run(sent(1, FaultProfile()))
    assert answered
    assert 0 < met < 0.01


# ---------------------------------------------------------------------- replicas


async def boot(process: Process) -> Manager:
    await asyncio.sleep(5.0)
    return Manager(CONFIG, user_agent="operator", servers=NO_SERVERS, process=PROCESS, transport=process.network)


async def versions() -> list[tuple[int, int]]:
    """The life and the version of what runs: before an upgrade, and after one that came while it started."""
    found = []
    async with simulated_world(World("1")) as world:
        replica = world.add_replica(boot)
        for start in range(2):
            booting = asyncio.ensure_future(world.boot(replica))
            await asyncio.sleep(1.0)
            if start:
                world.upgrade()
            await booting
            assert replica.process is not None
            assert replica.process.is_up
            found.append((replica.lives, replica.process.version))
            await world.kill(replica)
    return found


def test_what_an_upgrade_meets_while_it_starts_is_of_the_new_version() -> None:
    assert run(versions()) == [(1, 0), (3, 1)]


# ---------------------------------------------------------------------- what a seed draws

TARGETS = [f"t{number}" for number in range(12)]


def steps_of(seed: int, clean_up: str) -> list[Step]:
    actions, machines = {"edit": 1.0}, {"kill-manager": 1.0}
    return drawn_steps(random.Random(seed), TARGETS, actions, machines, replicas=1, clean_up=clean_up)


def test_in_some_worlds_some_targets_are_deleted_at_the_end() -> None:
    """Others stay, so that a fresh look has something to compare."""
    deleted = [[step for step in steps_of(seed, "delete") if step.what == "delete"] for seed in range(60)]
    tidy = [found for found in deleted if found]
    assert 5 < len(tidy) < 40
    assert all(len({step.on for step in found}) == len(found) for found in tidy)
    assert any(len(found) < len(TARGETS) for found in tidy)
    assert all(CHAOS_SECONDS - 30 < step.at <= CHAOS_SECONDS for found in tidy for step in found)


def test_nothing_is_deleted_where_no_action_does_it() -> None:
    assert not [step for seed in range(30) for step in steps_of(seed, "") if step.what == "delete"]
