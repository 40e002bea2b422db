# SPDX-License-Identifier: Apache-2.0
"""Which version of the operator a replica runs."""

import asyncio

from trainwright.controller.runtime import NO_SERVERS, Manager
from trainwright.controller.simulation.loop import SimulatedLoop
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process, World, simulated_world


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
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        assert runner.run(versions()) == [(1, 0), (3, 1)]
