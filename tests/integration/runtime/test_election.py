# SPDX-License-Identifier: Apache-2.0
"""Two replicas as processes, and one Lease: there are never two writers, however the leader ends.

Every replica writes as fast as it can and ignores errors. The audit log shows who wrote when. The durations are short
here; simulated worlds have the default ones, and cut the wire between a leader and the API server, which restarts.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integration.runtime.conftest import quiet_manager
from tests.integration.runtime.elections import SHORT, Election
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.errors import LeadershipLost
from trainwright.controller.runtime.leaderelection.elector import LeaderElector
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually


@pytest.fixture
def election(control_plane: ControlPlane, namespace: str) -> Iterator[Election]:
    """An election whose replicas are gone after the test."""
    before = set(control_plane.components)
    yield Election(control_plane, namespace, SHORT)
    for name in set(control_plane.components) - before:
        control_plane.stop_program(name, kill=True)


async def start_two(election: Election) -> tuple[str, str]:
    """A leader that writes and a standby that has seen the Lease."""
    a, b = f"a-{election.namespace}", f"b-{election.namespace}"
    election.start(a)
    await election.wait_writes(a, more=20)
    election.start(b)
    await election.wait_stands(b)
    return a, b


async def test_killed_leader_is_followed(election: Election) -> None:
    a, b = await start_two(election)
    election.control_plane.stop_program(a, kill=True)
    await election.wait_writes(b, more=20)
    assert election.turns() == [a, b]
    assert election.gap(a, b) >= SHORT.lease
    assert election.lease()["leaseTransitions"] == 1


async def test_stopped_leader_writes_nothing_when_it_goes_on(election: Election) -> None:
    a, b = await start_two(election)
    component = election.control_plane.components[a]
    pid = component.program_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await election.wait_writes(b, more=20)
    finally:
        with suppress(ProcessLookupError):  # the kernel has ended it, stopped as it was
            os.kill(pid, signal.SIGCONT)
    await eventually(lambda: not component.running, what="the old leader ends")
    await election.wait_writes(b, more=20)
    assert election.turns() == [a, b]


async def test_orderly_end_releases_after_the_last_write(election: Election) -> None:
    a, b = await start_two(election)
    component = election.control_plane.components[a]
    os.kill(component.program_pid, signal.SIGTERM)
    await eventually(lambda: not component.running, what="the leader ends")
    await election.wait_writes(b, more=20)
    assert election.turns() == [a, b]
    release = max(call.time for call in election.lease_calls(a) if call.verb == "patch")
    assert max(call.time for call in election.writes(a)) < release < min(call.time for call in election.writes(b))


# ---------------------------------------------------------------------- in this process


class Once:
    """Leader-elected work that says when it begins."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def run(self) -> None:
        self.began.set()
        await asyncio.Event().wait()


PATIENT, IMPATIENT = Timing(lease=30.0, renew=20.0, retry=0.2), Timing(lease=2.0, renew=1.0, retry=0.2)
"""The first loses no lease because a machine is busy; the second is for those who wait for its end."""


def elector(
    config: ClusterConfig, namespace: str, name: str, aborted: list[str], timing: Timing = IMPATIENT
) -> LeaderElector:
    return LeaderElector(config, "lease", namespace, identity=name, timing=timing, abort=aborted.append)


async def test_lost_lease_stops_a_process_whose_lease_somebody_else_took(
    config: ClusterConfig, namespace: str, client: Client
) -> None:
    manager = quiet_manager(config, elector=elector(config, namespace, "robbed", [], PATIENT))
    work = Once()
    manager.add(work, Group.LEADER)
    running = asyncio.ensure_future(manager.run())
    await work.began.wait()
    await client.patch(Lease, "lease", namespace, {"spec": {"holderIdentity": "robber"}})
    with pytest.raises(LeadershipLost, match="robber holds the lease"):
        await running


async def test_process_that_does_not_end_after_a_loss_is_ended(
    config: ClusterConfig, namespace: str, client: Client
) -> None:
    aborted: list[str] = []
    stood = elector(config, namespace, "deaf", aborted)
    await stood.wait_elected()
    await client.patch(Lease, "lease", namespace, {"spec": {"holderIdentity": "robber"}})
    assert await stood.wait_lost() == "robber holds the lease"
    assert "lost the lease" in (stood.unready() or "")
    await eventually(lambda: aborted, what="the thread ends the process")
    await stood.close(release=True)
    lease = await client.get(Lease, "lease", namespace)
    assert lease.spec is not None
    assert lease.spec.holder_identity == "robber"
    with pytest.raises(LeadershipLost):
        await stood.wait_elected()


async def test_lease_that_cannot_be_reached_is_told_by_readiness(config: ClusterConfig) -> None:
    stood = elector(config, "no-such-namespace", "lost", [])
    waiting = asyncio.ensure_future(stood.wait_elected())
    await eventually(stood.unready, what="readiness says why")
    assert "no-such-namespace" in (stood.unready() or "")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await stood.close(release=True)
