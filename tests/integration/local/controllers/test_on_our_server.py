# SPDX-License-Identifier: Apache-2.0
"""Our controllers on our API server make what is recorded of the real ones on the real one.

All of it is in one process on virtual time: what a checkpoint waits for, such as two seconds in which nothing changes,
takes no time. `test_same_as_the_real_ones` runs the real ones beside ours, and compares the recordings, too.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.local.controllers.comparison import Scenario, differences, name_of_scenario, with_the_recording
from tests.integration.local.controllers.conftest import Controllers
from tests.integration.local.controllers.recordings import FOLDER
from tests.integration.local.controllers.scenarios import ALONE, CPU, SCENARIOS
from trainwright.controller.local.controllers import CONTROLLERS
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.simulation.loop import SimulatedLoop
from trainwright.controller.simulation.world import CONFIG, World, simulated_world

_AUTHORITY = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
_AT_ONCE = 8


def compared(scenarios: Sequence[Scenario], folder: Path, *, cpu: str) -> dict[str, str]:
    """What differs from the recordings, by the name of the scenario."""

    async def run() -> dict[str, str]:
        async with simulated_world(World("recorded", runs=False)) as world:
            settings = ControllerSettings(authority=_AUTHORITY, volumes=folder / "volumes")
            controllers = Controllers(
                CONFIG,
                lambda name: world.network(name, world.undisturbed),
                settings,
                tuple(CONTROLLERS),
                watchdog=False,
            )
            async with controllers.living("default", cpu=cpu) as ours:
                return await differences([ours], scenarios, with_the_recording, at_once=_AT_ONCE)

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(run())


def test_they_do_the_same(tmp_path: Path) -> None:
    found = compared(SCENARIOS, tmp_path, cpu=CPU)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.parametrize("scenario", ALONE, ids=name_of_scenario)
def test_they_do_the_same_with_a_node_of_their_own(tmp_path: Path, scenario: Scenario) -> None:
    found = compared([scenario], tmp_path, cpu="8")
    assert not found, "\n\n".join(found.values())


def test_nothing_is_recorded_that_is_not_run() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {name_of_scenario(one) for one in (*SCENARIOS, *ALONE)}
