# SPDX-License-Identifier: Apache-2.0
"""Simulated worlds whose jobs recover: under all faults, the record never says less than Kubernetes has counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.recovering import Recovering
from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.simulate import Outcome

Simulated = Callable[[Any, str | ScenarioPlan], Outcome]
SEEDS = (2003, 2005, 2006, 2013)
"""Most of them found what is mended now."""
HANGING = (3, 8)
"""Found that a hang was charged to the next attempt, and that ranks which had ended kept it from beginning."""
PLANS = sorted((Path(__file__).parent / "plans" / "recovering").glob("*.json"))
_WORLDS = 2
"""Of a test."""


@pytest.mark.parametrize("first", SEEDS[::_WORLDS])
def test_worlds_whose_jobs_recover(simulated: Simulated, first: int) -> None:
    at = SEEDS.index(first)
    for seed in SEEDS[at : at + _WORLDS]:
        simulated(Recovering(hangs=False), str(seed))


@pytest.mark.parametrize("seed", HANGING)
def test_worlds_whose_ranks_hang(simulated: Simulated, seed: int) -> None:
    outcome = simulated(Recovering(), str(seed))
    assert outcome.counts["sometimes: a hang is charged"]


@pytest.mark.parametrize("path", PLANS, ids=[path.stem for path in PLANS])
def test_plans_that_found_what_is_mended_now(simulated: Simulated, path: Path) -> None:
    simulated(Recovering(), ScenarioPlan.read(path))
