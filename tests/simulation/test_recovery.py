# SPDX-License-Identifier: Apache-2.0
"""Simulated worlds whose jobs recover: under all faults, the record never says less than Kubernetes has counted."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.recovering import Recovering
from trainwright.controller.local.testing.simulation.plan import Plan
from trainwright.controller.local.testing.simulation.simulate import Outcome

Simulated = Callable[[Any, str | Plan], Outcome]
SEEDS = (2003, 2005, 2006, 2013)
"""Most of them found what is mended now."""
_WORLDS = 2
"""Of a test."""


@pytest.mark.parametrize("first", SEEDS[::_WORLDS])
def test_worlds_whose_jobs_recover(simulated: Simulated, first: int) -> None:
    at = SEEDS.index(first)
    for seed in SEEDS[at : at + _WORLDS]:
        simulated(Recovering(hangs=False), str(seed))
