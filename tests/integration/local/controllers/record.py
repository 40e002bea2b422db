# SPDX-License-Identifier: Apache-2.0
"""Records what the real controllers make in each scenario: `python -m tests.integration.local.controllers.record`.

Without arguments all scenarios, else those that are named.
"""

import asyncio
import sys

from tests.integration.local.controllers.comparison import AT_ONCE, Scenario, elsewhere, name_of_scenario, notes_of
from tests.integration.local.controllers.conftest import World, living
from tests.integration.local.controllers.recordings import write_notes
from tests.integration.local.controllers.scenarios import ALONE, CPU, SCENARIOS
from trainwright.controller.runtime.testing import ControlPlane


async def _record(world: World, scenario: Scenario) -> None:
    write_notes(name_of_scenario(scenario), await notes_of(await elsewhere(world, scenario), scenario))


async def _main(names: set[str]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(world: World, scenario: Scenario) -> None:
        async with limit:
            await _record(world, scenario)

    # As the fixtures have it: one who changes anything in the cluster has it alone.
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True) as real:
        async with living(real, "default", (), cpu=CPU) as world, asyncio.TaskGroup() as tasks:
            for scenario in SCENARIOS:
                if not names or name_of_scenario(scenario) in names:
                    tasks.create_task(one(world, scenario))
        for scenario in ALONE:
            if not names or name_of_scenario(scenario) in names:
                async with living(real, "default", (), cpu="8") as world:
                    await _record(world, scenario)


if __name__ == "__main__":
    asyncio.run(_main(set(sys.argv[1:])))
