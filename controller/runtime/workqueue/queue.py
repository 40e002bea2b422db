# SPDX-License-Identifier: Apache-2.0
"""The work queue: no key is processed twice at once, many events of a key become one run, and reasons are merged.

A key is ready, delayed, taken, or parked. A parked key was added again while a worker processes it; it becomes ready
when the worker is done. Higher priorities go first; equal ones in the order of arrival. One take in eight returns the
key that has waited longest, whatever its priority, so that no key starves. The limiter decides how long a failing key
waits; the controller decides what is retried.

All methods except `get`, `drain` and `wait_idle` are synchronous and belong to one event loop, so nothing runs between
their steps. Times are those of the loop.
"""

import asyncio
import heapq
import math
from bisect import insort
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from trainwright.controller.runtime.workqueue.limiters import ExponentialLimiter, Limiter

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""Priority of objects of a first list and of resyncs, which bring no change."""
TOGETHER_SECONDS = 0.1
"""Long delays of keys of low priority end at multiples of this, so that the process wakes once for many of them: the
first reconcile after a pause takes half as long again as those that follow at once."""
LONG_SECONDS = 0.5
_EXACT = 1e-6
"""So that a time that is a multiple stays the same."""
FAIRNESS = 8
"""One of this many takes returns the entry that has waited longest, whatever its priority."""
MAX_REASONS = 16
STALE_SLOTS = 64
"""The delay heap is swept when it has this many slots more than twice the delayed keys."""


@dataclass(slots=True, eq=False)
class QueueEntry(Generic[K]):
    """A key in the queue: delayed (`due` is set), ready (in a bucket), or parked until its own processing ends."""

    key: K
    priority: int
    sequence: int
    """Grows with each arrival; the smallest one has waited longest."""
    due: float | None = None
    ready_at: float = 0.0
    reasons: dict[str, None] = field(default_factory=dict)


class QueueItem(NamedTuple, Generic[K]):
    """A key that a worker has taken and not yet finished."""

    key: K
    priority: int
    reasons: tuple[str, ...]
    """Why the key was added, oldest first, each reason once."""
    waited: float
    """Seconds between ready and taken."""
    started: float


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot. Counters count from the start; times are in seconds."""

    ready: dict[int, int]
    """Ready keys by priority, without parked ones."""
    delayed: int
    parked: int
    """Keys that were added again while a worker processes them."""
    processing: int
    waiting_workers: int
    adds: int
    retries: int
    merged: int
    """Adds of keys that were already in the queue."""
    handed_out: int
    oldest: float
    """Waiting time of the oldest ready key."""
    longest_running: float
    unfinished: float
    """Sum of the processing times of all keys that are being processed."""
    shutting_down: bool

    @property
    def depth(self) -> int:
        return sum(self.ready.values())


class QueueObserver(Protocol):
    """Is told durations. Counts and depths are read from `statistics`."""

    def waited(self, seconds: float, /) -> None:
        """A worker took a key that had been ready for this long."""
        ...

    def worked(self, seconds: float, /) -> None:
        """A worker finished a key after this long."""
        ...


class WorkQueue(Generic[K]):
    """A de-duplicating, delaying, rate-limited queue with priorities."""

    def __init__(
        self,
        name: str = "",
        *,
        limiter: Limiter | None = None,
        fairness: int = FAIRNESS,
        observer: QueueObserver | None = None,
    ) -> None:
        """`fairness` 0: strictly by priority."""
        self.name = name
        self.limiter: Limiter = ExponentialLimiter() if limiter is None else limiter
        self._fairness = fairness
        self._observer = observer
        self._entries: dict[K, QueueEntry[K]] = {}
        self._parked: dict[K, QueueEntry[K]] = {}
        self._processing: dict[K, QueueItem[K]] = {}
        self._buckets: dict[int, dict[K, QueueEntry[K]]] = {}
        self._priorities: list[int] = []  # ascending, of buckets that are not empty
        self._delayed: list[tuple[float, int, QueueEntry[K]]] = []
        self._delayed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._getters: deque[asyncio.Future[QueueItem[K] | None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._sequence = 0
        self._adds = self._retries = self._merged = self._handed_out = 0
        self._clock: Callable[[], float] | None = None
        self._draining = False
        self._shut_down = False

    # ------------------------------------------------------------------ putting in

    def add(self, key: K, *, priority: int = 0, after: float = 0.0, reason: str = "") -> None:
        """Add a key, or merge it with its entry: the highest priority, the earliest time, all reasons.

        `after` is in seconds; 0 or less means now. A long delay of low priority may take TOGETHER_SECONDS more.
        Ignored while the queue shuts down.
        """
        if self._shut_down or self._draining:
            return
        due: float | None = None
        if after > 0:
            self._retries += 1
            due = self._now() + after
            if priority <= LOW_PRIORITY and after >= LONG_SECONDS:
                due = math.ceil(due / TOGETHER_SECONDS - _EXACT) * TOGETHER_SECONDS
        self._put(key, priority, due, reason)

    def add_rate_limited(self, key: K, *, priority: int = 0, at_most: float | None = None, reason: str = "") -> float:
        """Queue a key after the limiter's delay, or after `at_most` seconds if that is sooner. Returns the delay.

        The limiter counts a failure either way.
        """
        delay = self.limiter.delay(key)
        if at_most is not None:
            delay = min(delay, max(0.0, at_most))
        self.add(key, priority=priority, after=delay, reason=reason)
        return delay

    def forget(self, key: K) -> None:
        """Reset the limiter for a key. The key stays in the queue."""
        self.limiter.forget(key)

    def _put(self, key: K, priority: int, due: float | None, reason: str) -> None:
        home = self._parked if key in self._processing else self._entries
        entry = home.get(key)
        if entry is None:
            entry = QueueEntry(key, priority, self._next(), due)
            home[key] = entry
            self._note(entry, reason)
            if home is self._entries:
                self._file(entry)
            return
        self._merged += 1
        self._note(entry, reason)
        self._merge(entry, priority, due, filed=home is self._entries)

    def _merge(self, entry: QueueEntry[K], priority: int, due: float | None, *, filed: bool) -> None:
        raised = priority > entry.priority
        sooner = entry.due is not None and (due is None or due < entry.due)
        if not raised and not sooner:
            return
        since = entry.ready_at if entry.due is None else None
        if filed:
            self._unfile(entry)
        if raised:
            entry.priority = priority
            entry.sequence = self._next()
        if sooner:
            entry.due = due
        if filed:
            self._file(entry)
        if since is not None:
            entry.ready_at = since

    def _file(self, entry: QueueEntry[K]) -> None:
        """Put an entry of `_entries` into the heap or its bucket, and hand it out if a worker waits."""
        if entry.due is not None:
            heapq.heappush(self._delayed, (entry.due, entry.sequence, entry))
            self._delayed_count += 1
            self._sweep()
            self._arm()
            return
        self._adds += 1
        entry.ready_at = self._now()
        bucket = self._buckets.get(entry.priority)
        if bucket is None:
            bucket = self._buckets[entry.priority] = {}
            insort(self._priorities, entry.priority)
        bucket[entry.key] = entry
        self._feed()

    def _unfile(self, entry: QueueEntry[K]) -> None:
        if entry.due is not None:
            self._delayed_count -= 1  # its slot stays in the heap and is skipped there as stale
            return
        self._adds -= 1
        self._leave_bucket(entry)

    def _leave_bucket(self, entry: QueueEntry[K]) -> None:
        bucket = self._buckets[entry.priority]
        del bucket[entry.key]
        if not bucket:
            del self._buckets[entry.priority]
            self._priorities.remove(entry.priority)

    def _note(self, entry: QueueEntry[K], reason: str) -> None:
        if reason and len(entry.reasons) < MAX_REASONS:
            entry.reasons[reason] = None

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    # ------------------------------------------------------------------ delays

    def _arm(self) -> None:
        while self._delayed and not self._waits(self._delayed[0]):
            heapq.heappop(self._delayed)
        if not self._delayed:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        due = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        # Stored here, because a handle of uvloop does not know its time if it is due at once.
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._ripen)

    def _sweep(self) -> None:
        """Drop stale slots when they prevail: a key can be delayed for hours again and again."""
        if len(self._delayed) > 2 * self._delayed_count + STALE_SLOTS:
            self._delayed = [slot for slot in self._delayed if self._waits(slot)]
            heapq.heapify(self._delayed)

    def _waits(self, slot: tuple[float, int, QueueEntry[K]]) -> bool:
        due, sequence, entry = slot
        return entry.due == due and entry.sequence == sequence and self._entries.get(entry.key) is entry

    def _ripen(self) -> None:
        self._timer = None
        now = self._now()
        while self._delayed and (self._delayed[0][0] <= now or not self._waits(self._delayed[0])):
            slot = heapq.heappop(self._delayed)
            if not self._waits(slot):
                continue
            entry = slot[2]
            self._delayed_count -= 1
            entry.due = None
            entry.sequence = self._next()
            self._file(entry)
        self._arm()

    # ------------------------------------------------------------------ taking out

    async def get(self) -> QueueItem[K] | None:
        """The next key, or None once the queue is shut down. Call `done` afterwards; `take` does so."""
        if self._shut_down:
            return None
        if not self._getters:
            item = self._pop()
            if item is not None:
                return item
        waiter: asyncio.Future[QueueItem[K] | None] = asyncio.get_running_loop().create_future()
        self._getters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled() or not waiter.done():
                if waiter in self._getters:
                    self._getters.remove(waiter)
            elif (handed := waiter.result()) is not None:
                self._give_back(handed)
            raise

    @asynccontextmanager
    async def take(self) -> AsyncIterator[QueueItem[K] | None]:
        """`get`, and `done` at the end of the block."""
        item = await self.get()
        try:
            yield item
        finally:
            if item is not None:
                self.done(item.key)

    def done(self, key: K) -> None:
        """The worker is finished with a key. Raises KeyError if the key was not taken."""
        item = self._processing.pop(key)
        if self._observer:
            self._observer.worked(self._now() - item.started)
        parked = self._parked.pop(key, None)
        if parked is not None and not self._shut_down:
            if parked.due is not None and parked.due <= self._now():
                parked.due = None
            if not (self._draining and parked.due is not None):
                parked.sequence = self._next()
                self._entries[key] = parked
                self._file(parked)
        self._settle()

    def _pop(self) -> QueueItem[K] | None:
        if not self._priorities:
            return None
        self._handed_out += 1
        bucket = self._buckets[self._priorities[-1]]
        if self._fairness and self._handed_out % self._fairness == 0 and len(self._priorities) > 1:
            bucket = min(self._buckets.values(), key=lambda b: next(iter(b.values())).sequence)
        entry = next(iter(bucket.values()))
        self._leave_bucket(entry)
        del self._entries[entry.key]
        now = self._now()
        item = QueueItem(entry.key, entry.priority, tuple(entry.reasons), now - entry.ready_at, now)
        self._processing[entry.key] = item
        if self._observer:
            self._observer.waited(item.waited)
        return item

    def _feed(self) -> None:
        while self._getters and self._priorities:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(self._pop())

    def _give_back(self, item: QueueItem[K]) -> None:
        """Return a key to the front: its worker was cancelled before it woke up."""
        del self._processing[item.key]
        self._handed_out -= 1
        parked = self._parked.pop(item.key, None)
        if self._shut_down:
            self._settle()
            return
        entry = QueueEntry(item.key, item.priority, 0, None, self._now() - item.waited, dict.fromkeys(item.reasons))
        if parked is not None:
            entry.priority = max(entry.priority, parked.priority)
            for reason in parked.reasons:
                self._note(entry, reason)
        self._entries[item.key] = entry
        bucket = self._buckets.get(entry.priority)
        if bucket is None:
            insort(self._priorities, entry.priority)
        self._buckets[entry.priority] = {item.key: entry, **(bucket or {})}
        self._feed()

    # ------------------------------------------------------------------ ending

    def shut_down(self) -> None:
        """Hand out no more keys: every `get` returns None, ready and delayed keys are dropped. Idempotent."""
        self._shut_down = True
        self._entries.clear()
        self._parked.clear()
        self._buckets.clear()
        self._priorities.clear()
        self._delayed.clear()
        self._delayed_count = 0
        self._arm()
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._settle()

    async def drain(self) -> None:
        """Accept no new keys, drop delayed ones, wait until ready and taken keys are done, then shut down.

        A key that was added again before the drain is processed once more. A worker that never ends blocks this until
        `shut_down` is called.
        """
        self._draining = True
        for _, _, entry in self._delayed:
            if self._entries.get(entry.key) is entry and entry.due is not None:
                del self._entries[entry.key]
        self._delayed.clear()
        self._delayed_count = 0
        self._arm()
        await self.wait_idle()
        self.shut_down()

    async def wait_idle(self) -> None:
        """Wait until no key is ready or taken; after a shutdown, until no key is taken."""
        while not self._is_idle():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle:
                    self._idle.remove(waiter)

    def _is_idle(self) -> bool:
        if self._shut_down:
            return True if self._draining else not self._processing
        return not self._processing and not self._priorities

    def _settle(self) -> None:
        if self._idle and self._is_idle():
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    # ------------------------------------------------------------------ looking in

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self._buckets.values())

    def statistics(self) -> QueueStatistics:
        """A snapshot for metrics, the debug page and tests."""
        now = self._now()
        heads = [next(iter(bucket.values())).ready_at for bucket in self._buckets.values()]
        running = [now - item.started for item in self._processing.values()]
        return QueueStatistics(
            ready={priority: len(self._buckets[priority]) for priority in self._priorities},
            delayed=self._delayed_count,
            parked=len(self._parked),
            processing=len(self._processing),
            waiting_workers=len(self._getters),
            adds=self._adds,
            retries=self._retries,
            merged=self._merged,
            handed_out=self._handed_out,
            oldest=max((now - at for at in heads), default=0.0),
            longest_running=max(running, default=0.0),
            unfinished=sum(running),
            shutting_down=self._shut_down or self._draining,
        )

    def _now(self) -> float:
        if self._clock is None:  # there may be no loop yet when the queue is made
            self._clock = asyncio.get_running_loop().time
        return self._clock()
