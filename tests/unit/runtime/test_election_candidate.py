# SPDX-License-Identifier: Apache-2.0
"""The rules of leader election on the jumping clock, with a Lease in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from trainwright.api.objects import Document
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    NotFound,
    NotLeading,
    Unreachable,
)
from trainwright.controller.runtime.leaderelection.candidate import Candidate, LeaseRecord
from trainwright.controller.runtime.leaderelection.fence import Fence, Timing
from trainwright.controller.runtime.testing.clock import jumping, settle

TIMING = Timing()
START = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryLock:
    """One Lease with optimistic locking; a test may break the way to it."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0
        self.broken = False
        self.hangs = False
        self.conflicts = 0
        self.writes: list[tuple[float, str]] = []

    async def _reach(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.broken:
            raise Unreachable("the network is cut")

    def store(self, spec: Document) -> LeaseRecord:
        self.version += 1
        self.record = LeaseRecord(
            str(self.version),
            spec["holderIdentity"],
            spec["leaseDurationSeconds"],
            spec["acquireTime"],
            spec["renewTime"],
            spec["leaseTransitions"],
        )
        self.writes.append((asyncio.get_running_loop().time(), spec["holderIdentity"]))
        return self.record

    async def read(self) -> LeaseRecord | None:
        await self._reach()
        return self.record

    async def create(self, spec: Document) -> LeaseRecord:
        await self._reach()
        if self.record is not None:
            raise AlreadyExists("leases exist", code=409)
        return self.store(spec)

    async def change(self, spec: Document, version: str) -> LeaseRecord:
        await self._reach()
        if self.record is None:
            raise NotFound("no lease", code=404)
        if self.conflicts or self.record.version != version:
            self.conflicts = max(0, self.conflicts - 1)
            raise Conflict("changed", code=409)
        return self.store(spec)


class Replica:
    def __init__(self, lock: MemoryLock, name: str, *, skew: timedelta = timedelta()) -> None:
        clock = asyncio.get_running_loop().time
        self.fence = Fence(TIMING, clock)
        self.candidate = Candidate(
            lock,
            name,
            self.fence,
            timing=TIMING,
            clock=clock,
            now=lambda: START + skew + timedelta(seconds=clock()),
            chance=lambda: 0.5,
        )
        self.led_at: float | None = None
        self.lost = ""
        self.task: asyncio.Task[None] | None = None

    async def live(self) -> None:
        await self.candidate.acquire()
        self.led_at = asyncio.get_running_loop().time()
        self.lost = await self.candidate.hold()

    def start(self) -> None:
        self.task = asyncio.ensure_future(self.live())

    async def kill(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def replicas(*started: Replica) -> AsyncIterator[None]:
    for replica in started:
        replica.start()
        await settle()
    try:
        yield
    finally:
        for replica in started:
            await replica.kill()


@jumping
async def test_first_leads_and_the_other_waits() -> None:
    lock = MemoryLock()
    a, b = Replica(lock, "a"), Replica(lock, "b")
    async with replicas(a, b):
        await asyncio.sleep(300)
        assert a.led_at == 0
        assert b.led_at is None
        assert {holder for _, holder in lock.writes} == {"a"}
        assert lock.record is not None
        assert lock.record.transitions == 0
        assert not b.fence.open
        # Renewals once per retry period, each one request.
        assert a.candidate.slow_renewals == 0
        assert len(lock.writes) == 1 + 300 / TIMING.retry


@jumping
async def test_killed_leader_is_followed_after_its_lease_and_not_before() -> None:
    lock = MemoryLock()
    a, b = Replica(lock, "a"), Replica(lock, "b")
    async with replicas(a, b):
        await asyncio.sleep(21)
        await a.kill()
        last = lock.writes[-1][0]
        await asyncio.sleep(60)
        assert b.led_at is not None
        assert TIMING.lease <= b.led_at - last <= TIMING.takeover
        assert not a.fence.open
        assert lock.record is not None
        assert lock.record.transitions == 1


@jumping
async def test_released_lease_is_taken_within_one_try() -> None:
    lock = MemoryLock()
    a, b = Replica(lock, "a"), Replica(lock, "b")
    async with replicas(a, b):
        await asyncio.sleep(21)
        await a.kill()
        assert await a.candidate.release()
        assert lock.record is not None
        assert lock.record.holder == ""
        assert not a.fence.open
        released = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        assert b.led_at is not None
        assert b.led_at - released <= TIMING.retry * 2.2


@jumping
async def test_release_is_tried_again_after_a_conflict_and_touches_no_other_leader() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        await a.kill()
        lock.conflicts = 1
        assert await a.candidate.release()
        assert lock.record is not None
        lock.record = replace(lock.record, holder="other", version="99")
        assert not await a.candidate.release()
        assert lock.record.holder == "other"


@jumping
async def test_unreachable_server_costs_leadership_at_the_renew_deadline() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        await asyncio.sleep(21)  # renewed at 20
        lock.broken = True
        await asyncio.sleep(8.5)
        assert not a.lost
        a.fence.check()
        await asyncio.sleep(1)
        with pytest.raises(NotLeading, match="may have expired"):
            a.fence.check()
        assert "the network is cut" in a.lost
        lock.broken = False
        await asyncio.sleep(60)
        assert not a.fence.open, "no second election in the process"


@jumping
async def test_silent_server_costs_leadership_at_the_same_moment() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        await asyncio.sleep(21)  # renewed at 20
        lock.hangs = True
        await asyncio.sleep(9.1)
        assert "no answer within" in a.lost
        assert not a.fence.open


@jumping
async def test_short_outage_is_survived() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        await asyncio.sleep(21)  # renewed at 20
        lock.broken = True
        await asyncio.sleep(6)
        lock.broken = False
        await asyncio.sleep(60)
        assert not a.lost
        assert a.fence.open


@jumping
async def test_one_conflict_makes_the_slow_way_and_costs_nothing() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        lock.conflicts = 1
        await asyncio.sleep(10)
        assert a.candidate.slow_renewals == 1
        assert a.fence.open
        assert lock.record is not None
        assert lock.record.transitions == 0


@jumping
async def test_clocks_an_hour_apart_do_not_matter() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a", skew=timedelta(hours=-1))
    b = Replica(lock, "b", skew=timedelta(hours=1))
    async with replicas(a, b):
        await asyncio.sleep(120)
        assert b.led_at is None
        assert a.fence.open


@jumping
async def test_leader_that_slept_finds_the_other_and_is_fenced_meanwhile() -> None:
    lock = MemoryLock()
    a, b = Replica(lock, "a"), Replica(lock, "b")
    async with replicas(a):
        await asyncio.sleep(5)
        await a.kill()  # as long as it is stopped, nothing of it runs; its fence still belongs to it
        async with replicas(b):
            await asyncio.sleep(40)
            assert b.led_at is not None
            assert not a.fence.open
            a.lost = await a.candidate.hold()
            assert "not renewed" in a.lost
            assert b.fence.open


@jumping
async def test_deleted_lease_ends_the_one_who_does_not_get_it_back() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    async with replicas(a):
        await asyncio.sleep(5)
        lock.record = None
        b = Replica(lock, "b")
        async with replicas(b):
            await asyncio.sleep(3)
            assert b.led_at is not None
            assert a.lost == "b holds the lease"


@jumping
async def test_blocked_loop_is_not_renewed_for() -> None:
    lock = MemoryLock()
    a = Replica(lock, "a")
    await a.candidate.acquire()
    lost = await a.candidate.hold(lambda: "the event loop has been blocked for 11.0 s")
    assert "blocked for 11.0 s" in lost
    assert asyncio.get_running_loop().time() == TIMING.renew
    assert len(lock.writes) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lease": 10.0, "renew": 10.0}, "must exceed the renew deadline 10 s"),
        ({"renew": 2.4, "retry": 2.0}, "must exceed 1.2 times"),
        ({"retry": 0.0}, "must be positive"),
        ({"lease": 0.5, "renew": 0.4, "retry": 0.1}, "must exceed"),
    ],
)
def test_timings_that_do_not_fit_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Timing(**values)


def test_default_takeover_is_what_the_documentation_says() -> None:
    assert TIMING.takeover == pytest.approx(15 + 2 * 4.4)


async def test_fence_before_the_first_renewal_lets_nothing_through() -> None:
    fence = Fence(TIMING, lambda: 5.0)
    with pytest.raises(NotLeading, match="does not lead"):
        fence.check()
    fence.renewed(5.0)
    fence.check()
    assert fence.remaining() == TIMING.lease
    fence.revoke()
    with pytest.raises(NotLeading, match="does not lead"):
        fence.check()
