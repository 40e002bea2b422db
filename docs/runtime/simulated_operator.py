# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001, ARG002, S311 - an example to copy, not a package
"""An operator and its simulation: a ConfigMap labelled `copy=yes` gets a copy. `remembers` plants a defect."""

import random
from typing import Any

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import labels_of
from trainwright.controller.runtime import NO_SERVERS, Done, Event, Key, Manager, Result
from trainwright.controller.simulation.plan import ScenarioPlan, Step, drawn_faults, drawn_steps
from trainwright.controller.simulation.simulate import MACHINE_WEIGHTS
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process, World


class Copies:
    """The operator. With `remembers`, it writes only what it has not written before, and does not look again."""

    def __init__(self, manager: Manager, *, remembers: bool) -> None:
        self.manager, self.remembers = manager, remembers
        self.made: dict[Key, str | None] = {}
        builder = manager.controller("copies").for_(ConfigMap, predicates=(_is_source,))
        builder.owns(ConfigMap).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Make the copy of one ConfigMap."""
        source = self.manager.cache.get(ConfigMap, key.name, key.namespace)
        text = (source.data or {}).get("text", "") if source is not None else None
        if source is not None and not (self.remembers and self.made.get(key) == text):
            metadata = {"name": f"{key.name}-copy", "namespace": key.namespace}
            copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
            await self.manager.applier.apply([copy], owner=source)
            self.made[key] = text
        return Done()


def _is_source(event: Event[Any]) -> bool:
    return labels_of(event.obj).get("copy") == "yes"


class CopiesScenario:
    """What users do to ConfigMaps, on one replica with or without faults."""

    def __init__(self, *, remembers: bool = False) -> None:
        self.remembers = remembers
        self.lease = ""
        self.rules = ()
        self.actions = {"create": self.create, "edit": self.edit, "delete-copy": self.delete_copy}

    def plan(self, seed: str) -> ScenarioPlan:
        """The world of a seed."""
        chance = random.Random(seed)
        users = {"edit": 1.0, "delete-copy": 1.0}
        steps = drawn_steps(chance, ["a", "b", "c"], users, MACHINE_WEIGHTS, replicas=1)
        return ScenarioPlan(seed=seed, faults=drawn_faults(chance), steps=steps)

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Add the operator."""

        async def boot(process: Process) -> Manager:
            manager = Manager(CONFIG, servers=NO_SERVERS, process=PROCESS, transport=process.network)
            Copies(manager, remembers=self.remembers)
            return manager

        world.add_replica(boot)

    async def create(self, world: World, step: Step) -> None:
        """A user makes a ConfigMap."""
        metadata = {"name": step.on, "namespace": "default", "labels": {"copy": "yes"}}
        source = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "first"}}
        await world.admin.create(source, kind=ConfigMap.RESOURCE)

    async def edit(self, world: World, step: Step) -> None:
        """A user changes it."""
        await world.admin.patch(ConfigMap.RESOURCE, step.on, "default", {"data": {"text": str(step.at)}})

    async def delete_copy(self, world: World, step: Step) -> None:
        """A user deletes the copy."""
        await world.admin.delete(ConfigMap.RESOURCE, f"{step.on}-copy", "default")
