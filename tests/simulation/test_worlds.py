# SPDX-License-Identifier: Apache-2.0
"""Simulated worlds with the manager of TrainJobs: fixed seeds, and plans of failures that were mended."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.scenario import TrainJobs
from tests.simulation.story import story_of
from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.simulate import Outcome, simulate

PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))
SEEDS = range(1000, 1032)
_WORLDS = 4
"""Of a test."""

Simulated = Callable[[Any, str | ScenarioPlan], Outcome]


@pytest.mark.parametrize("first", SEEDS[::_WORLDS])
def test_worlds_of_fixed_seeds(simulated: Simulated, first: int) -> None:
    for seed in range(first, first + _WORLDS):
        simulated(TrainJobs(), str(seed))


@pytest.mark.parametrize("path", PLANS, ids=[path.stem for path in PLANS])
def test_a_failure_of_the_past_does_not_come_again(simulated: Simulated, path: Path) -> None:
    simulated(TrainJobs(), ScenarioPlan.read(path))


@pytest.fixture(scope="module")
def told() -> dict[str, Outcome]:
    """Worlds with their traces, by seed: a world takes seconds, and two tests look at these."""
    return {seed: simulate(TrainJobs(), seed, keep=True) for seed in ("7", "11")}


def test_a_seed_is_the_same_in_every_process(told: dict[str, Outcome]) -> None:
    """In this process and in another one with different hashes of texts; the first line that differs is named."""
    program = (
        "from tests.simulation.scenario import TrainJobs\n"
        "from trainwright.controller.simulation.simulate import simulate\n"
        "print(hash('a text'))\n"
        f"for seed in {tuple(told)}:\n"
        "    print(*simulate(TrainJobs(), seed, keep=True).lines, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    hashed, *other = done.stdout.splitlines()
    assert hashed != str(hash("a text"))
    one = [line for outcome in told.values() for line in "\n".join(outcome.lines).splitlines()]
    differing = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), None)
    assert differing is None
    assert len(one) == len(other) > 1000


def test_the_story_of_a_life_is_told_in_sentences(told: dict[str, Outcome]) -> None:
    story = list(story_of(told["7"], "j3"))
    assert any("a user: create j3" in line for line in story)
    assert any("jobsets j3 appears" in line for line in story)
    assert not any(" j4" in line for line in story)


def test_the_command_lives_worlds_in_several_processes() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds=11-12", "--jobs=2", "--quiet"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 worlds, ")
