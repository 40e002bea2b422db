# SPDX-License-Identifier: Apache-2.0
"""What happens to a job that recovers, in worlds in which one thing is made to happen at one moment."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.recovering import GATE, HANGS, RETRIES, Recovering
from tests.simulation.rules import JOBS, JOBSETS, true_conditions
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.simulation.network import FaultProfile
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.plan import ScenarioPlan, Step
from trainwright.controller.simulation.rules import WorldRule
from trainwright.controller.simulation.simulate import Outcome
from trainwright.controller.simulation.world import Process, World
from trainwright.controller.trainer.recovery.verdict import Summary, summary_of

Simulated = Callable[[Any, str | ScenarioPlan], Outcome]
FAILS = PodLives(starts=(0.5, 0.6), runs=(5.0, 5.1), ends=(0.1, 0.2), fails=1.0)
"""Attempts begin at 1.5, 7 and 24 s: with 10 s before the third, from 13 to 23 s."""
CREATE = Step(1.0, "create", "j1:plain")
_LOST_AT = 30.0


class OneLife(Recovering):
    """A world whose managers have the gate. It keeps what is stored at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.job: Document = {}
        self.jobset: Document = {}
        self.summary = Summary()
        self.counted: Counter[str] = Counter()
        self.shown: set[str] = set()
        """Conditions of the job that were True at any time."""
        self.rules = (*self.rules, self._end())

    def _end(self) -> type[WorldRule]:
        scenario = self

        class End(WorldRule):
            """Keeps what is stored at rest."""

            name = "end"

            def changed(self, change: StoreChange) -> None:
                """Keep the record, which goes with its job."""
                if change.collection == "configmaps" and change.name.name.endswith("-failures"):
                    scenario.summary = summary_of(change.object.document().get("data")) or scenario.summary
                if change.collection == JOBS:
                    scenario.shown |= true_conditions(change.object.document()).keys()
                if change.collection == JOBSETS:
                    scenario.counted[change.type] += 1

            def at_rest(self) -> None:
                (scenario.job,) = self.world.stored(JOBS)
                scenario.jobset = next(iter(self.world.stored(JOBSETS)), {})

        return End

    @property
    def end(self) -> dict[str, str]:
        """The conditions that are True at rest, with their reasons."""
        return {kind: one["reason"] for kind, one in true_conditions(self.job).items()}


def lived(simulated: Simulated, scenario: OneLife, *steps: Step, lives: PodLives = FAILS, **options: bool) -> Outcome:
    return simulated(
        scenario, ScenarioPlan(seed="one", lives=lives, options={GATE: True, **options}, steps=(CREATE, *steps))
    )


@pytest.mark.parametrize("latency", [0.002, 1.5])
def test_an_attempt_that_repeats_the_steps_after_its_checkpoint_spends_a_retry(
    simulated: Simulated, latency: float
) -> None:
    """The first attempt notes checkpoint 4 and fails at step 5; the others begin at 4, and fail at step 5 again.

    With the slow network, the second attempt reports before the first one is judged.
    """
    scenario, lives = OneLife(), replace(FAILS, reports=0.9)
    options, steps = {GATE: True, HANGS: True}, (Step(1.0, "create", "j3:plain"),)
    simulated(
        scenario,
        ScenarioPlan(seed="two", faults=FaultProfile(latency=latency), lives=lives, options=options, steps=steps),
    )
    assert (scenario.summary.counts.checkpoint, scenario.summary.counts.step) == (4.0, 5.0)
    assert (scenario.summary.judged, scenario.end) == (RETRIES + 1, {"Failed": "ReachedMaxRestarts"})


def test_a_job_is_not_stuck_while_ranks_take_their_grace_before_the_next_attempt(simulated: Simulated) -> None:
    """One rank fails, the other needs 30 seconds to end; the last attempt ends the job."""
    scenario, lives = OneLife(), replace(FAILS, runs=(5.0, 300.0), ends=(30.0, 30.1))
    lived(simulated, scenario, lives=lives, Explain=True)
    assert scenario.shown == {"Restarting", "Waiting", "Failed"}
    assert (scenario.summary.judged, scenario.end) == (RETRIES + 1, {"Failed": "ReachedMaxRestarts"})


def test_a_suspension_while_the_next_attempt_is_held_back_keeps_the_counts(simulated: Simulated) -> None:
    """Scenario 39: the resume begins the next attempt, and the hold is over by then."""
    scenario = OneLife()
    lived(simulated, scenario, Step(16.0, "suspend", "j1:plain"), Step(60.0, "resume", "j1:plain"))
    assert scenario.summary.counts.causes == {"Code": RETRIES + 1}
    assert (scenario.summary.judged, scenario.end) == (RETRIES + 1, {"Failed": "ReachedMaxRestarts"})


def test_a_suspension_that_lasts_keeps_the_job_suspended(simulated: Simulated) -> None:
    """Also after the hold has passed."""
    scenario = OneLife()
    lived(simulated, scenario, Step(16.0, "suspend", "j1:plain"))
    assert scenario.summary.counts.causes == {"Code": RETRIES}
    assert (scenario.jobset["spec"]["suspend"], scenario.end) == (True, {"Suspended": "Suspended"})


def test_a_deadline_that_passes_while_an_attempt_is_held_back_ends_the_job(simulated: Simulated) -> None:
    """Scenario 40: two attempts of 27 s, then 10 s before the third, and 60 s in all."""
    scenario = OneLife()
    create = Step(1.0, "create", "j1:plain+deadline")
    plan = ScenarioPlan(seed="one", lives=replace(FAILS, runs=(27.0, 27.1)), options={GATE: True}, steps=(create,))
    simulated(scenario, plan)
    assert (scenario.summary.judged, scenario.end) == (RETRIES, {"Failed": "DeadlineExceeded"})
    assert scenario.jobset == {}


class Away(OneLife):
    """The manager dies as soon as the record says that the job ends, and another one starts a minute later."""

    def __init__(self) -> None:
        super().__init__()
        self.kills = 0
        self._back_at = 0.0

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Listen to the record."""
        await super().begin(world, plan)
        (replica,) = world.replicas
        boot = replica.boot

        async def late(process: Process) -> Manager:
            if asyncio.get_running_loop().time() < self._back_at:
                raise Unreachable("not yet (simulated)")
            return await boot(process)

        def look(change: StoreChange) -> None:
            if self.summary.end_reason and not self.kills and change.name.name == "j1-failures":
                assert replica.process is not None
                self.kills += 1
                self._back_at = asyncio.get_running_loop().time() + 60.0
                replica.process.network.cut_off()
                world.start("kill", world.kill(replica))

        replica.boot = late
        world.hooks.change.append(look)


def test_a_jobset_that_is_gone_before_the_job_is_told_of_its_end_leaves_the_record(simulated: Simulated) -> None:
    """Scenario 50: JobSets of `brief` are deleted 20 seconds after their end."""
    scenario = Away()
    create = Step(1.0, "create", "j1:brief")
    simulated(scenario, ScenarioPlan(seed="one", lives=FAILS, options={GATE: True}, steps=(create,)))
    assert (scenario.kills, scenario.counted["DELETED"], scenario.counted["ADDED"]) == (1, 1, 1)
    assert scenario.end == {"Failed": scenario.summary.end_reason}


def test_a_manager_without_recovery_takes_over(simulated: Simulated) -> None:
    """Scenario 52: it makes what Kubeflow's manager makes, as the recorded cases say, and leaves a JobSet as it is.

    The job runs on, and the rules in its JobSet restart it until its retries are used up.
    """
    scenario = OneLife()
    lived(simulated, scenario, Step(4.0, "upgrade-manager"))
    assert (scenario.jobset["status"]["restarts"], scenario.counted["ADDED"]) == (RETRIES, 1)
    assert scenario.end["Failed"] == "ReachedMaxRestarts"


class Counting(Recovering):
    """Counts what is asked for the recovery of each job once the node is lost: records, logs, pods, JobSets, nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.first: dict[str, float] = {}

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Listen to requests."""
        await super().begin(world, plan)
        loop = asyncio.get_running_loop()

        def meet(process: str, request: Request) -> None:
            what, _, name = request.path.rpartition("/")
            is_status = name == "status" and "/trainjobs/" in what
            if process.startswith("manager-") and loop.time() > _LOST_AT and not is_status:
                found = re.search(r"/(j\d+|simulated)\b", request.path)
                if found is not None:
                    self.asked[found[1]] += 1
                    self.first.setdefault(found[1], loop.time())

        world.hooks.request.append(meet)


def test_jobs_that_lose_one_node_ask_little_each_and_do_not_wait_for_each_other(simulated: Simulated) -> None:
    """Scenario 59, with 20 jobs for 1,000: what a job asks for does not depend on how many there are.

    The status of its TrainJob is written as for any job, and not counted.
    """
    scenario = Counting()
    names = [f"j{number}" for number in range(20)]
    steps = [Step(1.0 + number / 10, "create", f"{name}:plain") for number, name in enumerate(names)]
    lost = Step(_LOST_AT, "lose-node", "0", 30.0)
    lives = PodLives(starts=(0.5, 0.6), runs=(200.0, 201.0), ends=(0.1, 0.2))
    simulated(scenario, ScenarioPlan(seed="one", lives=lives, options={GATE: True}, steps=(*steps, lost)))
    assert set(scenario.asked) - {"simulated"} == set(names)
    assert max(scenario.asked.values()) <= 3
    assert max(scenario.first.values()) - min(scenario.first.values()) < 5.0
