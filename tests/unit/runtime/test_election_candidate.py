# SPDX-License-Identifier: Apache-2.0
"""The rules of leader election on the jumping clock, with a Lease in memory."""

import asyncio
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


STORIES = {
    # Renewals once per retry period, each one request.
    "the first leads, and the other waits": "start a; start b; 300; a leads; b waits; 0 transitions; 151 writes by a; "
    "a slow 0",
    "a killed leader is followed after its lease, and not before": "start a; start b; 21; kill a; 60; a fenced; "
    "b leads; b led 15 to 23.8 after 20; 1 transitions",
    "a lease that is released is taken within one try": "start a; start b; 21; kill a; release a; a fenced; 60; "
    "b leads; b led 0 to 4.4 after 21",
    "a release is tried again after a conflict": "start a; kill a; conflict; release a",
    "a release touches no other leader": "start a; kill a; taken; keep a; held by other",
    "an API server that cannot be reached costs leadership at the renew deadline": "start a; 21; cut; 8.5; a leads; 1; "
    "a fenced; a lost the network is cut; mend; 60; a fenced",  # no second election in the process
    "a silent API server costs it at the same moment": "start a; 21; silent; 9.1; a lost no answer within; a fenced",
    "a short outage is survived": "start a; 21; cut; 6; mend; 60; a leads",
    "one conflict makes the slow way and costs nothing": "start a; conflict; 10; a slow 1; a leads; 0 transitions",
    "clocks that are an hour apart do not matter": "start a -1; start b 1; 120; b waits; a leads",
    "who does not get a deleted lease back has lost it": "start a; 5; deleted; start b; 3; b leads; "
    "a lost b holds the lease",
}
"""What happens to replicas, seconds that pass, and what is so then."""


class Story:
    """Replicas of one Lease, by name."""

    def __init__(self) -> None:
        self.lock = MemoryLock()
        self.replicas: dict[str, Replica] = {}

    async def go_on(self, *words: str) -> None:
        match words:
            case ("start", name, *hours):
                self.replicas[name] = Replica(self.lock, name, skew=timedelta(hours=sum(map(int, hours))))
                self.replicas[name].start()
                await settle()
            case ("kill", name):
                await self.replicas[name].kill()
            case ("release" | "keep" as how, name):
                assert await self.replicas[name].candidate.release() is (how == "release")
            case (change,) if change[0].isalpha():
                self.change(change)
            case (seconds,):
                await asyncio.sleep(float(seconds))
            case (name, check, *more) if name in self.replicas:
                self.check(self.replicas[name], check, *more)
            case _:
                self.check_lease(*words)

    def change(self, what: str) -> None:
        self.lock.broken = what == "cut"
        self.lock.hangs = what == "silent"
        self.lock.conflicts = int(what == "conflict")
        if what == "deleted":
            self.lock.record = None
        elif what == "taken":
            assert self.lock.record is not None
            self.lock.record = replace(self.lock.record, holder="other", version="99")

    def check(self, replica: Replica, what: str, *words: str) -> None:
        match what:
            case "leads":
                replica.fence.check()
                assert (replica.lost, replica.led_at is None) == ("", False)
            case "waits":
                assert (replica.fence.open, replica.led_at) == (False, None)
            case "fenced":
                with pytest.raises(NotLeading):
                    replica.fence.check()
            case "lost":
                assert " ".join(words) in replica.lost
            case "slow":
                assert replica.candidate.slow_renewals == int(words[0])
            case "led":
                assert replica.led_at is not None
                first, last, begin = map(float, words[::2])
                assert first <= replica.led_at - begin <= last

    def check_lease(self, *words: str) -> None:
        assert self.lock.record is not None
        match words:
            case (count, "transitions"):
                assert self.lock.record.transitions == int(count)
            case (count, "writes", "by", name):
                assert [holder for _, holder in self.lock.writes] == [name] * int(count)
            case ("held", "by", name):
                assert self.lock.record.holder == name
            case _:
                raise AssertionError(words)


@pytest.mark.parametrize("name", STORIES)
@jumping
async def test_who_leads(name: str) -> None:
    story = Story()
    try:
        for step in STORIES[name].split("; "):
            await story.go_on(*step.split())
    finally:
        for replica in story.replicas.values():
            await replica.kill()


@jumping
async def test_leader_that_slept_finds_the_other_and_is_fenced_meanwhile() -> None:
    lock = MemoryLock()
    a, b = Replica(lock, "a"), Replica(lock, "b")
    a.start()
    await asyncio.sleep(5)
    await a.kill()  # as long as it is stopped, nothing of it runs; its fence still belongs to it
    b.start()
    await asyncio.sleep(40)
    assert b.led_at is not None
    assert not a.fence.open
    a.lost = await a.candidate.hold()
    assert "not renewed" in a.lost
    assert b.fence.open
    await b.kill()


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
