# SPDX-License-Identifier: Apache-2.0
"""The lease is released as soon as leader-elected work has ended, and never before."""

import asyncio
from collections.abc import Callable

import pytest

from trainwright.controller.runtime import NO_SERVERS, Manager, ProcessSettings
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import WritePermission
from trainwright.controller.runtime.errors import LeadershipLost
from trainwright.controller.runtime.leaderelection.fence import Fence, Timing
from trainwright.controller.runtime.leaderelection.statistics import ElectionStatistics
from trainwright.controller.runtime.manager.supervisor import GraceExceeded, Group
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import ScriptedTransport


class Lease:
    """An elector whose election the test decides."""

    def __init__(self, order: list[str]) -> None:
        self._order = order
        self.elected = asyncio.Event()
        self.lost = asyncio.Event()

    @property
    def permission(self) -> WritePermission:
        return Fence(Timing())

    @property
    def leads(self) -> bool:
        return self.elected.is_set() and not self.lost.is_set()

    def watch_loop(self, silence: Callable[[], float]) -> None:
        """The loop of a test is never watched."""

    async def wait_elected(self) -> None:
        await self.elected.wait()

    async def wait_lost(self) -> str:
        await self.lost.wait()
        return "somebody else holds the lease"

    async def close(self, *, release: bool) -> None:
        self._order.append("released" if release else "kept")
        self.lost.set()  # as the real one, which tells everybody that it has ended

    def unready(self) -> str | None:
        return None

    def statistics(self) -> ElectionStatistics:
        return ElectionStatistics("ns/lease", "me", self.elected.is_set(), "me", 0, None, 0, "")


class Member:
    """Notes its start and its end; may refuse to end for a while."""

    def __init__(self, name: str, order: list[str], *, deaf: bool = False) -> None:
        self._name = name
        self._order = order
        self._deaf = deaf
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self) -> None:
        self._order.append(f"+{self._name}")
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            while self._deaf and not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    continue
            raise
        finally:
            self._order.append(f"-{self._name}")
            self.ended.set()


class Failing:
    """Fails at once."""

    async def run(self) -> None:
        raise RuntimeError("no disk")


class Scene:
    """A manager with one member per group."""

    def __init__(self, *, deaf: bool = False, grace: float = 30.0, drain: float = 0.0) -> None:
        self.order: list[str] = []
        self.lease = Lease(self.order)
        self.manager = Manager(
            ClusterConfig(server="http://127.0.0.1:1"),
            transport=ScriptedTransport(),
            elector=self.lease,
            servers=NO_SERVERS,
            process=ProcessSettings(grace=grace, drain=drain),
        )
        self.members: dict[Group, Member] = {}
        for group in Group:
            self.members[group] = Member(group.name, self.order, deaf=deaf and group is Group.LEADER)
            self.manager.add(self.members[group], group, group.name.lower())


async def test_lease_is_released_once_leader_elected_work_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.OTHERS].begun.wait()
    assert "+LEADER" not in scene.order
    scene.lease.elected.set()
    await scene.members[Group.LEADER].begun.wait()
    scene.manager.stop()
    await running
    names = ["SERVERS", "WEBHOOKS", "CACHES", "OTHERS", "LEADER"]
    began, ended = [f"+{name}" for name in names], [f"-{name}" for name in reversed(names)]
    assert scene.order == [*began, ended[0], "released", *ended[1:]]
    assert not [record for record in caplog.records if record.levelname == "ERROR"], "to leave is not to lose"


@jumping
async def test_a_replica_that_drains_does_not_lead_and_is_not_ready() -> None:
    scene = Scene(drain=5.0)
    scene.lease.elected.set()
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.LEADER].begun.wait()
    assert await scene.manager.readyz.run(only="shutdown") == {"shutdown": True}
    stopped = loop.time()
    scene.manager.stop()
    assert await scene.manager.readyz.run(only="shutdown") == {"shutdown": False}
    await settle()
    assert scene.order[-2:] == ["-LEADER", "released"]
    assert loop.time() == stopped, "leader-elected work and the lease do not wait for the drain"
    await scene.members[Group.OTHERS].ended.wait()
    assert loop.time() == stopped + 5.0
    await running
    assert loop.time() == stopped + 5.0


@jumping
@pytest.mark.parametrize("reason", ["lost", "failed", "cancelled"])
async def test_a_stop_that_no_signal_asked_for_does_not_drain(reason: str) -> None:
    scene = Scene(drain=5.0)
    scene.lease.elected.set()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.LEADER].begun.wait()
    begun = asyncio.get_running_loop().time()
    if reason == "lost":
        scene.lease.lost.set()
    elif reason == "failed":
        scene.manager.add(Failing(), Group.OTHERS)
    else:
        running.cancel()
    with pytest.raises((LeadershipLost, RuntimeError, asyncio.CancelledError)):
        await running
    assert asyncio.get_running_loop().time() == begun


async def test_standby_that_never_led_ends_in_order() -> None:
    scene = Scene()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.OTHERS].begun.wait()
    scene.manager.stop()
    await running
    assert scene.order[-5:] == ["released", "-OTHERS", "-CACHES", "-WEBHOOKS", "-SERVERS"]
    assert "+LEADER" not in scene.order


async def test_lease_is_kept_while_work_still_runs() -> None:
    scene = Scene(deaf=True, grace=0.05)
    scene.lease.elected.set()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.LEADER].begun.wait()
    scene.manager.stop()
    with pytest.raises(GraceExceeded, match="leader"):
        await running
    assert "-LEADER" not in scene.order
    assert scene.order[-1] == "kept"
    scene.members[Group.LEADER].let_go.set()
    await scene.members[Group.LEADER].ended.wait()
    await asyncio.sleep(0)  # its task ends in the next turn of the loop


async def test_loss_ends_the_process_without_waiting_for_the_grace_period() -> None:
    scene = Scene(grace=3600.0)
    scene.lease.elected.set()
    running = asyncio.ensure_future(scene.manager.run())
    await scene.members[Group.LEADER].begun.wait()
    scene.lease.lost.set()
    with pytest.raises(LeadershipLost, match="somebody else"):
        await running
    assert scene.order[-6:-1] == ["-LEADER", "-OTHERS", "-CACHES", "-WEBHOOKS", "-SERVERS"]
