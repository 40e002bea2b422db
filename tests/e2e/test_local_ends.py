# SPDX-License-Identifier: Apache-2.0
"""A few rounds of the soak about ends: the exit code of the first rank that failed, and its whole traceback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.ends import Cluster, round_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that ends with the module."""
    # Short: the path of a socket has at most 107 bytes.
    made = Cluster(Path(tmp_path_factory.mktemp("ends")))
    assert made.call("up").returncode == 0
    yield made
    assert made.call("down", "--delete").returncode == 0


@pytest.mark.parametrize(
    ("number", "order", "apart"),
    [(1, [0], False), (2, [1, 0], False), (3, [2, 0, 3, 1], True)],
    ids=["one node", "two nodes at once", "four nodes a millisecond apart"],
)
def test_the_rank_that_failed_first_is_told_with_its_traceback(
    cluster: Cluster, number: int, order: list[int], *, apart: bool
) -> None:
    assert round_of(cluster, number, len(order), order, apart=apart) == ""
