# SPDX-License-Identifier: Apache-2.0
"""What a process of a world remembers: no more than a fresh one, and nothing of objects that are gone."""

import asyncio
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from trainwright.api.objects import Key
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.simulation.loop import Chance, SimulatedLoop, SimulatedSurroundings, Trace
from trainwright.controller.simulation.network import Network
from trainwright.controller.simulation.rules import Violation, WorldRule, names_in
from trainwright.controller.simulation.world import Process, World

_CONTAINERS = (dict, list, set, deque, OrderedDict, defaultdict)
# Neither objects of the cluster, which the cache holds, nor what belongs to the world.
_STOP = (
    *(types.ModuleType, types.FrameType, types.CoroutineType, types.AsyncGeneratorType, types.BuiltinFunctionType),
    type,
    *(asyncio.AbstractEventLoop, asyncio.Future, asyncio.Handle, str, bytes, int, float, msgspec.Struct),
    *(World, Network, Chance, SimulatedSurroundings, Trace),
)
_DEEPEST = 160
"""Characters of a way: what is further away belongs to libraries."""


class NoLeaks(WorldRule):
    """A process that has seen thousands of changes remembers no more than one that starts now.

    What is kept by keys of objects must not outlive them. Other containers are no larger than those of the fresh
    process; an OrderedDict is taken for a cache that has a limit. Sizes are compared in worlds with one replica only:
    of several, another one leads after they have started again.
    """

    name = "no-leaks"
    slack: ClassVar[int] = 3
    """By how many entries a container may be larger that is not kept by keys."""
    kept: ClassVar[tuple[str, ...]] = (
        ".applier.",
        ".cache._found",
        "._echoes._answered",
        ".client._agents",  # the User-Agent of each controller that has asked
        ".client._requests.",
        "._correlator.",
        ".metrics.",
        ".queue._delayed",
        "._discovery._names",  # the kinds that are served, read when the first is asked for
        "._records[].",  # what belongs to a job that is there
        "._listeners[]._counts",  # how many jobs there are of each series
        "._listeners[]._known",  # label values, which are limited
    )
    """Parts of ways to containers that keep what is gone and have limits of their own."""

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._before: Mapping[str, int] = {}

    def at_rest(self) -> None:
        """Measure the process that has seen everything, and look in all for keys of what is gone."""
        if (process := self._process()) is not None:
            self._before = self._measured(process)
        named = names_in(self.world)
        for one in self.world.processes:
            for path, keys in sorted(stale(one.manager, named).items()):
                if not self._is_kept(path):
                    self.say(f"{one.name}{path} keeps {', '.join(map(str, keys[:3]))}, which are gone")

    def fresh(self, changes: Iterable[StoreChange]) -> None:
        """Compare it with a fresh one."""
        process = self._process()
        if process is None or not self._before or list(changes):
            return
        now = self._measured(process)
        for path, size in sorted(self._before.items()):
            if size > now.get(path, 0) + self.slack and not self._is_kept(path):
                self.say(f"{path} has {size} entries, and {now.get(path, 0)} in a fresh process")

    def _is_kept(self, path: str) -> bool:
        return any(part in path for part in self.kept)

    def _measured(self, process: Process) -> Counter[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        return sizes(process.manager) + Counter({"tasks": loop.tasks_of(process.surroundings)})

    def _process(self) -> Process | None:
        return self.world.processes[0] if len(self.world.replicas) == 1 and self.world.processes else None


def sizes(root: Any) -> Counter[str]:
    """Entries of each container that is not kept by keys of objects, summed over those with the same way."""
    found = Counter[str]()
    for path, one in _containers(root):
        if not isinstance(one, OrderedDict) and not any(isinstance(key, Key) for key in one):
            found[path] += len(one)
    return found


def stale(root: Any, named: set[tuple[str, str]]) -> dict[str, list[Key]]:
    """Keys in containers below a root whose objects are gone, by the way to the container.

    Args:
        root: where the search begins.
        named: namespaces and names of all objects.
    """
    found: dict[str, list[Key]] = {}
    for path, one in _containers(root):
        if not isinstance(one, OrderedDict):
            keys = [key for key in one if isinstance(key, Key) and (key.namespace or "", key.name) not in named]
            if keys:
                found.setdefault(path, []).extend(sorted(keys))
    return found


def _containers(root: Any) -> Iterator[tuple[str, Any]]:
    """All containers below a root, with the way to each; indexes and keys are left out of ways."""
    seen, todo = {id(root)}, deque([("", root)])
    while todo:
        path, one = todo.popleft()
        for step, inner in _inside(one):
            if inner is None or isinstance(inner, _STOP) or id(inner) in seen or len(path) > _DEEPEST:
                continue
            seen.add(id(inner))
            where = path + step
            if isinstance(inner, _CONTAINERS):
                yield where, inner
            todo.append((where, inner))


def _inside(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, dict):
        if "apiVersion" not in one:
            yield from (("[]", value) for value in one.values())
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from (("[]", value) for value in one)
    elif isinstance(one, types.MethodType):
        yield "()", one.__self__
    elif isinstance(one, types.FunctionType):
        for cell in one.__closure__ or ():
            try:
                yield f"<{one.__name__}>", cell.cell_contents
            except ValueError:  # not filled yet
                continue
    else:
        names = list(getattr(one, "__dict__", ()))
        for kind in type(one).__mro__:
            slots = getattr(kind, "__slots__", ())
            names += [slots] if isinstance(slots, str) else list(slots)
        for name in names:
            private = f"_{type(one).__name__.lstrip('_')}{name}" if name.startswith("__") else name
            yield f".{name}", getattr(one, private, None)
