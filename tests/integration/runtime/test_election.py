# SPDX-License-Identifier: Apache-2.0
"""Two replicas, one Lease, a real API server: there are never two writers, whatever happens to the leader.

Every replica writes as fast as it can and ignores errors. The audit log shows who wrote when. The durations are short
here; simulated worlds have the default ones.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.integration.runtime.conftest import quiet_manager
from tests.integration.runtime.elections import SHORT, Election, Wire
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import Client, ClusterConfig, Manager
from trainwright.controller.runtime.errors import LeadershipLost, NotLeading
from trainwright.controller.runtime.leaderelection.elector import LeaderElector
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import at_least, eventually


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


async def test_leader_behind_a_cut_wire_ends_itself(election: Election) -> None:
    plane = election.control_plane
    a, b = f"a-{election.namespace}", f"b-{election.namespace}"
    port = urlsplit(plane.url).port
    assert port is not None
    async with Wire(port).running() as wire:
        server = f"https://127.0.0.1:{wire.port}"
        kubeconfig = plane.users.kubeconfig_with_token(a, plane.token, server=server)
        component = election.start(a, kubeconfig=kubeconfig)
        await election.wait_writes(a, more=20)
        election.start(b)
        await election.wait_stands(b)
        wire.cut()
        await election.wait_writes(b, more=20)
        await eventually(lambda: not component.running, what="the old leader ends")
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


async def test_restart_of_the_api_server_makes_no_second_writer(own_control_plane: ControlPlane) -> None:
    election = Election(own_control_plane, own_control_plane.create_namespace(), Timing())
    a, _ = await start_two(election)
    await asyncio.to_thread(own_control_plane.restart, "kube-apiserver", kill=True)
    seen = sum(1 for _ in election.writes())
    await eventually(lambda: sum(1 for _ in election.writes()), at_least(seen + 21), what="a replica writes")
    turns = election.turns()
    assert turns[0] == a
    assert len(turns) == len(set(turns))


# ---------------------------------------------------------------------- in this process


class Once:
    """Leader-elected work that keeps what happened to its one write."""

    def __init__(self, manager: Manager, namespace: str) -> None:
        self._client = manager.client
        self._namespace = namespace
        self.block = 0.0
        self.errors: list[Exception] = []
        self.wrote = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._create("before")
            self.wrote.set()
            await self.go.wait()
            time.sleep(self.block)  # noqa: ASYNC251 - the very thing that is tested: a loop that is blocked
            await self._create("after")
        except NotLeading as error:
            self.errors.append(error)
        await asyncio.Event().wait()

    async def _create(self, name: str) -> None:
        await self._client.create({"metadata": {"name": name, "namespace": self._namespace}}, kind=ConfigMap.RESOURCE)


PATIENT, IMPATIENT = Timing(lease=30.0, renew=20.0, retry=0.2), Timing(lease=2.0, renew=1.0, retry=0.2)
"""The first loses no lease because a machine is busy; the second is for those who wait for its end."""


def elector(
    config: ClusterConfig, namespace: str, name: str, aborted: list[str], timing: Timing = IMPATIENT
) -> LeaderElector:
    return LeaderElector(config, "lease", namespace, identity=name, timing=timing, abort=aborted.append)


async def test_blocked_loop_loses_and_what_it_writes_next_is_refused(
    config: ClusterConfig, namespace: str, client: Client
) -> None:
    aborted: list[str] = []
    manager = quiet_manager(config, elector=elector(config, namespace, "blocked", aborted))
    work = Once(manager, namespace)
    work.block = 3.0
    manager.add(work, Group.LEADER)
    running = asyncio.ensure_future(manager.run())
    await work.wrote.wait()
    work.go.set()
    with pytest.raises(LeadershipLost):
        await running
    assert [type(error) for error in work.errors] == [NotLeading]
    assert [c.name for c in (await client.list(ConfigMap, namespace)).items if c.name in {"before", "after"}] == [
        "before"
    ]
    assert not aborted
    lease = await client.get(Lease, "lease", namespace)
    assert lease.spec is not None
    assert lease.spec.holder_identity == "blocked", "a lease that was lost is not given back"


async def test_only_leader_elected_work_is_fenced(config: ClusterConfig, namespace: str, client: Client) -> None:
    first = quiet_manager(config, elector=elector(config, namespace, "first", [], PATIENT))
    second = quiet_manager(config, elector=elector(config, namespace, "second", [], PATIENT))
    standby = Once(second, namespace)
    second.add(standby, Group.OTHERS)
    led = asyncio.Event()

    class Lead:
        async def run(self) -> None:
            led.set()

    first.add(Lead(), Group.LEADER)
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(first.run())
        await led.wait()
        two = tasks.create_task(second.run())
        await standby.wrote.wait()
        assert b'leader_election_master_status{name="lease"} 1.0' in first.metrics.render()
        assert b'leader_election_master_status{name="lease"} 0.0' in second.metrics.render()
        assert await second.readyz.run(only="leader-election") == {"leader-election": True}
        second.stop()
        await two
        first.stop()
        await one
    lease = await client.get(Lease, "lease", namespace)
    assert lease.spec is not None
    assert lease.spec.holder_identity == ""


async def test_lost_lease_stops_a_process_whose_lease_somebody_else_took(
    config: ClusterConfig, namespace: str, client: Client
) -> None:
    manager = quiet_manager(config, elector=elector(config, namespace, "robbed", [], PATIENT))
    work = Once(manager, namespace)
    manager.add(work, Group.LEADER)
    running = asyncio.ensure_future(manager.run())
    await work.wrote.wait()
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
