# SPDX-License-Identifier: Apache-2.0
"""What a seed decides."""

import random

from trainwright.controller.simulation.plan import CHAOS_SECONDS, Step, drawn_steps

TARGETS = [f"t{number}" for number in range(12)]


def steps_of(seed: int, clean_up: str) -> list[Step]:
    actions, machines = {"edit": 1.0}, {"kill-manager": 1.0}
    return drawn_steps(random.Random(seed), TARGETS, actions, machines, replicas=1, clean_up=clean_up)


def test_in_some_worlds_some_targets_are_deleted_at_the_end() -> None:
    """Others stay, so that a fresh look has something to compare."""
    deleted = [[step for step in steps_of(seed, "delete") if step.what == "delete"] for seed in range(60)]
    tidy = [found for found in deleted if found]
    assert 5 < len(tidy) < 40
    assert all(len({step.on for step in found}) == len(found) for found in tidy)
    assert any(len(found) < len(TARGETS) for found in tidy)
    assert all(CHAOS_SECONDS - 30 < step.at <= CHAOS_SECONDS for found in tidy for step in found)


def test_nothing_is_deleted_where_no_action_does_it() -> None:
    assert not [step for seed in range(30) for step in steps_of(seed, "") if step.what == "delete"]
