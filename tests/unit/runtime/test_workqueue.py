# SPDX-License-Identifier: Apache-2.0
"""The work queue, case by case and against a model."""

import asyncio
import random

import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.workqueue.limiters import (
    ExponentialLimiter,
    TokenBucket,
)
from trainwright.controller.runtime.workqueue.queue import LOW_PRIORITY, WorkQueue

Queue = WorkQueue[str]


def now() -> float:
    return asyncio.get_running_loop().time()


async def taken(queue: Queue) -> str | None:
    """The next key, which stays in process."""
    item = await queue.get()
    return item.key if item else None


async def order(queue: Queue, count: int) -> list[str]:
    keys = []
    for _ in range(count):
        item = await queue.get()
        assert item is not None
        queue.done(item.key)
        keys.append(item.key)
    return keys


@jumping
async def test_three_adds_are_one_key() -> None:
    queue = Queue()
    for reason in ("created", "changed", "changed"):
        queue.add("a", reason=reason)
    assert queue.statistics().adds == 1
    item = await queue.get()
    assert item is not None
    assert item.reasons == ("created", "changed")
    assert len(queue) == 0


@jumping
async def test_adds_while_processing_are_one_more_run() -> None:
    queue = Queue()
    queue.add("a")
    assert await taken(queue) == "a"
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 0
    assert queue.statistics().parked == 1
    queue.done("a")
    assert len(queue) == 1
    assert await order(queue, 1) == ["a"]
    assert len(queue) == 0


@jumping
async def test_a_key_is_never_with_two_workers() -> None:
    queue = Queue()
    queue.add("a")
    queue.add("b")
    assert await taken(queue) == "a"
    queue.add("a")
    assert await taken(queue) == "b"
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    assert not waiting.done()
    queue.done("a")
    item = await waiting
    assert item is not None
    assert item.key == "a"


@jumping
async def test_shutdown_drops_what_is_ready() -> None:
    queue = Queue()
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    assert [await taken(queue), await taken(queue)] == [None, None]
    queue.shut_down()


@jumping
async def test_shutdown_wakes_a_getter() -> None:
    queue = Queue()
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    queue.shut_down()
    assert await waiting is None


@jumping
async def test_drain_hands_out_what_is_ready_and_waits_for_it() -> None:
    queue = Queue()
    queue.add("a")
    queue.add("later", after=60)
    assert await taken(queue) == "a"
    queue.add("a")
    queue.add("b")
    draining = asyncio.ensure_future(queue.drain())
    await settle()
    queue.add("new")
    assert await order(queue, 1) == ["b"]
    queue.done("a")
    await settle()
    assert not draining.done()
    assert await order(queue, 1) == ["a"]
    await draining
    assert await taken(queue) is None


@jumping
async def test_shutdown_releases_a_drain() -> None:
    queue = Queue()
    queue.add("a")
    await queue.get()
    draining = asyncio.ensure_future(queue.drain())
    await settle()
    queue.shut_down()
    await draining
    assert now() == 0


@jumping
async def test_a_waiting_key_only_moves_earlier() -> None:
    for first, second in ((5, 1), (1, 5)):
        queue, start = Queue(), now()
        queue.add("a", after=first)
        queue.add("a", after=second)
        assert await order(queue, 1) == ["a"]
        assert now() - start == 1
        await asyncio.sleep(10)
        assert len(queue) == 0
    queue = Queue()
    queue.add("a", after=0)
    queue.add("b", after=-1)
    assert len(queue) == 2


@jumping
async def test_a_plain_add_replaces_a_waiting_entry() -> None:
    queue = Queue()
    queue.add("a", after=1)
    queue.add("a")
    assert await order(queue, 1) == ["a"]
    await asyncio.sleep(5)
    assert len(queue) == 0


@jumping
async def test_waiting_keys_are_lost_at_shutdown() -> None:
    queue = Queue()
    queue.add("a", after=1)
    queue.shut_down()
    await asyncio.sleep(5)
    assert queue.statistics().delayed == 0
    assert await queue.get() is None


def test_exponential_delays() -> None:
    limiter = ExponentialLimiter()
    delays = [limiter.delay("a") for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[17:] == [655.36, 1000.0, 1000.0]
    limiter.forget("a")
    assert len(limiter) == 0
    assert limiter.delay("a") == 0.005
    assert limiter.failures("a") == 1
    for _ in range(2000):
        last = limiter.delay("a")
        assert last <= 1000.0


def test_token_bucket_holds_back_after_its_burst() -> None:
    bucket = TokenBucket(10, 100, time=lambda: 0.0)
    assert [bucket.delay() for _ in range(100)] == [0.0] * 100
    assert bucket.delay() == 0.1


@jumping
async def test_high_priority_goes_first() -> None:
    queue = Queue(fairness=0)
    for n in range(1000):
        queue.add(f"old-{n}", priority=LOW_PRIORITY)
    queue.add("news")
    assert await taken(queue) == "news"


@jumping
async def test_low_priority_is_not_starved() -> None:
    queue = Queue(fairness=8)
    queue.add("patient", priority=LOW_PRIORITY)
    served = []
    for n in range(20):
        queue.add(f"news-{n}")
        served += await order(queue, 1)
    assert served.index("patient") < 8


@jumping
async def test_a_raised_key_goes_behind_its_equals() -> None:
    queue = Queue(fairness=0)
    for key, priority in (("a", 0), ("b", 0), ("c", 0), ("d", 5)):
        queue.add(key, priority=priority)
    queue.add("a", priority=5)
    queue.add("a", priority=-100)
    assert await order(queue, 4) == ["d", "a", "b", "c"]


@jumping
async def test_merging_takes_the_earlier_time_and_the_higher_priority() -> None:
    queue = Queue()
    queue.add("a", after=10, priority=0)
    queue.add("a", after=2, priority=1)
    item = await queue.get()
    assert item is not None
    assert (now(), item.priority) == (2, 1)


@jumping
async def test_delayed_keys_are_ordered_by_readiness() -> None:
    queue = Queue()
    queue.add("a", after=2)
    queue.add("b", after=1)
    await asyncio.sleep(3)
    queue.add("c")
    assert await order(queue, 3) == ["b", "a", "c"]


@jumping
async def test_a_bound_shortens_one_delay_and_keeps_the_failure_count() -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=ExponentialLimiter(base=1))
    assert [queue.add_rate_limited("a", at_most=3) for _ in range(4)] == [1, 2, 3, 3]
    assert queue.limiter.failures("a") == 4
    assert queue.add_rate_limited("a") == 16
    assert queue.add_rate_limited("b", at_most=0) == 0
    assert queue.add_rate_limited("b", at_most=-1) == 0
    assert await order(queue, 1) == ["b"]
    assert now() == 0
    assert await order(queue, 1) == ["a"]
    assert now() == 1


@jumping
async def test_locked_keys_do_not_hide_a_free_one() -> None:
    queue = Queue()
    for n in range(1000):
        queue.add(f"{n}")
        await queue.get()
        queue.add(f"{n}")
    queue.add("free")
    assert await taken(queue) == "free"


@jumping
async def test_a_cancelled_getter_gives_its_key_back() -> None:
    queue = Queue()
    getter = asyncio.ensure_future(queue.get())
    await settle()
    queue.add("a", priority=3, reason="created")
    getter.cancel()
    await asyncio.gather(getter, return_exceptions=True)
    item = await queue.get()
    assert item is not None
    assert (item.key, item.priority, item.reasons) == ("a", 3, ("created",))
    queue.done("a")
    assert queue.statistics().processing == 0


@jumping
async def test_all_getters_return_at_shutdown() -> None:
    dice = random.Random(7)
    for _ in range(200):
        queue = Queue()
        getters = [asyncio.ensure_future(queue.get()) for _ in range(16)]
        await settle()
        added = {f"{n}" for n in range(dice.randrange(12))}
        for key in added:
            queue.add(key)
        queue.shut_down()
        items = [item for item in await asyncio.gather(*getters) if item is not None]
        assert {item.key for item in items} == added
        for item in items:
            queue.done(item.key)
        await queue.wait_idle()


@jumping
async def test_statistics_tell_what_is_where() -> None:
    queue = Queue()
    queue.add("ready", priority=1)
    queue.add("waiting", after=30)
    queue.add("working", priority=9)
    assert await taken(queue) == "working"
    queue.add("working")
    await asyncio.sleep(4)
    statistics = queue.statistics()
    assert statistics.ready == {1: 1}
    assert (statistics.delayed, statistics.parked, statistics.processing) == (1, 1, 1)
    assert (statistics.oldest, statistics.longest_running, statistics.unfinished) == (4, 4, 4)
    assert statistics.depth == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "get", "done", "tick", "rate"]),
        st.integers(0, 5),
        st.integers(-2, 2),
        st.sampled_from([0.0, 0.0, 1.0, 3.0]),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_no_key_is_lost_or_doubled(steps: list[tuple[str, int, int, float]]) -> None:
    @jumping
    async def check() -> None:
        queue: WorkQueue[int] = WorkQueue(fairness=3)
        wanted: set[int] = set()
        working: set[int] = set()
        for action, key, priority, delay in steps:
            if action == "add":
                queue.add(key, priority=priority, after=delay)
                wanted.add(key)
            elif action == "rate":
                queue.add_rate_limited(key, priority=priority)
                wanted.add(key)
            elif action == "get" and len(queue):
                item = await queue.get()
                assert item is not None
                assert item.key not in working
                working.add(item.key)
                wanted.discard(item.key)
            elif action == "done" and working:
                queue.done(working.pop())
            elif action == "tick":
                await asyncio.sleep(delay)
            statistics = queue.statistics()
            assert statistics.processing == len(working)
            assert statistics.depth + statistics.delayed + statistics.parked == len(wanted)
            assert min(statistics.ready.values(), default=1) > 0
        for key in list(working):
            queue.done(key)
        while wanted:
            item = await queue.get()
            assert item is not None
            wanted.remove(item.key)
            queue.done(item.key)
        assert len(queue) == 0

    check()


@jumping
async def test_what_is_due_in_hours_again_and_again_does_not_pile_up() -> None:
    queue = Queue()
    queue.add("b", after=30_000)  # the head of the heap waits, so nothing behind it is looked at
    for _ in range(5000):
        queue.add("a", after=36_000)
        queue.add("a")
        item = await queue.get()
        assert item is not None
        queue.done("a")
    queue.add("a", after=36_000)
    assert queue.statistics().delayed == 2
    assert len(queue._delayed) < 200
    await asyncio.sleep(36_000)
    for name in ("b", "a"):
        item = await queue.get()
        assert item is not None
        assert item.key == name
        queue.done(name)
    assert queue.statistics().depth == 0


def test_what_is_due_in_no_time_does_not_stop_the_queue_on_uvloop() -> None:
    async def main() -> None:
        queue = Queue()
        # uvloop gives no timer for less than a millisecond.
        queue.add("later", after=1e-6)
        queue.add("sooner", after=1e-7)
        assert sorted([await taken(queue) or "", await taken(queue) or ""]) == ["later", "sooner"]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@jumping
async def test_delays_of_low_priority_end_together() -> None:
    queue: WorkQueue[str] = WorkQueue()
    now = asyncio.get_running_loop().time
    begin = now()
    for n in range(5):
        queue.add(f"low-{n}", priority=LOW_PRIORITY, after=1.0)
        await asyncio.sleep(0.01)
    queue.add("high", after=1.0)
    queue.add("short", priority=LOW_PRIORITY, after=0.03)
    took: dict[str, float] = {}
    for _ in range(7):
        item = await queue.get()
        assert item is not None
        took[item.key] = round(now() - begin, 6)
        queue.done(item.key)
    times = {took[f"low-{n}"] for n in range(5)}
    assert len(times) <= 2  # where the first delay ends exactly at a multiple, the others end at the next one
    assert all(1.0 <= time <= 1.15 for time in times)
    assert (took["high"], took["short"]) == (1.05, 0.08)
