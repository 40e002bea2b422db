# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: faults, no faults, quiet, fresh processes. Shrinks plans that break a rule."""

import asyncio
import gc
import logging
import re
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.simulation.loop import DeadlockError, HotLoopError, SimulatedLoop, guarded
from trainwright.controller.simulation.plan import CHAOS_SECONDS, ScenarioPlan, Step
from trainwright.controller.simulation.rules import NOISE, RULES, Violation, WorldRule
from trainwright.controller.simulation.world import Replica, World, simulated_world

QUIET_SECONDS = 90.0
"""Nothing is written for so long: longer than the longest retry of a controller."""
PATIENCE_SECONDS = 3600.0
"""A world without faults becomes quiet within this time."""
_SETTLE_SECONDS = 130.0
_JUMPED_SECONDS = 190.0
"""After a jump of the wall clock, controllers look again within a minute, and deadlines are a minute."""
_FRESH_SECONDS = 100.0
_EAGER_SECONDS = 20.0
"""How long a step waits for a write that it is to meet."""
_MOST = 20
_EXPECTED = re.compile(
    r"\(simulated\)|Unreachable|ConnectionLost|RequestTimeout|ServerError|NotLeading|Conflict|LeadershipLost|"
    r"lost the lease|leadership failed|AlreadyExists|NotFound"
)
"""Errors in a log that faults explain."""

Action: TypeAlias = Callable[[World, Step], Any]
"""Carries out a step; a coroutine function. What it returns is noted. ApiError is part of the story."""


class Scenario(Protocol):
    lease: str
    """Name of the Lease of its leader election, in namespace `default`; empty: it has none."""
    rules: Sequence[type[WorldRule]]
    """What must hold beside the rules of every operator."""
    actions: Mapping[str, Action]
    """What users do, by name."""

    def plan(self, seed: str) -> ScenarioPlan: ...

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Install the operator's kinds and webhooks, and add its replicas with `world.add_replica`."""
        ...


@dataclass(slots=True, kw_only=True)
class Outcome:
    plan: ScenarioPlan
    violations: list[Violation] = field(default_factory=list)
    digest: str = ""
    """Of the trace; the same plan has the same."""
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    deaths: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """The trace, if it was kept."""

    @property
    def broken(self) -> list[str]:
        return sorted({violation.rule for violation in self.violations})


def simulate(scenario: Scenario, seed: "str | ScenarioPlan", *, keep: bool = False) -> Outcome:
    """Run the scenario of a seed, or a plan, and check whether all rules hold. `keep` keeps the lines of its trace."""
    plan = seed if isinstance(seed, ScenarioPlan) else scenario.plan(seed)
    outcome = Outcome(plan=plan)
    # The collector closes async generators at times of its own.
    enabled = gc.isenabled()
    gc.disable()
    try:
        outside = partial(Violation, "outside", at=0.0)
        with (
            guarded(lambda text: outcome.violations.append(outside(text))),
            asyncio.Runner(loop_factory=SimulatedLoop) as runner,
        ):
            runner.run(_run(scenario, plan, outcome, keep=keep))
    except (HotLoopError, DeadlockError) as error:
        outcome.violations.append(Violation(type(error).__name__.removesuffix("Error"), str(error), 0.0))
    except Exception as error:  # of the workloads, or of an action: the seed must be told with it
        text = "".join(traceback.format_exception(error)[-6:])
        outcome.violations.append(Violation("crash", f"{type(error).__name__}: {error}\n{text}", 0.0))
    finally:
        gc.collect()
        if enabled:
            gc.enable()
    return outcome


async def _run(scenario: Scenario, plan: ScenarioPlan, outcome: Outcome, *, keep: bool) -> None:
    begun, loop = time.perf_counter(), asyncio.get_running_loop()
    world = World(plan.seed, lives=plan.lives, lease=scenario.lease if plan.election else "", keep=keep)

    def say(violation: Violation) -> None:
        if len(outcome.violations) < _MOST:
            outcome.violations.append(violation)
            world.trace.add("WRONG", str(violation))

    rules = [rule(world, say) for rule in (*RULES, *scenario.rules)]
    for rule in rules:
        world.hooks.change.append(rule.changed)
        world.hooks.request.append(rule.written)
        world.hooks.fault.append(rule.faulted)
    with _complaints(say):
        async with simulated_world(world):
            await scenario.begin(world, plan)
            for replica in world.replicas:
                replica.drift = plan.drift if replica.number % 2 else -plan.drift
                await world.boot(replica)
            await asyncio.sleep(1.0)
            for name, value in {"latency": plan.faults.latency, **plan.faults.active}.items():
                setattr(world.faults, name, value)
            world.faults.slow_seconds = plan.faults.slow_seconds
            world.undisturbed.latency = min(0.05, plan.faults.latency)
            deployment = world.start("deployment", world.keep_up())
            jumped = await _steps(scenario, world, plan, rules)
            world.trace.add("phase", "calm")
            for rule in rules:
                rule.calm = True
            for replica in world.replicas:
                world.set_clock(replica, 0.0)
            world.faults.calm()
            world.faults.latency = 0.005
            await asyncio.sleep(_JUMPED_SECONDS if jumped else _SETTLE_SECONDS)
            if last := await _until_quiet(world, rules):
                text = f"not quiet {PATIENCE_SECONDS:.0f} s after the faults stopped; last: {last}"
                say(Violation("quiet", text, loop.time()))
            else:
                world.trace.add("phase", "quiet")
                for rule in rules:
                    rule.at_rest()
                deployment.cancel()
                wrote = await _fresh(world)
                for rule in rules:
                    rule.fresh(wrote)
    outcome.digest, outcome.counts, outcome.lines = world.trace.digest, world.trace.counts, world.trace.lines
    outcome.deaths = world.deaths
    outcome.virtual_seconds, outcome.real_seconds = loop.time(), time.perf_counter() - begun


async def _steps(scenario: Scenario, world: World, plan: ScenarioPlan, rules: Sequence[WorldRule]) -> bool:
    """Do what the plan says; returns whether a clock has jumped."""
    loop = asyncio.get_running_loop()
    start, jumped = loop.time(), False
    actions = {**MACHINE_ACTIONS, **scenario.actions}

    async def do(step: Step) -> None:
        for rule in rules:
            rule.stepped(step)
        try:
            said = await actions[step.what](world, step) or "done"
        except ApiError as error:
            said = f"refused: {type(error).__name__} {error.message[:150]}"
        world.trace.add("user", f"{step.what} {step.on}: {said}")

    async def do_with_write(step: Step) -> None:
        if step.what in _OF_REPLICAS:
            if (writer := await world.next_write(_EAGER_SECONDS)) is not None:
                step = replace(step, on=str(writer.number))
        else:
            await world.next_write(_EAGER_SECONDS, name=step.on.partition(":")[0], kind=_met(world, step))
        # While the write is on its way, while it is carried out, or while its answer is on its way.
        await asyncio.sleep(world.faults.latency * (step.more % 3))
        await do(step)

    waiting, meeting = [], {*scenario.actions, *_OF_REPLICAS}
    for step in plan.steps:
        await asyncio.sleep(max(0.0, start + step.at - loop.time()))
        if step.what in meeting and round(step.at * 1000) % 100 < plan.eager * 100:
            waiting.append(world.start("step", do_with_write(step)))
        else:
            await do(step)
        jumped = jumped or step.what in ("jump-clock", "sleep")
    await asyncio.sleep(max(0.0, start + CHAOS_SECONDS - loop.time()))
    if waiting:
        await asyncio.wait(waiting)
    return jumped


def _met(world: World, step: Step) -> str:
    """The kind of object whose write a step is to meet, in half of all cases that of the last word of its name."""
    word = step.what.rpartition("-")[2]
    is_kind = word != step.what and any(word in name for name in world.store.collections())
    return word if is_kind and round(step.more * 100) % 2 else ""


async def _until_quiet(world: World, rules: Sequence[WorldRule]) -> str:
    """Wait until nothing is written any more, nor will be soon; returns the last change if that never happens."""
    loop = asyncio.get_running_loop()
    last, what, end = loop.time(), "", loop.time() + PATIENCE_SECONDS

    def look(change: StoreChange) -> None:
        nonlocal last, what
        if change.collection not in NOISE:
            last, what = loop.time(), f"{change.type} {change.collection} {change.name.name}"

    world.hooks.change.append(look)
    try:
        while loop.time() < end:
            left = max(last + QUIET_SECONDS - loop.time(), *(rule.soon() for rule in rules))
            if left <= 0:
                return ""
            await asyncio.sleep(left)
    finally:
        world.hooks.change.remove(look)
    return what


async def _fresh(world: World) -> list[StoreChange]:
    """What fresh processes write where nothing else acts."""
    wrote: list[StoreChange] = []

    def look(change: StoreChange) -> None:
        if change.collection not in NOISE:
            wrote.append(change)

    # Pods and other controllers stand still, however much they have to do.
    world.workloads.pause(1e9)
    await asyncio.sleep(20.0)
    for replica in world.replicas:
        await world.kill(replica)
    world.hooks.change.append(look)
    for replica in world.replicas:
        await world.boot(replica)
    await asyncio.sleep(_FRESH_SECONDS)
    world.hooks.change.remove(look)
    return wrote


# ---------------------------------------------------------------------- what machines do


def _replica(world: World, step: Step) -> Replica:
    return world.replicas[int(step.on or "0") % len(world.replicas)]


def _pause(world: World, step: Step) -> None:
    if (process := _replica(world, step).process) is not None:
        world.start("pause", world.pause(process, step.more))


def _jump(world: World, step: Step) -> None:
    """A few seconds ahead or behind, or an hour, of one machine."""
    sign = -1.0 if int(step.at * 1000) % 2 else 1.0
    world.set_clock(_replica(world, step), sign * (3600.0 if step.more > 25 else step.more / 8))


_MACHINES: Mapping[str, tuple[float, Callable[[World, Step], Awaitable[None] | None]]] = {
    "kill-manager": (1.5, lambda world, step: world.kill(_replica(world, step))),
    "stop-manager": (0.7, lambda world, step: world.stop(_replica(world, step))),
    "pause-manager": (1.0, _pause),
    "pause-workloads": (2.0, lambda world, step: world.workloads.pause(step.more)),
    "jump-clock": (0.5, _jump),
    "sleep": (0.2, lambda world, step: world.sleep(step.more * 900)),  # a quarter of an hour to ten hours
    "upgrade-manager": (0.7, lambda world, _: world.upgrade()),
    "forget-changes": (1.0, lambda world, step: world.forget_changes(step.more / 4)),
    "lose-webhooks": (0.7, lambda world, step: world.lose_webhooks(step.more)),
    "lose-node": (0.7, lambda world, step: world.lose_node(step.more * 3, evicts=step.more > 20)),
}


async def _machine_fault(world: World, step: Step) -> None:
    if (work := _MACHINES[step.what][1](world, step)) is not None:
        await work


_OF_REPLICAS = frozenset({"kill-manager", "stop-manager", "pause-manager"})
MACHINE_WEIGHTS: Mapping[str, float] = {name: weight for name, (weight, _) in _MACHINES.items()}
MACHINE_ACTIONS: Mapping[str, Action] = dict.fromkeys(_MACHINES, _machine_fault)
"""What happens to machines, in every scenario."""


# ---------------------------------------------------------------------- logs


class _Complaints(logging.Handler):
    """An error in a log is a violation, unless a fault explains it."""

    def __init__(self, say: Callable[[Violation], None]) -> None:
        super().__init__(logging.ERROR)
        self._say_violation = say
        self._known: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" | {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        if not _EXPECTED.search(text) and text not in self._known:
            self._known.add(text)
            self._say_violation(Violation("log", text[:400], asyncio.get_running_loop().time()))


@contextmanager
def _complaints(say: Callable[[Violation], None]) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    # Only errors, and only here: the warnings and tracebacks of thousands of faults say nothing.
    root.handlers = [_Complaints(say)]
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


# ---------------------------------------------------------------------- shrinking


def shrink(
    scenario: Scenario, plan: ScenarioPlan, rule: str, *, tell: Callable[[str], None] = lambda _: None
) -> ScenarioPlan:
    """The smallest plan that still breaks the rule: fewer steps, then faults, then options. `tell` takes lines."""

    def fails(candidate: ScenarioPlan) -> bool:
        return rule in simulate(scenario, candidate).broken

    size = max(1, len(plan.steps) // 2)
    while size >= 1:
        index = 0
        while index < len(plan.steps):
            candidate = replace(plan, steps=[*plan.steps[:index], *plan.steps[index + size :]])
            if fails(candidate):
                plan = candidate
                tell(f"{len(plan.steps)} steps")
            else:
                index += size
        size //= 2
    while (smaller := next((one for one in plan.smaller() if fails(one)), None)) is not None:
        plan = smaller
        tell(f"faults {', '.join(plan.faults.active) or 'none'}; options {dict(plan.options)}")
    return plan
