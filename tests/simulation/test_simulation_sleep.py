# SPDX-License-Identifier: Apache-2.0
"""A laptop is closed for six hours while a TrainJob runs on it: it goes on, or says why not."""

import asyncio
from dataclasses import replace

from tests.simulation.recovering import GATE, HANGS
from tests.simulation.rules import JOBS, true_conditions
from tests.simulation.test_simulation_attempts import OneLife, Simulated
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.plan import ScenarioPlan, Step
from trainwright.controller.simulation.world import World
from trainwright.controller.trainer.job.decision import LONGEST_WAIT_SECONDS

ASLEEP = Step(60.0, "sleep", more=24)
"""The number is one of quarters of an hour."""
TRAINS = PodLives(starts=(0.5, 0.6), runs=(100.0, 101.0), ends=(0.1, 0.2))


class Slept(OneLife):
    """Notes when the job ends, in seconds since the machines woke up, by a timer that stood still meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.ended_after = float("inf")

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Listen to the job."""
        await super().begin(world, plan)
        woke = asyncio.get_running_loop().time() + ASLEEP.at

        def look(change: StoreChange) -> None:
            if change.collection == JOBS and true_conditions(change.object.document()).keys() & {"Complete", "Failed"}:
                self.ended_after = min(self.ended_after, asyncio.get_running_loop().time() - woke)

        world.hooks.change.append(look)


def slept(simulated: Simulated, job: str, *, lives: PodLives = TRAINS, **options: bool) -> Slept:
    scenario = Slept()
    steps = (Step(1.0, "create", f"j1:{job}"), ASLEEP)
    simulated(scenario, ScenarioPlan(seed="asleep", lives=lives, options={GATE: True, **options}, steps=steps))
    return scenario


def test_a_job_goes_on(simulated: Simulated) -> None:
    end = slept(simulated, "plain")
    assert end.end == {"Complete": "AllJobsCompleted"}
    assert end.summary.counts.causes == {}


def test_a_deadline_that_passed_meanwhile_ends_the_job_soon_after(simulated: Simulated) -> None:
    """An hour, of which a minute has passed when the machine falls asleep."""
    end = slept(simulated, "plain+hour")
    assert end.end == {"Failed": "DeadlineExceeded"}
    assert 0 < end.ended_after < LONGEST_WAIT_SECONDS + 5.0


def test_a_job_that_reports_is_not_taken_for_one_that_hangs(simulated: Simulated) -> None:
    """Its last report is six hours old, and it had no time to write another one."""
    end = slept(simulated, "plain", lives=replace(TRAINS, reports=20.0), **{HANGS: True})
    assert end.end == {"Complete": "AllJobsCompleted"}
    assert end.summary.counts.causes == {}
    assert 30 < end.ended_after < 60
