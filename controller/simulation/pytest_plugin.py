# SPDX-License-Identifier: Apache-2.0
"""The fixtures `virtual_cluster`, a cluster of each test's own, and `simulated`, which runs the scenario of a seed.

The marker `virtual_cluster(controllers=…, crds=…, lives=…, seed=…)` says what the former is made of: see
`VirtualCluster` and docs/testing.md. For the latter see docs/runtime/simulation.md.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainwright.controller.simulation.plan import ScenarioPlan
    from trainwright.controller.simulation.simulate import Outcome, Scenario
    from trainwright.controller.simulation.virtual import VirtualCluster

_MARKER = "virtual_cluster"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARKER}(controllers=False, crds=…, lives=…, seed=…): what the fixture of that name is made of"
    )


@pytest.fixture
def virtual_cluster(request: pytest.FixtureRequest) -> "Iterator[VirtualCluster]":
    """A new cluster in virtual time with the project's CRDs: an API server alone, unless the marker says more."""
    from trainwright.controller.simulation.virtual import VirtualCluster  # noqa: PLC0415 - only if used

    marker = request.node.get_closest_marker(_MARKER)
    options = {"crds": request.config.getini("control_plane_crds"), **(marker.kwargs if marker else {})}
    with VirtualCluster(**options) as running:
        yield running


@pytest.fixture
def simulated() -> "Callable[[Scenario, str | ScenarioPlan], Outcome]":
    """Runs the scenario of a seed, or a plan. The test fails if a rule does not hold."""
    from trainwright.controller.simulation.simulate import simulate  # noqa: PLC0415 - only if used

    def run(scenario: "Scenario", seed: "str | ScenarioPlan") -> "Outcome":
        outcome = simulate(scenario, seed)
        if outcome.violations:
            broken = "\n".join(f"  {violation}" for violation in outcome.violations)
            pytest.fail(f"the scenario of seed {outcome.plan.seed} breaks rules:\n{broken}", pytrace=False)
        return outcome

    return run
