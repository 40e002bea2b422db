# SPDX-License-Identifier: Apache-2.0
"""One key is never handled twice at once, many events collapse into one run, reasons are merged (Q-1 to Q-56).

Keys are ready, delayed, handed out, or parked: added again while handed out, and ready once done. Higher priorities go
first; among equals the first to come; and one hand-out in eight goes to whoever waits longest, so that nothing starves
(Q-46 is different on purpose). What a failure costs is the limiter's business; who retries is the controller's.

All methods but `get` and `drain` are synchronous, and all belong to one event loop, so between two awaits nothing can
come in between. Time is the loop's.
"""

import asyncio
import heapq
from bisect import insort
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from trainwright.controller.runtime.workqueue.entries import Entry, Item, QueueObserver, QueueStatistics
from trainwright.controller.runtime.workqueue.limiters import ExponentialLimiter, Limiter

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For what is no news: objects of a first list, resyncs (Q-47)."""
FAIRNESS = 8
"""Of this many hand-outs one goes to the entry that waits longest, whatever its priority."""
MAX_REASONS = 16
STALE_SLOTS = 64
"""So many slots of the delay heap may be stale before it is swept, beside as many as there are delayed keys."""


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
        """`fairness` 0 means strictly by priority."""
        self.name = name
        self.limiter: Limiter = limiter or ExponentialLimiter()
        self._fairness = fairness
        self._observer = observer
        self._entries: dict[K, Entry[K]] = {}
        self._parked: dict[K, Entry[K]] = {}
        self._processing: dict[K, Item[K]] = {}
        self._buckets: dict[int, dict[K, Entry[K]]] = {}
        self._priorities: list[int] = []  # ascending, of buckets that are not empty
        self._delayed: list[tuple[float, int, Entry[K]]] = []
        self._delayed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._getters: deque[asyncio.Future[Item[K] | None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._sequence = 0
        self._adds = self._retries = self._merged = self._handed_out = 0
        self._draining = False
        self._shut_down = False

    # ------------------------------------------------------------------ putting in

    def add(self, key: K, *, priority: int = 0, after: float = 0.0, reason: str = "") -> None:
        """Queue a key, or merge with what is queued: highest priority, earliest time, all reasons.

        `after` is in seconds; 0 or less means now. Ignored while shutting down.
        """
        if self._shut_down or self._draining:
            return
        if after > 0:
            self._retries += 1
        self._put(key, priority, self._now() + after if after > 0 else None, reason)

    def add_rate_limited(self, key: K, *, priority: int = 0, after: float = 0.0, reason: str = "") -> float:
        """Queue a key after the limiter's delay, or after `after` if that is shorter; gives the delay in seconds."""
        delay = self.limiter.delay(key)
        if after > 0:
            delay = min(delay, after)
        self.add(key, priority=priority, after=delay, reason=reason)
        return delay

    def forget(self, key: K) -> None:
        """Reset the limiter for a key; the key itself stays where it is."""
        self.limiter.forget(key)

    def _put(self, key: K, priority: int, due: float | None, reason: str) -> None:
        home = self._parked if key in self._processing else self._entries
        entry = home.get(key)
        if entry is None:
            entry = Entry(key, priority, self._next(), due)
            home[key] = entry
            self._note(entry, reason)
            if home is self._entries:
                self._file(entry)
            return
        self._merged += 1
        self._note(entry, reason)
        self._merge(entry, priority, due, filed=home is self._entries)

    def _merge(self, entry: Entry[K], priority: int, due: float | None, *, filed: bool) -> None:
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

    def _file(self, entry: Entry[K]) -> None:
        """Put an entry of `_entries` where its state belongs, and hand it out if somebody waits."""
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

    def _unfile(self, entry: Entry[K]) -> None:
        if entry.due is not None:
            self._delayed_count -= 1  # the heap still holds it; it is skipped there, since its record says otherwise
            return
        self._adds -= 1
        self._leave_bucket(entry)

    def _leave_bucket(self, entry: Entry[K]) -> None:
        bucket = self._buckets[entry.priority]
        del bucket[entry.key]
        if not bucket:
            del self._buckets[entry.priority]
            self._priorities.remove(entry.priority)

    def _note(self, entry: Entry[K], reason: str) -> None:
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
        # Remembered here: for what is due at once, uvloop gives a handle that does not know when.
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._ripen)

    def _sweep(self) -> None:
        """Drop stale slots once they are the most: a key may be put off for hours, over and over."""
        if len(self._delayed) > 2 * self._delayed_count + STALE_SLOTS:
            self._delayed = [slot for slot in self._delayed if self._waits(slot)]
            heapq.heapify(self._delayed)

    def _waits(self, slot: tuple[float, int, Entry[K]]) -> bool:
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

    async def get(self) -> Item[K] | None:
        """The next key, or None once the queue is shut down. `done` must follow; `take` sees to that."""
        if self._shut_down:
            return None
        if not self._getters:
            item = self._pop()
            if item is not None:
                return item
        waiter: asyncio.Future[Item[K] | None] = asyncio.get_running_loop().create_future()
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
    async def take(self) -> AsyncIterator[Item[K] | None]:
        """`get`, with `done` at the end of the block."""
        item = await self.get()
        try:
            yield item
        finally:
            if item is not None:
                self.done(item.key)

    def done(self, key: K) -> None:
        """The worker is finished with a key. Raises KeyError if it was not handed out."""
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

    def _pop(self) -> Item[K] | None:
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
        item = Item(entry.key, entry.priority, tuple(entry.reasons), now - entry.ready_at, now)
        self._processing[entry.key] = item
        if self._observer:
            self._observer.waited(item.waited)
        return item

    def _feed(self) -> None:
        while self._getters and self._priorities:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(self._pop())

    def _give_back(self, item: Item[K]) -> None:
        """The worker was cancelled between being chosen and waking up: its key goes to the front again."""
        del self._processing[item.key]
        self._handed_out -= 1
        parked = self._parked.pop(item.key, None)
        if self._shut_down:
            self._settle()
            return
        entry = Entry(item.key, item.priority, 0, None, self._now() - item.waited, dict.fromkeys(item.reasons))
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
        """Hand out nothing more: every `get` gives None, what is ready or delayed is dropped. Idempotent."""
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._entries.clear()
        self._parked.clear()
        self._buckets.clear()
        self._priorities.clear()
        self._delayed.clear()
        self._delayed_count = 0
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._settle()

    async def drain(self) -> None:
        """Take nothing new, drop what is delayed, wait until all that is ready or in process is done, then shut down.

        A key added again before the drain is processed once more. A worker that never ends holds this up until
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
        """Wait until nothing is ready and nothing is in process, or, once shut down, until nothing is in process."""
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
        """Keys ready to be handed out."""
        return sum(len(bucket) for bucket in self._buckets.values())

    def statistics(self) -> QueueStatistics:
        """A snapshot, for metrics, the debug page, tests and the stall watchdog."""
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

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
