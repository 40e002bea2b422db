# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLW0108, ARG002 - a lambda calls through the module, which is what the guard replaces
"""The guard against time, chance, threads and sockets that do not come through a seam."""

import asyncio
import random
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from trainwright.api import surroundings
from trainwright.controller.simulation.loop import guarded
from trainwright.controller.simulation.plan import ScenarioPlan, Step
from trainwright.controller.simulation.rules import WorldRule
from trainwright.controller.simulation.simulate import Action, simulate
from trainwright.controller.simulation.world import World

SOURCES: Mapping[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "time.sleep": lambda: time.sleep(0),
    "random.random": lambda: random.random(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "threading.Thread.start": lambda: threading.Thread(target=int).start(),
    "socket.socket.__init__": lambda: socket.socket().close(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_outside_the_seams_is_told_once_with_its_place(name: str) -> None:
    told: list[str] = []
    with guarded(told.append):
        SOURCES[name]()
        SOURCES[name]()
    assert len(told) == 1
    assert f"{__file__}:" in told[0]
    assert name.rpartition(".")[2] in told[0]
    SOURCES[name]()
    assert len(told) == 1


def test_seams_and_libraries_are_not_told() -> None:
    told: list[str] = []
    with guarded(told.append):
        surroundings.present().now()
        surroundings.new_uid()
        surroundings.fraction()
        random.Random(7).random()
        with asyncio.Runner() as runner:
            runner.run(asyncio.sleep(0))
    assert told == []


def test_a_world_is_broken_by_an_operator_that_looks_at_the_clock() -> None:
    class Scenario:
        def __init__(self) -> None:
            self.lease = ""
            self.rules: Sequence[type[WorldRule]] = ()
            self.actions: Mapping[str, Action] = {"look": self.look}

        def plan(self, seed: str) -> ScenarioPlan:
            return ScenarioPlan(seed=seed, steps=[Step(1.0, "look")])

        async def begin(self, world: World, plan: ScenarioPlan) -> None:
            pass

        async def look(self, world: World, step: Step) -> str:
            return str(time.monotonic())

    assert simulate(Scenario(), "1").broken == ["outside"]
