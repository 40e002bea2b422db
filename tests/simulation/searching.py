# SPDX-License-Identifier: Apache-2.0
"""OptimizationJobs in a simulated world: trials that report and fail, users who delete them, and all faults."""

import asyncio
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tests.simulation.rules import JOBS, owner_of, true_conditions
from tests.simulation.scenario import SPACE, TrainJobs
from trainwright.api.objects import Document, uid_of
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.plan import ScenarioPlan, Step, drawn_faults, drawn_steps
from trainwright.controller.simulation.rules import Violation, WorldRule
from trainwright.controller.simulation.simulate import MACHINE_WEIGHTS, Action
from trainwright.controller.simulation.world import World

SEARCHES = "optimizationjobs.trainer.kubeflow.org"
TRIALS, PARALLEL = 6, 2
_LIVES = PodLives(runs=(1.0, 30.0), fails=0.2)
_KIND, _TRIAL = OptimizationJob.RESOURCE, TrainJob.RESOURCE
_ACTIONS = {"delete-trial": 3.0, "suspend-trial": 1.0, "resume-trial": 2.0, "edit-status": 1.0, "delete": 0.5}


class Searching(TrainJobs):
    """Searches of six trials."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = (*self.rules, TrialsOnce)
        self.actions = {
            "create": _create,
            "delete": _delete,
            "delete-trial": _delete_trial,
            "suspend-trial": _suspends(suspend=True),
            "resume-trial": _suspends(suspend=False),
            "edit-status": _edit_status,
        }

    def plan(self, seed: str) -> ScenarioPlan:
        """Four searches, and as many replicas, faults and deaths as in any world."""
        chance = random.Random(f"{seed}/search")
        replicas = chance.choice([1, 1, 2, 3])
        names = [f"s{number}" for number in range(4)]
        plan = ScenarioPlan(
            seed=seed,
            faults=drawn_faults(chance),
            replicas=replicas,
            election=replicas > 1 or chance.random() < 0.4,
            eager=chance.choice([0.0, 0.3, 0.8]),
            steps=drawn_steps(chance, names, _ACTIONS, MACHINE_WEIGHTS, replicas=replicas),
        )
        return replace(plan, lives=_LIVES)

    def gates_of(self, plan: ScenarioPlan, version: int) -> dict[str, bool]:  # noqa: ARG002 - others ask it
        """Those of searches."""
        return {"OptimizationJob": True, "ProgressPull": True}

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Let each trial report once."""
        await super().begin(world, plan)

        def report(change: StoreChange) -> None:
            if change.collection == JOBS and change.type == "ADDED":
                world.start("report", _report(world, change.name.name))

        world.hooks.change.append(report)


async def _report(world: World, name: str) -> None:
    value = zlib.crc32(name.encode()) % 1000 / 1000
    told = {
        "progressPercentage": 100,
        "metrics": [{"name": "loss", "value": str(value)}],
        "lastUpdatedTime": format_time(world.surroundings.now()),
    }
    with suppress(ApiError):  # it is gone
        patch = {"status": {"trainerStatus": told}}
        await world.admin.patch(_TRIAL, name, SPACE, patch, subresource="status")


class TrialsOnce(WorldRule):
    """No trial is made twice, none is forgotten, and never more than `parallelTrials` are not over."""

    name = "trials"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._made: Counter[tuple[str, str]] = Counter()
        self._open: dict[str, set[str]] = {}
        """The TrainJobs that are not over, by the uid of their search."""

    def changed(self, change: StoreChange) -> None:
        """Count what is made, and what is not over."""
        if change.collection != JOBS:
            return
        trial, name = change.object.document(), change.name.name
        owner = owner_of(trial)
        still = self._open.setdefault(owner, set())
        if change.type == "ADDED":
            self._made[owner, name] += 1
            still.add(name)
            if self._made[owner, name] > 1:
                self.say(f"trial {name} is made again")
            if len(still) > PARALLEL:
                self.say(f"{sorted(still)} are not over")
        if change.type == "DELETED" or _is_over(trial):
            still.discard(name)

    def at_rest(self) -> None:
        """Each search has ended, with all of its trials on record."""
        records = {one["metadata"]["name"]: one for one in self.world.stored("configmaps")}
        # One that is suspended, or whose pods were lost with their node, holds its place.
        waiting = {owner_of(one) for one in self.world.stored(JOBS) if not _is_over(one)}
        for search in self.world.stored(SEARCHES):
            name, held = search["metadata"]["name"], true_conditions(search)
            made = [trial for owner, trial in self._made if owner == uid_of(search)]
            known = json.loads(records.get(f"{name}-trials", {}).get("data", {}).get("trials", "[]"))
            if sorted(made) != [f"{name}-{one['number']}" for one in known]:
                self.say(f"search {name} has made {sorted(made)}, and on record are {[one['number'] for one in known]}")
            if uid_of(search) in waiting:
                continue
            self.world.trace.sometimes("a search ends")
            if not held.keys() & {"Complete", "Failed"}:
                self.say(f"search {name} is {sorted(held)}")
            elif ("Complete" in held) is not any(one["state"] == "complete" for one in known):
                self.say(f"search {name} is {sorted(held)} with {[one['state'] for one in known]}")
            elif "Complete" in held and len(known) != TRIALS:
                self.say(f"search {name} is Complete with {len(known)} trials")
            if any(one["state"] == "running" for one in known):
                self.say(f"search {name} has ended, and on record trials run")


def _is_over(document: Document) -> bool:
    return bool(true_conditions(document).keys() & {"Complete", "Failed"})


async def _create(world: World, step: Step) -> None:
    spec: Document = {
        "objectives": [{"metric": "loss"}],
        "numTrials": TRIALS,
        "parallelTrials": PARALLEL,
        "parameters": [{"name": "x", "searchSpace": {"uniform": {"min": "0", "max": "1"}}}],
        "trainJobTemplate": {"spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "plain"}}},
    }
    metadata = {"name": step.on, "namespace": SPACE}
    document = {"apiVersion": _KIND.api_version, "kind": _KIND.kind, "metadata": metadata, "spec": spec}
    await world.admin.create(document, kind=_KIND)


async def _delete(world: World, step: Step) -> None:
    await world.admin.delete(_KIND, step.on, SPACE, propagation="Background")


def _trial(step: Step) -> str:
    return f"{step.on}-{1 + int(step.more) % TRIALS}"


async def _delete_trial(world: World, step: Step) -> None:
    await world.admin.delete(_TRIAL, _trial(step), SPACE)


def _suspends(*, suspend: bool) -> Action:
    async def act(world: World, step: Step) -> None:
        await world.admin.patch(_TRIAL, _trial(step), SPACE, {"spec": {"suspend": suspend}})
        if suspend:  # a queue lets it go on
            await asyncio.sleep(step.more)
            with suppress(ApiError):
                await world.admin.patch(_TRIAL, _trial(step), SPACE, {"spec": {"suspend": False}})

    return act


async def _edit_status(world: World, step: Step) -> None:
    patch = {"status": {"conditions": [], "result": {"trainJobName": "mine"}}}
    await world.admin.patch(_KIND, step.on, SPACE, patch, subresource="status")
