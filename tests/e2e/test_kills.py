# SPDX-License-Identifier: Apache-2.0
"""The manager is killed at each point of a TrainJob's life and started again: the same end, nothing twice or lost."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e.kills import POINTS, kill_everywhere
from trainwright.controller.runtime.testing import ControlPlane

pytestmark = pytest.mark.real_control_plane("the whole chain")


@pytest.fixture(scope="module")
def lives(pytestconfig: pytest.Config) -> Iterator[dict[str, list[str]]]:
    """All lives, several at once, in a cluster of their own: the shared one has a manager that looks after all."""
    with ControlPlane.complete(crds=[pytestconfig.rootpath / "config" / "crd"], audit=True) as plane:
        yield asyncio.run(kill_everywhere(plane, at_once=6))


@pytest.mark.parametrize("point", POINTS)
def test_a_manager_killed_there_makes_no_difference(lives: dict[str, list[str]], point: str) -> None:
    assert not lives[point], "\n".join(lives[point])
