# SPDX-License-Identifier: Apache-2.0
"""What a seed decides before its world begins: faults, options, and what users do when."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import msgspec

from trainwright.controller.simulation.network import FaultProfile
from trainwright.controller.simulation.node import PodLives

CHAOS_SECONDS = 240.0
"""How long faults and users go on."""
_CLEAN_UP_SECONDS = 20.0
_LATENCIES = (0.0005, 0.005, 0.05, 0.5)
_LONG = 1e7


@dataclass(frozen=True, slots=True)
class Step:
    at: float
    """Virtual seconds after the world is ready."""
    what: str
    """Name of the action."""
    on: str = ""
    """Of an object, in the words of the scenario, or the number of a replica."""
    more: float = 0.0
    """A number that some actions need, such as seconds."""

    def __str__(self) -> str:
        return f"{self.at:8.3f} s: {self.what} {self.on}{f' {self.more:g}' if self.more else ''}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioPlan:
    """One world. Shrinking removes steps, then faults, then options."""

    seed: str
    faults: FaultProfile = field(default_factory=FaultProfile)
    lives: PodLives = field(default_factory=PodLives)
    replicas: int = 1
    election: bool = False
    drift: float = 0.0
    """By which part of its time the clock of each second replica is fast, and that of the others slow."""
    eager: float = 0.0
    """Which part of the steps waits until a replica sends a write of the same object: users, and deaths of replicas,
    that meet a write."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the scenario wants to know beside that."""
    steps: Sequence[Step] = ()

    def text(self) -> str:
        said = asdict(self)
        said["faults"] = {name: value for name, value in said["faults"].items() if value}
        said["steps"] = [[step.at, step.what, step.on, step.more] for step in self.steps]
        head = json.dumps({name: value for name, value in said.items() if name != "steps"}, indent=1)
        steps = ",\n  ".join(json.dumps(step) for step in said["steps"])
        return f'{head[:-2]},\n "steps": [\n  {steps}\n ]\n}}\n'

    @classmethod
    def read(cls, path: Path) -> Self:
        """The plan of a file that `text` was written to."""
        said = json.loads(path.read_text(encoding="utf-8"))
        steps = [Step(*step) for step in said.pop("steps")]
        return replace(msgspec.convert(said, cls), steps=steps)

    def smaller(self) -> "Sequence[ScenarioPlan]":
        """The same without one fault, or with one option that is off, for shrinking."""
        changes: list[dict[str, Any]] = [{"faults": self.faults.without(name)} for name in self.faults.active]
        on = {name: value for name, value in self.options.items() if value}
        changes += [{"options": {**self.options, name: type(value)()}} for name, value in on.items()]
        if self.lives.fails:
            changes.append({"lives": replace(self.lives, fails=0.0)})
        if self.lives.hangs:
            changes.append({"lives": replace(self.lives, hangs=0.0)})
        if self.lives.reports:
            changes.append({"lives": replace(self.lives, reports=0.0, hangs=0.0)})
        changes += [{name: 0.0} for name in ("eager", "drift") if getattr(self, name)]
        if self.replicas > 1:
            changes += [{"replicas": 1}, {"replicas": 1, "election": False}]
        return [replace(self, **change) for change in changes]


def drawn_faults(chance: random.Random) -> FaultProfile:
    """Swarm testing: each seed turns on some faults only, at rates that it draws."""

    def rate(most: float) -> float:
        return round(chance.uniform(0, most), 4) if chance.random() < 0.4 else 0.0

    return FaultProfile(
        latency=chance.choice(_LATENCIES),
        refused=rate(0.05),
        lost_before=rate(0.1),
        lost_after=rate(0.1),
        slow_request=rate(0.3),
        slow_answer=rate(0.3),
        timeout_after=rate(0.02),
        error_500=rate(0.1),
        conflict=rate(0.2),
        too_many=rate(0.05),
        unauthorized=rate(0.02),
        cut_watch=rate(0.05),
        slow_frame=rate(0.1),
    )


def drawn_lives(chance: random.Random) -> PodLives:
    # Some end about when deadlines pass.
    long = (_LONG, 2 * _LONG)
    runs = chance.choice([(1.0, 30.0), (5.0, 300.0), long, long, (10.0, _LONG), (54.0, 62.0)])
    fails = chance.choice([0.0, 0.0, 0.0, chance.uniform(0, 0.5), chance.uniform(0.5, 1.0)])
    return PodLives(runs=runs, fails=round(fails, 4))


def drawn_steps(
    chance: random.Random,
    targets: Sequence[str],
    actions: Mapping[str, float],
    machine_actions: Mapping[str, float],
    *,
    replicas: int,
    fits: Callable[[str, str], bool] = lambda action, target: True,  # noqa: ARG005 - all fit
    clean_up: str = "",
) -> list[Step]:
    """Each target is created, and things happen to it: a few actions, milliseconds to a minute apart.

    Races live within milliseconds, and most defects need two or three actions on the same object. Each seed uses few
    kinds of actions, each often: what two of them do to the same object is met seldom otherwise. In half of all worlds
    a target is left alone after one chain of actions, because what comes later often heals what went wrong. In a third
    of all worlds half of the targets are deleted at the end, because only then it shows what outlives them.

    Args:
        chance: of the plan.
        targets: what is created.
        actions: on a target, with their weights.
        machine_actions: on a replica, with their weights.
        replicas: how many there are.
        fits: whether an action can do something to a target, such as delete an object that it has.
        clean_up: the action that deletes a target; empty: none does.
    """
    useful = {name: weight for name, weight in actions.items() if any(fits(name, one) for one in targets)}
    known = {**useful, **machine_actions}
    chosen = sorted(_chosen([name for name, weight in known.items() if weight], known, chance))
    is_flat, is_left_alone = chance.random() < 0.5, chance.random() < 0.5
    weights = {name: chance.choice([1, 1, 3]) * (1.0 if is_flat else known[name]) for name in chosen}
    span = CHAOS_SECONDS * chance.choice([0.6, 0.6, 0.01])
    created = {one: round(chance.uniform(0, span), 3) for one in targets}
    steps = [Step(at, "create", one) for one, at in created.items()]

    def chain(target: str) -> None:
        at = _beginning(created[target], chance)
        fitting = {name: weights[name] for name in chosen if name in machine_actions or fits(name, target)}
        kinds = _vocabulary(fitting, chance) if fitting else []
        for _ in range(chance.choice([1, 2, 3, 5]) if kinds else 0):
            what = chance.choices(kinds, [weights[name] for name in kinds])[0]
            if at > CHAOS_SECONDS:
                break
            on = str(chance.randrange(replicas)) if what in machine_actions else target
            steps.append(Step(round(at, 3), what, on, round(chance.uniform(0.5, 40.0), 2)))
            at += 10 ** chance.uniform(-3, 1.8)

    if is_left_alone:
        for target in targets:
            chain(target)
    else:
        for _ in range(len(targets) * 3 // 2):
            chain(chance.choice(list(targets)))
    if clean_up and chance.random() < 1 / 3:
        begins = CHAOS_SECONDS - _CLEAN_UP_SECONDS
        moments = {one: round(begins + chance.uniform(0, _CLEAN_UP_SECONDS), 3) for one in targets}
        steps += [Step(at, clean_up, one) for one, at in moments.items() if chance.random() < 0.5]
    return sorted(steps, key=lambda step: (step.at, step.what, step.on))


def _beginning(created: float, chance: random.Random) -> float:
    """When a chain of actions on a target begins: any time, after its creation, or before, while its name is free."""
    moment = 10 ** chance.uniform(-3, 1.5)
    where = chance.random()
    if where < 0.6:
        return chance.uniform(0, CHAOS_SECONDS)
    return created + moment if where < 0.85 else max(0.0, created - moment)


def _vocabulary(weights: Mapping[str, float], chance: random.Random) -> list[str]:
    """What a chain of actions is made of: all kinds of the seed, two of them, or those on one kind of object."""
    names, which = list(weights), chance.random()
    if which < 0.4:
        return names
    two = chance.choices(names, list(weights.values()), k=2)
    if which < 0.7:
        return sorted(set(two))
    word = two[0].rpartition("-")[2]
    return [name for name in names if name.rpartition("-")[2] == word]


def _chosen(names: Sequence[str], weights: Mapping[str, float], chance: random.Random) -> set[str]:
    """The kinds of actions of a seed.

    Each as likely as the others, or by their weights, so that common ones meet. In half of all worlds also all that is
    done to one kind of object, which is the last word of a name: what was made by others is deleted, what was deleted
    is edited.
    """
    count = min(len(names), chance.choice([3, 5, 8, 14]))
    if chance.random() < 0.5:
        chosen = set(chance.sample(names, count))
    else:
        chosen = set(chance.choices(names, [weights[name] for name in names], k=count))
    words = Counter(word for name in names if (word := name.rpartition("-")[2]) != name)
    kinds = [word for word, count in words.items() if count > 1]
    if kinds and chance.random() < 0.5:
        about = chance.choice(kinds)
        chosen.update(name for name in names if name.endswith(f"-{about}"))
    return chosen
