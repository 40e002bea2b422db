# SPDX-License-Identifier: Apache-2.0
"""The operator of docs/runtime/simulation.md, and its planted defect."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.simulate import Outcome, shrink, simulate

_FILE = Path(__file__).parents[3] / "docs" / "runtime" / "simulated_operator.py"


def scenario(*, remembers: bool) -> Any:
    spec = importlib.util.spec_from_file_location("simulated_operator", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CopiesScenario(remembers=remembers)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_an_operator_that_looks_at_what_is_there_has_no_failure(
    simulated: Callable[[Any, str | ScenarioPlan], Outcome], seed: str
) -> None:
    outcome = simulated(scenario(remembers=False), seed)
    assert outcome.counts["user"] > 3


@pytest.fixture(scope="module")
def found() -> Outcome:
    """The first world in which the planted defect shows."""
    defective = scenario(remembers=True)
    return next(found for seed in range(20) if (found := simulate(defective, str(seed))).broken)


def test_the_planted_defect_is_found_and_shrunk_to_two_steps(tmp_path: Path, found: Outcome) -> None:
    outcome = found
    defective = scenario(remembers=True)
    assert "fresh-build" in outcome.broken
    plan = shrink(defective, outcome.plan, "fresh-build")
    assert [step.what for step in plan.steps] == ["create", "delete-copy"]
    assert not plan.faults.active
    # What is written into a file is the same plan.
    (tmp_path / "plan.json").write_text(plan.text())
    again = simulate(defective, ScenarioPlan.read(tmp_path / "plan.json"))
    assert again.digest == simulate(defective, plan).digest
    assert again.broken == ["fresh-build"]


def test_the_fixture_fails_a_test_with_the_broken_rules(
    simulated: Callable[[Any, str | ScenarioPlan], Outcome], found: Outcome
) -> None:
    with pytest.raises(pytest.fail.Exception, match="fresh-build: a fresh process had to write ADDED configmaps"):
        simulated(scenario(remembers=True), found.plan)
