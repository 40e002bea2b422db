# SPDX-License-Identifier: Apache-2.0
"""All scenarios in which our controllers are compared with the real ones: steps in YAML, and functions.

Steps name an object as `Job: NAME`. `create` has a patch of the `spec` that the tests usually make, and of a JobSet
its `jobs`: replicas, pods, and a patch of the rest. `running` and `pods` wait for so many pods; of those that were
last seen running `end` ends all, one, or those with a prefix, `fails` and `restart` are of the first, and `lose`
deletes one. `ended` waits for the end of a Job or JobSet, `until` for a condition or values at paths, `says` for a
word in a status of a pod. `note` is what is compared.
"""

from collections.abc import Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import yaml

from tests.integration.local.controllers import scenarios_of_jobsets, scenarios_of_others
from tests.integration.local.controllers.comparison import Note, Scenario
from tests.integration.local.controllers.conftest import World, conditions, job_spec, of, replicated
from trainwright.api.base import Resource
from trainwright.api.objects import Document, dig, name_of
from trainwright.controller.local.apiserver.merge.patch import merge_patch
from trainwright.controller.local.controllers.objects import JOB, JOBSET, POD

KINDS = {"Job": JOB, "JobSet": JOBSET}
_NAMES = {"Job": "job", "JobSet": "train"}
_ENDS = {"Complete", "Completed", "Failed"}


class _Steps:
    """The steps of a scenario in a world."""

    def __init__(self, world: World, note: Note) -> None:
        self._world, self._note = world, note
        self._last: list[Document] = []

    async def do(self, step: Mapping[str, Any]) -> None:
        """One step."""
        (what, how), *more = step.items()
        await getattr(self, f"_{what}")(how, **dict(more))

    async def _create(self, how: Document) -> None:
        kind, name = _object(how)
        spec: Document = job_spec()
        if kind is JOBSET:
            spec = {"replicatedJobs": [_replicated(dict(one)) for one in how["jobs"]]}
        labels = {"labels": how["labels"]} if "labels" in how else {}
        await self._world.create(kind, name, merge_patch(spec, how.get("spec", {})), **labels)

    async def _patch(self, how: Document) -> None:
        await self._world.client.patch(*_object(how), self._world.namespace, how["with"])

    async def _delete(self, how: Document) -> None:
        kind, name = _object(how)
        more = {"propagation": how["propagation"]} if "propagation" in how else {}
        await self._world.client.delete(kind, name, self._world.namespace, **more)
        await self._world.gone(kind, name)

    async def _gone(self, how: Document) -> None:
        await self._world.gone(*_object(how))

    async def _running(self, count: int, label: str = "") -> None:
        self._last = await self._world.running(count, label)

    async def _pods(self, count: int) -> None:
        await self._world.pods(lambda pods: len(pods) == count)

    async def _says(self, word: str) -> None:
        await self._world.pods(lambda pods: any(word in str(pod["status"]) for pod in pods))

    async def _end(self, how: Document) -> None:
        chosen = [self._last[how["pod"]]] if "pod" in how else of(self._last, how.get("prefix", ""))
        self._world.end(*chosen, code=how.get("code", 0))

    async def _fails(self, code: int) -> None:
        await self._world.fails(self._last[0], code)

    async def _restart(self, count: int) -> None:
        self._world.kubelet.restart(self._world.namespace, name_of(self._last[0]), count)

    async def _lose(self, number: int) -> None:
        name = name_of(self._last[number])
        await self._world.client.delete(POD, name, self._world.namespace)
        await self._world.pods(lambda pods: name not in map(name_of, pods))

    async def _ended(self, kind: str) -> None:
        await self._world.until(KINDS[kind], _NAMES[kind], lambda found: _ENDS & conditions(found).keys())

    async def _until(self, how: Document) -> None:
        kind, name = _object(how)
        values = {path: value for path, value in how.items() if path not in (kind.kind, "condition")}

        def holds(found: Document) -> bool:
            states = {how["condition"]} if "condition" in how else set()
            return states <= conditions(found).keys() and all(dig(found, path) == one for path, one in values.items())

        await self._world.until(kind, name, holds)


def _object(how: Document) -> tuple[Resource, str]:
    (kind,) = how.keys() & KINDS.keys()
    return KINDS[kind], how[kind]


def _replicated(how: Document) -> Document:
    made = replicated(how.pop("name"), replicas=how.pop("replicas", 1), pods=how.pop("pods", 1))
    return merge_patch(made, how)


def _of_file(file: Path) -> list[Scenario]:
    return [_scenario(name, steps) for name, steps in yaml.safe_load(file.read_text()).items()]


def _scenario(name: str, steps: list[Document]) -> Scenario:
    async def run(world: World, note: Note) -> None:
        doing = _Steps(world, note)
        for step in steps:
            await doing.do(step)

    run.__name__ = name
    return run


ALONE: tuple[Scenario, ...] = (scenarios_of_others.pods_have_no_place,)
"""Each needs a node of 8 CPUs of its own."""
CPU = "64"
"""Of the node that the others share, so that none waits for a place."""
SCENARIOS: tuple[Scenario, ...] = (
    *(one for file in sorted(Path(__file__).parent.glob("scenarios_of_*.yaml")) for one in _of_file(file)),
    *(
        one
        for module in (scenarios_of_jobsets, scenarios_of_others)
        for one in vars(module).values()
        if iscoroutinefunction(one) and one.__module__ == module.__name__ and one not in ALONE
    ),
)
