# SPDX-License-Identifier: Apache-2.0
"""The manager is killed at each point of a TrainJob's life and started again: the same end, nothing twice or lost."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.simulation.rules import JOBS, conditions
from tests.simulation.scenario import TrainJobs
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.plan import ScenarioPlan, Step
from trainwright.controller.simulation.rules import WorldRule
from trainwright.controller.simulation.simulate import Outcome
from trainwright.controller.simulation.world import World

JOB = "j1"
SHORT, FOR_EVER = (5.0, 10.0), (1e7, 1e8)
COMPLETE = ("Complete", "AllJobsCompleted")


@dataclass(frozen=True)
class Life:
    """What happens to a job, and how it ends."""

    steps: tuple[Step, ...]
    ends: frozenset[tuple[str, str]]
    """Type and reason of the conditions that are True in the end."""
    runs: tuple[float, float] = SHORT
    jobset_writes: int = 1
    deletes: int = 0
    """Of the JobSet."""


CREATE = Step(1.0, "create", f"{JOB}:mpi")
TRAINS = Life((CREATE,), frozenset({COMPLETE}))
SUSPENDED = Life(
    (CREATE, Step(20.0, "suspend", f"{JOB}:mpi")),
    frozenset({("Suspended", "Suspended")}),
    runs=FOR_EVER,
    jobset_writes=2,
)
RESUMED = Life(
    (Step(1.0, "create", f"{JOB}:mpi+suspended"), Step(20.0, "resume", f"{JOB}:mpi")),
    frozenset({COMPLETE}),
    jobset_writes=2,
)
LATE = Life(
    (Step(1.0, "create", f"{JOB}:mpi+deadline"),),
    frozenset({("Failed", "DeadlineExceeded")}),
    runs=FOR_EVER,
    deletes=1,
)


@dataclass(frozen=True)
class Point:
    """The request at which the manager is killed, before or after the server has carried it out."""

    life: Life
    method: str
    path: str
    """Its end."""
    is_done: bool
    contains: bytes = b""
    """Part of the body."""

    def meets(self, request: Request) -> bool:
        """Whether it is this request."""
        is_it = request.method == self.method and request.path.endswith(self.path)
        return is_it and self.contains in (request.body or b"")


STATUS = f"/trainjobs/{JOB}/status"
JOBSET = f"/jobsets/{JOB}"
POINTS = {
    "before the snapshot": Point(TRAINS, "POST", "/configmaps", is_done=False),
    "after the snapshot": Point(TRAINS, "POST", "/configmaps", is_done=True),
    "after the hostfile": Point(TRAINS, "PATCH", f"/configmaps/{JOB}-mpi-hostfile", is_done=True),
    "after the keys": Point(TRAINS, "POST", "/secrets", is_done=True),
    "after the JobSet": Point(TRAINS, "PATCH", JOBSET, is_done=True),
    "before the first status": Point(TRAINS, "PATCH", STATUS, is_done=False),
    "after the first status": Point(TRAINS, "PATCH", STATUS, is_done=True),
    "during suspend": Point(SUSPENDED, "PATCH", JOBSET, is_done=True, contains=b'"suspend":true'),
    "during resume": Point(RESUMED, "PATCH", JOBSET, is_done=True, contains=b'"suspend":false'),
    "after the deadline's mark": Point(LATE, "PATCH", STATUS, is_done=True, contains=b"DeadlineExceeded"),
    "after the deadline's delete": Point(LATE, "DELETE", JOBSET, is_done=True),
    "before Complete": Point(TRAINS, "PATCH", STATUS, is_done=False, contains=b"Complete"),
}


class Killed(TrainJobs):
    """Kills the manager once, at a point, and counts what the managers write."""

    def __init__(self, point: Point) -> None:
        super().__init__()
        self.point = point
        self.kills = 0
        self.writes: Counter[str] = Counter()
        self.rules = (*self.rules, self._ends())

    def _ends(self) -> type[WorldRule]:
        scenario = self

        class Ends(WorldRule):
            """The job has ended as it does without a kill."""

            name = "ends"

            def at_rest(self) -> None:
                (job,) = self.world.stored(JOBS)
                found = {(one["type"], one["reason"]) for one in conditions(job) if one["status"] == "True"}
                if found != scenario.point.life.ends:
                    self.say(f"the job is {sorted(found)}")

        return Ends

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Listen to requests and changes, too."""
        await super().begin(world, plan)

        def kill(process: str) -> None:
            (replica,) = world.replicas
            if self.kills or replica.process is None or replica.process.name != process:
                return
            self.kills += 1
            replica.process.network.cut_off()
            world.start("kill", world.kill(replica))

        def meet(process: str, request: Request) -> None:
            if process.startswith("manager-") and self.point.meets(request) and not self.kills:
                kill(process)
                if not self.point.is_done:
                    raise Unreachable(f"{request}: killed before (simulated)")

        def count(change: StoreChange) -> None:
            name, document = change.name.name, change.object.document()
            if change.type == "ADDED" and change.collection in ("configmaps", "secrets", "jobs.batch"):
                self.writes[f"{change.collection} {name}"] += 1
            elif change.collection.startswith("jobsets."):
                before = change.before.document()["metadata"] if change.before is not None else {}
                if change.type != "DELETED" and document["metadata"]["generation"] != before.get("generation"):
                    self.writes["jobset"] += 1
                elif change.type == "DELETED":
                    self.writes["jobset deleted"] += 1

        world.hooks.request.append(meet)
        world.hooks.change.append(count)


@pytest.mark.parametrize("name", POINTS)
def test_a_manager_killed_there_makes_no_difference(
    simulated: Callable[[Any, str | ScenarioPlan], Outcome], name: str
) -> None:
    scenario = Killed(POINTS[name])
    life = scenario.point.life
    simulated(scenario, ScenarioPlan(seed=name, steps=life.steps, lives=PodLives(runs=life.runs)))
    assert scenario.kills == 1
    ours = {what: count for what, count in scenario.writes.items() if JOB in what and "-failures" not in what}
    assert set(ours.values()) == {1}, ours
    assert {
        f"configmaps {JOB}-runtime-snapshot",
        f"configmaps {JOB}-mpi-hostfile",
        f"secrets {JOB}-mpi-ssh-auth",
    } <= set(ours)
    assert (scenario.writes["jobset"], scenario.writes["jobset deleted"]) == (life.jobset_writes, life.deletes)
