# SPDX-License-Identifier: Apache-2.0
"""Groups start in order and stop in reverse, within one time limit."""

import asyncio

import pytest

from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.manager.supervisor import GraceExceeded, Group, Supervisor
from trainwright.controller.runtime.tasks import TaskScope, together
from trainwright.controller.runtime.testing.clock import jumping, settle


def now() -> float:
    return asyncio.get_running_loop().time()


class Plain:
    """Runs until cancelled, and notes when."""

    def __init__(self, name: str, journal: list[str]) -> None:
        self.name = name
        self.journal = journal

    async def run(self) -> None:
        self.journal.append(f"+{self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            self.journal.append(f"-{self.name}")


class Gentle(Plain):
    """Needs time to finish once asked."""

    def __init__(self, name: str, journal: list[str], seconds: float) -> None:
        super().__init__(name, journal)
        self.seconds = seconds
        self.asked = asyncio.Event()

    def request_stop(self) -> None:
        self.asked.set()

    async def run(self) -> None:
        self.journal.append(f"+{self.name}")
        await self.asked.wait()
        await asyncio.sleep(self.seconds)
        self.journal.append(f"-{self.name}")


class Stubborn:
    """Ignores its cancellation until it is let go."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def run(self) -> None:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue


class Untidy:
    """A task of it fails as it is cancelled."""

    async def run(self) -> None:
        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise ConnectionError("reset")

        await together("untidy", work())


class Failing:
    async def run(self) -> None:
        await asyncio.sleep(1)
        raise ValueError("broken")


@jumping
async def test_groups_start_in_order_and_end_in_reverse() -> None:
    journal: list[str] = []
    supervisor = Supervisor()
    for group in (Group.LEADER, Group.CACHES, Group.SERVERS, Group.OTHERS, Group.WEBHOOKS):
        supervisor.add(Plain(group.name.lower(), journal), group, group.name.lower())
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    assert supervisor.running() == [
        "servers/servers",
        "webhooks/webhooks",
        "caches/caches",
        "others/others",
        "leader/leader",
    ]
    supervisor.stop()
    supervisor.stop()
    await task
    up = ["+servers", "+webhooks", "+caches", "+others", "+leader"]
    assert journal == up + [name.replace("+", "-") for name in reversed(up)]


@jumping
async def test_a_failure_stops_the_rest_in_order_and_is_raised() -> None:
    journal: list[str] = []
    supervisor = Supervisor()
    supervisor.add(Plain("cache", journal), Group.CACHES)
    supervisor.add(Gentle("sibling", journal, 5), Group.OTHERS)
    supervisor.add(Failing(), Group.OTHERS, "failing")
    with pytest.raises(ValueError, match="broken"):
        await supervisor.run()
    assert journal == ["+cache", "+sibling", "-sibling", "-cache"]
    assert now() == 6


class CancelledInside:
    async def run(self) -> None:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner


@jumping
async def test_a_member_that_was_cancelled_from_within_is_missed() -> None:
    journal: list[str] = []
    supervisor = Supervisor()
    supervisor.add(Plain("cache", journal), Group.CACHES)
    supervisor.add(CancelledInside(), Group.OTHERS)
    with pytest.raises(RuntimeError, match="cancelled, but not by its supervisor"):
        await supervisor.run()
    assert journal == ["+cache", "-cache"]


@jumping
async def test_the_budget_is_shared_and_bounds_the_end() -> None:
    journal: list[str] = []
    supervisor = Supervisor(grace=30)
    supervisor.add(Gentle("slow", journal, 20), Group.LEADER)
    supervisor.add(Gentle("too-slow", journal, 20), Group.OTHERS, "too-slow")
    stubborn = Stubborn()
    supervisor.add(stubborn, Group.CACHES, "stubborn")
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    supervisor.stop()
    with pytest.raises(GraceExceeded, match=r"grace period of 30 s: too-slow, stubborn"):
        await task
    assert 30 <= now() <= 33
    assert journal == ["+too-slow", "+slow", "-slow"]
    stubborn.release.set()


@jumping
async def test_no_grace_means_no_waiting_and_no_error() -> None:
    supervisor = Supervisor(grace=0)
    supervisor.add(Gentle("slow", [], 20), Group.OTHERS)
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    supervisor.stop()
    await task
    assert now() == 0


@jumping
async def test_what_is_added_late_runs_at_once_or_is_refused() -> None:
    journal: list[str] = []
    supervisor = Supervisor()
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    supervisor.add(Plain("late", journal), Group.OTHERS)
    await settle()
    assert journal == ["+late"]
    supervisor.stop()
    await task
    with pytest.raises(ConfigurationError, match="the process is stopping"):
        supervisor.add(Plain("later", journal), Group.OTHERS)
    with pytest.raises(ConfigurationError, match="runs once"):
        await supervisor.run()


@jumping
async def test_leaders_wait_until_elected_and_a_stop_does_not() -> None:
    journal: list[str] = []
    elected = asyncio.Event()

    async def before(group: Group) -> None:
        if group is Group.LEADER:
            await elected.wait()

    for elect in (True, False):
        journal.clear()
        elected.clear()
        supervisor = Supervisor(before=before)
        supervisor.add(Plain("leader", journal), Group.LEADER)
        supervisor.add(Plain("other", journal), Group.OTHERS)
        task = asyncio.ensure_future(supervisor.run())
        await settle()
        assert journal == ["+other"]
        if elect:
            elected.set()
            await settle()
            assert journal == ["+other", "+leader"]
        supervisor.stop()
        await task


@jumping
@pytest.mark.parametrize("ends", ["stopped", "cancelled", "drained"])
async def test_a_cancellation_while_it_stops_leaves_nothing_behind(ends: str) -> None:
    journal: list[str] = []
    supervisor = Supervisor(drain=10 if ends == "drained" else 0)
    supervisor.add(Plain("metrics", journal), Group.SERVERS)
    supervisor.add(Gentle("others", journal, 20), Group.OTHERS)
    supervisor.add(Gentle("leader", journal, 1 if ends == "drained" else 20), Group.LEADER)
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    if ends == "cancelled":
        task.cancel()
    else:
        supervisor.stop()
    await asyncio.sleep(5)
    assert supervisor.running()
    begin = now()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() - begin < 1
    assert supervisor.running() == []
    assert "-metrics" in journal
    assert asyncio.all_tasks() == {asyncio.current_task()}


@jumping
async def test_cancelling_the_whole_ends_everything() -> None:
    journal: list[str] = []
    supervisor = Supervisor()
    supervisor.add(Gentle("gentle", journal, 2), Group.OTHERS)
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert journal == ["+gentle", "-gentle"]


@jumping
async def test_what_fails_as_it_is_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor()
    supervisor.add(Untidy(), Group.OTHERS, "untidy")
    task = asyncio.ensure_future(supervisor.run())
    await settle()
    supervisor.stop()
    await task
    assert [record.getMessage() for record in caplog.records] == ["untidy failed while stopping: reset"]


@jumping
async def test_scopes_raise_the_error_itself() -> None:
    async def fail(text: str) -> None:
        raise ValueError(text)

    async def both() -> None:
        async with TaskScope("scope") as tasks:
            tasks.start("a", fail("first"))
            tasks.start("b", fail("second"))
            await asyncio.sleep(1)

    with pytest.raises(ValueError, match="first") as caught:
        await both()
    assert caught.value.__notes__ == ["also failed: ValueError: second"]

    async def give(value: int) -> int:
        await asyncio.sleep(value)
        return value

    assert await together("three", give(3), give(1), give(2)) == [3, 1, 2]
    assert now() == 3


class Served(Plain):
    """Notes when it is asked to drain."""

    def begin_drain(self) -> None:
        self.journal.append(f"drain {self.name}")


@jumping
async def test_servers_go_on_for_the_time_of_the_drain_which_is_a_part_of_the_grace() -> None:
    for grace, drain, seconds in [(30.0, 5.0, 5.0), (3.0, 5.0, 3.0), (0.0, 5.0, 0.0), (30.0, 0.0, 0.0)]:
        journal: list[str] = []
        supervisor = Supervisor(grace=grace, drain=drain)
        supervisor.add(Served("web", journal), Group.WEBHOOKS)
        supervisor.add(Plain("leader", journal), Group.LEADER)
        running = asyncio.ensure_future(supervisor.run())
        await settle()
        begun = now()
        supervisor.stop()
        await running
        asked = ["drain web"] if seconds else []
        assert journal == ["+web", "+leader", *asked, "-leader", "-web"]
        assert now() == begun + seconds


@jumping
async def test_leader_elected_work_that_needs_longer_than_the_drain_is_waited_for_once() -> None:
    journal: list[str] = []
    supervisor = Supervisor(grace=30.0, drain=5.0)
    supervisor.add(Served("web", journal), Group.WEBHOOKS)
    supervisor.add(Gentle("leader", journal, 8.0), Group.LEADER)
    running = asyncio.ensure_future(supervisor.run())
    await settle()
    begun = now()
    supervisor.stop()
    await running
    assert journal[-3:] == ["drain web", "-leader", "-web"]
    assert now() == begun + 8.0
