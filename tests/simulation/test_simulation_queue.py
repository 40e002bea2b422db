# SPDX-License-Identifier: Apache-2.0
"""Simulated worlds whose jobs wait in a queue: Kueue admits, evicts and requeues them in an order that a seed draws."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.queueing import Queueing
from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.simulate import Outcome

Simulated = Callable[[Any, str | ScenarioPlan], Outcome]


@pytest.mark.parametrize("seed", [2, 6])
def test_worlds_whose_jobs_wait_in_a_queue(simulated: Simulated, seed: int) -> None:
    """Nothing but Kueue disturbs in that of seed 6: it finds each defect that is planted for a queue."""
    outcome = simulated(Queueing(), str(seed))
    for met in ("a job is preempted", "a JobSet is resumed"):
        assert outcome.counts[f"sometimes: {met}"]
