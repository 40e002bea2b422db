# SPDX-License-Identifier: Apache-2.0
"""The local API server answers the scenarios of tests/scenarios as the real one did, except where that is declared."""

import pytest

from tests.scenarios import comparison, model, recordings
from tests.scenarios.normal import normal
from tests.scenarios.runner import Runner, ScenarioError
from tests.scenarios.sides import local_side
from trainwright.controller.runtime.testing.waiting import GaveUp

SCENARIOS = model.load_all()
OPEN = comparison.open_scenarios()
DECLARED = comparison.declared()
MOST_DECLARED = 10


async def differences(scenario: model.Scenario) -> list[comparison.Difference]:
    """From the recording."""
    expected = recordings.read(scenario.section)[scenario.number]
    try:
        async with local_side(memory=not scenario.own_server) as side:
            answers = normal(await Runner(side, scenario).run(), scenario.prefixes)
    except (ScenarioError, GaveUp) as error:
        return [comparison.Difference("0.run", scenario.title, "ran to its end", str(error))]
    return comparison.differences(expected, answers)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[str(one.number) for one in SCENARIOS])
async def test_scenario(scenario: model.Scenario) -> None:
    found, unused = comparison.undeclared(await differences(scenario), DECLARED.get(scenario.number, []))
    text = f"{scenario.number} {scenario.title}:\n" + "\n".join(str(one) for one in found)
    if scenario.number in OPEN:
        assert found, f"{scenario.number} agrees with the real server: take it off tests/scenarios/open.yaml"
        pytest.xfail(text)
    assert not found, text
    assert not unused, f"docs/local-differences.md declares differences that do not occur: {unused}"


def test_lists_name_known_scenarios() -> None:
    known = {one.number for one in SCENARIOS}
    assert len(known) == len(SCENARIOS), "two scenarios have one number"
    assert set(OPEN) <= known
    assert set(DECLARED) <= {*known, comparison.EVERYWHERE}


def test_few_differences_are_declared() -> None:
    assert len(DECLARED) <= MOST_DECLARED
