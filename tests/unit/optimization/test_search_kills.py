# SPDX-License-Identifier: Apache-2.0
"""The manager is killed at each write of a search, before or after it is carried out: the same trials, none twice."""

from collections import Counter
from typing import Any

import pytest

from tests.repository import ROOT
from tests.unit.optimization.conftest import Search
from trainwright.api.objects import Document
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.simulation.virtual import VirtualCluster

CRDS = ROOT / "config" / "crd"
TRIALS = 4
PARTS = 4
"""Of the writes, so that no test takes long."""
OURS = ("/optimizationjobs/s/status", "/configmaps", "/configmaps/s-trials")


def is_ours(request: Request) -> bool:
    """Whether the operator of searches sent this write; TrainJobs it only creates."""
    if request.method in ("GET", "HEAD"):
        return False
    if request.path.endswith("/configmaps"):
        return b"s-trials" in (request.body or b"")
    created = request.method == "POST" and request.path.endswith("/trainjobs")
    return created or request.path.endswith(OURS)


def searched(search: Search, kill_at: int = 0, *, done: bool = False) -> tuple[int, list[Any]]:
    """Run a search with a kill at that write of the operator; how many writes there were, and what became of it."""
    writes = 0

    def meet(process: str, request: Request) -> None:
        nonlocal writes
        if not process.startswith("manager-") or not is_ours(request):
            return
        writes += 1
        if writes == kill_at:
            replica = search.cluster.world.replicas[-1]
            assert replica.process is not None
            replica.process.network.cut_off()
            search.cluster.world.start("kill", search.cluster.world.kill(replica))
            if not done:
                raise Unreachable(f"{request}: killed before (simulated)")

    search.cluster.world.hooks.request.append(meet)
    search.start()
    search.job(numTrials=TRIALS, parallelTrials=2)
    ended: set[str] = set()
    for _ in range(60):
        restart(search)
        waiting = [name for name in search.running() if name not in ended]
        if not waiting:
            if "Complete" in search.conditions:
                break
            search.advance(5)
            continue
        name = waiting[0]
        ended.add(name)
        # The first trial fails.
        search.ends(name, None if name == "s-1" else search.parameters(the(search, name))["x"])
    restart(search)
    made = Counter(one.object["metadata"]["name"] for one in search.created if one.type == "ADDED")
    assert set(made.values()) == {1}
    assert search.most <= 2
    status = search.found["status"]
    return writes, [search.record, status["result"], search.columns, sorted(made)]


def restart(search: Search) -> None:
    """Start the manager again if it was killed."""
    search.advance(1)
    process = search.cluster.world.replicas[-1].process
    if process is not None and not process.is_up:
        search.start()
        search.advance(2)


def the(search: Search, name: str) -> Document:
    return next(one for one in search.trials() if one["metadata"]["name"] == name)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_manager_that_is_killed_makes_no_difference(done: bool, part: int) -> None:
    with VirtualCluster(crds=[CRDS]) as cluster:
        writes, expected = searched(Search(cluster))
    assert len(expected[0]) == TRIALS
    assert writes >= 3 * TRIALS
    for kill_at in range(1 + part, writes + 1, PARTS):
        with VirtualCluster(crds=[CRDS]) as cluster:
            _, found = searched(Search(cluster), kill_at, done=done)
            assert len(cluster.world.replicas) == 2
        assert found == expected, kill_at
