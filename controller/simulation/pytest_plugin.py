# SPDX-License-Identifier: Apache-2.0
"""The fixture `simulated`, which runs the scenario of a seed. See docs/runtime/simulation.md."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainwright.controller.simulation.plan import Plan
    from trainwright.controller.simulation.simulate import Outcome, Scenario


@pytest.fixture
def simulated() -> "Callable[[Scenario, str | Plan], Outcome]":
    """Runs the scenario of a seed, or a plan. The test fails if a rule does not hold."""
    from trainwright.controller.simulation.simulate import simulate  # noqa: PLC0415 - only if used

    def run(scenario: "Scenario", seed: "str | Plan") -> "Outcome":
        outcome = simulate(scenario, seed)
        if outcome.violations:
            broken = "\n".join(f"  {violation}" for violation in outcome.violations)
            pytest.fail(f"the scenario of seed {outcome.plan.seed} breaks rules:\n{broken}", pytrace=False)
        return outcome

    return run
