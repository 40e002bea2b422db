# SPDX-License-Identifier: Apache-2.0
"""The list of scenarios is exact: all of them, and every place that it names is there."""

import re

import yaml

from tests.repository import ROOT

TESTS = ROOT / "tests"
CASES = {folder.name.partition("-")[0] for folder in (TESTS / "conformance" / "cases").iterdir()}


def holds(place: str) -> bool:
    """Whether a place of the list is there."""
    kind, _, name = place.partition(" ")
    if kind == "none:":
        return bool(name)
    if kind == "case":
        return name in CASES
    file, _, function = place.partition("::")
    path = TESTS / file if "/" in file else TESTS / "unit" / "plugins" / file
    return path.is_file() and bool(re.search(rf"^(async )?def {function}\(", path.read_text(), re.MULTILINE))


def test_every_scenario_names_places_that_are_there_or_a_reason() -> None:
    listed = yaml.safe_load((TESTS / "unit" / "plugins" / "scenarios.yaml").read_text())
    assert list(listed) == list(range(1, 184))
    places = {number: [place] if isinstance(place, str) else place for number, place in listed.items()}
    assert {number: place for number, found in places.items() for place in found if not holds(place)} == {}
