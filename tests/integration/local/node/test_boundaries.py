# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in one pod ends that pod alone: some rounds of `tests.soak.boundaries`, which has a thousand."""

from pathlib import Path

import pytest

from tests.soak import boundaries

ROUNDS = {"worker": 3, "anywhere": 3, "node": 3, "release": 1, "guard": 3}
"""Of each boundary that needs no file system of its own; four pods at a time."""


@pytest.mark.parametrize("name", ROUNDS)
async def test_a_boundary_holds(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = range(1, ROUNDS[name] + 1)
    wrong = await boundaries.run(rounds, float("inf"), seed=1, folder=tmp_path, names=[name])
    assert not wrong, capsys.readouterr().out
