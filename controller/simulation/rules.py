# SPDX-License-Identifier: Apache-2.0
"""What must hold in every world: rules that any operator can use, and the base of those that it adds.

Safety is looked at with each change. Liveness is looked at when the faults have stopped and all is quiet.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from trainwright.api.objects import Key
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.simulation.plan import Step
from trainwright.controller.simulation.world import World

NOISE = ("leases.coordination.k8s.io", "events", "events.events.k8s.io")
"""Collections that are written without end."""
STORM = 120
"""Writes of one object within a minute that are too many."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str
    at: float
    """Virtual seconds."""

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.rule}: {self.text}"


class WorldRule:
    """Something that must hold. Subclasses override what they need. `say` takes what is wrong."""

    name: ClassVar[str]

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        self.world = world
        self._say = say
        self.calm = False
        """Whether the faults have stopped."""

    def say(self, text: str, *, rule: str = "") -> None:
        self._say(Violation(rule or self.name, text, asyncio.get_running_loop().time()))

    def changed(self, change: StoreChange) -> None:
        """Look at a change of the store."""

    def written(self, process: str, request: Request) -> None:
        """Look at a write that the API server begins to carry out."""

    def faulted(self, fault: str, path: str) -> None:
        """Look at a fault that a request meets."""

    def stepped(self, step: Step) -> None:
        """Look at a step of the plan that is about to happen."""

    def soon(self) -> float:
        """Seconds in which something happens by itself, such as the end of a deadline; 0: nothing does soon.

        The rest begins afterwards, since a fresh process would have to write it.
        """
        return 0.0

    def at_rest(self) -> None:
        """Look at a world in which all is quiet."""

    def fresh(self, changes: Iterable[StoreChange]) -> None:
        """Look at what a fresh process wrote after all was quiet."""


class NoStorm(WorldRule):
    """Once the faults have stopped, no object is written again and again."""

    name = "storm"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._writes: Counter[tuple[str, str, int]] = Counter()

    def changed(self, change: StoreChange) -> None:
        if change.collection in NOISE:
            return
        minute = int(asyncio.get_running_loop().time() // 60)
        key = (change.collection, f"{change.name.namespace}/{change.name.name}", minute)
        self._writes[key] += 1
        if self._writes[key] == STORM:
            self.say(f"{change.collection} {change.name.name}: {STORM} writes within a minute")


class OneWriter(WorldRule):
    """Only the process that holds the lease writes."""

    name = "one-writer"

    def written(self, process: str, request: Request) -> None:
        world, path = self.world, request.path
        if not world.lease or not process.startswith("manager-") or "/leases" in path or "/events" in path:
            return
        if "dryRun" not in request.query and (holder := world.holder()) != process:
            self.say(f"{process} writes {request.method} {path} while {holder or 'no replica'} holds the lease")


class NoOrphans(WorldRule):
    """No object without its owner, and none that is deleted for ever."""

    name = "no-orphans"

    def at_rest(self) -> None:
        every = {name: self.world.stored(name) for name in self.world.store.collections() if name not in NOISE}
        uids = {one["metadata"]["uid"] for documents in every.values() for one in documents}
        for collection, documents in every.items():
            for document in documents:
                metadata = document["metadata"]
                if metadata.get("deletionTimestamp"):
                    held = metadata.get("finalizers")
                    self.say(
                        f"{collection} {metadata['name']} is being deleted for ever: {held}", rule="deletion-never-ends"
                    )
                for owner in metadata.get("ownerReferences") or ():
                    if owner["uid"] not in uids:
                        self.say(f"{collection} {metadata['name']}: its {owner['kind']} {owner['name']} is gone")


class NoRecreateAfterOwnerDeleted(WorldRule):
    """No object is created again and again for an owner that was deleted.

    A create that is on its way when the owner is deleted cannot be called back; neither can that of another process.
    """

    name = "recreate-after-owner-deleted"
    most: ClassVar[int] = 3

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._gone: set[str] = set()
        self._made: Counter[tuple[str, str, str]] = Counter()

    def changed(self, change: StoreChange) -> None:
        metadata = change.object.document()["metadata"]
        if change.type == "DELETED":
            self._gone.add(metadata["uid"])
        elif change.type == "ADDED" and change.collection not in NOISE:
            for owner in metadata.get("ownerReferences") or ():
                if owner["uid"] in self._gone:
                    key = (change.collection, metadata["name"], owner["uid"])
                    self._made[key] += 1
                    if self._made[key] == self.most:
                        whose = f"{owner['kind']} {owner['name']}"
                        self.say(f"{key[0]} {key[1]} is created {self.most} times after its {whose} is gone")


class FreshBuild(WorldRule):
    """When all is quiet, a process that starts then has nothing to write: what is stored is what it would make."""

    name = "fresh-build"

    def fresh(self, changes: Iterable[StoreChange]) -> None:
        for change in list(changes)[:5]:
            what = f"{change.type} {change.collection} {change.name.name}"
            self.say(f"a fresh process had to write {what}{_difference(change)}")


RULES: tuple[type[WorldRule], ...] = (NoStorm, OneWriter, NoOrphans, NoRecreateAfterOwnerDeleted, FreshBuild)
"""Those of every operator."""


def _difference(change: StoreChange) -> str:
    if change.type != "MODIFIED" or change.before is None:
        return ""
    before, after = change.before.document(), change.object.document()
    for one in (before, after):
        one["metadata"].pop("managedFields", None)
        one["metadata"].pop("resourceVersion", None)
    return ": " + "; ".join(_paths(before, after, ""))[:300]


def _paths(old: Any, new: Any, path: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [one for key in sorted({*old, *new}) for one in _paths(old.get(key), new.get(key), f"{path}.{key}")]
    return [] if old == new else [f"{path} {json.dumps(old)[:80]} -> {json.dumps(new)[:80]}"]


class NoOldFailures(WorldRule):
    """A back-off ends with a success: a key that waits for no retry has no failures."""

    name = "back-off"

    def at_rest(self) -> None:
        keys = {Key(*one) for one in names_in(self.world)}
        managers = [one.manager for one in self.world.processes if one.manager is not None]
        for controller in [one for manager in managers for one in manager.controllers]:
            queue = controller.queue
            for key in sorted(keys):
                if (failures := queue.limiter.failures(key)) and key not in queue._entries:  # noqa: SLF001 - to look in
                    self.say(f"{controller.name} counts {failures} failures of {key}, which waits for no retry")


def names_in(world: World) -> set[tuple[str, str]]:
    every = [one["metadata"] for name in world.store.collections() for one in world.stored(name)]
    return {(metadata.get("namespace", ""), metadata["name"]) for metadata in every}
