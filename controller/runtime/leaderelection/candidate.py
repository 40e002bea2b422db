# SPDX-License-Identifier: Apache-2.0
"""The rules of the election for one candidate (M-13 to M-18), without threads and without HTTP.

Guarantees: a lease of somebody else is taken only when it is empty, or when this candidate itself has not seen it
change for its whole duration, by a clock that only grows; wall-clock times in the Lease are for people. Leadership is
given up when somebody else holds the lease, or when no renewal was answered within the renew deadline.

Assumption: nobody deletes or edits the Lease. Whoever does ends the leadership of its holder at the holder's next
renewal, one retry period later; a candidate may lead before that.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime

from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from trainwright.controller.runtime.leaderelection.fence import Clock, Fence, steady_clock
from trainwright.controller.runtime.leaderelection.lock import Lock
from trainwright.controller.runtime.leaderelection.record import Record, held_by, released
from trainwright.controller.runtime.leaderelection.timing import JITTER, Timing

log = logging.getLogger(__name__)


class Candidate:
    """One identity at one lock."""

    def __init__(
        self,
        lock: Lock,
        identity: str,
        fence: Fence,
        *,
        timing: Timing,
        clock: Clock = steady_clock,
        now: Now = wall_clock,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`clock` must be the fence's."""
        self._lock = lock
        self.identity = identity
        self._fence = fence
        self._timing = timing
        self._clock = clock
        self._now = now
        self._chance = chance
        self._sleep = sleep
        self._seen: Record | None = None
        self._seen_at = 0.0
        self._mine: Record | None = None
        self.renewed_at: float | None = None
        """By the clock, when the last answered renewal was sent."""
        self.last_error = ""
        """Of the last try, empty after one that was answered."""
        self.slow_renewals = 0
        """Renewals that had to read the lease first."""

    @property
    def holder(self) -> str:
        """Who led when last looked; empty if nobody did."""
        record = self._mine or self._seen
        return record.holder if record else ""

    @property
    def transitions(self) -> int:
        """How often the lease changed hands; grows with every leader, so it can serve as a fencing token."""
        record = self._mine or self._seen
        return record.transitions if record else 0

    async def acquire(self) -> None:
        """Try until this candidate leads."""
        while not await self._try():
            await self._sleep(self._timing.retry * (1 + JITTER * self._chance()))
        log.info("leader election: %s leads", self.identity)

    async def hold(self, may_renew: Callable[[], str] = lambda: "") -> str:
        """Renew until leadership is lost; gives why. `may_renew` says why not to renew; empty: nothing against it."""
        assert self.renewed_at is not None
        while True:
            deadline = self.renewed_at + self._timing.renew
            left = deadline - self._clock()
            if left <= 0:
                return f"not renewed within {self._timing.renew:g} s: {self.last_error or 'no time to'}"
            await self._sleep(min(self._timing.retry, left))
            if reason := may_renew():
                self.last_error = reason
                continue
            await self._try()
            if self._mine is None and self._seen is not None and self._seen.holder not in {"", self.identity}:
                return f"{self._seen.holder} holds the lease"

    async def release(self) -> bool:
        """Give the lease back if it is still ours, so that the next leader need not wait. True if that was done."""
        self._fence.revoke()
        for _ in range(3):
            try:
                async with asyncio.timeout(self._timing.request):
                    record = await self._lock.read()
                    if record is None or record.holder != self.identity:
                        return False
                    await self._lock.change(released(self._now(), record), record.version)
            except Conflict:
                continue
            except (KubernetesError, TimeoutError) as error:
                log.warning("leader election: the lease was not released, others must wait for its end: %s", error)
                return False
            self._mine = None
            return True
        return False

    # ------------------------------------------------------------------ one try

    async def _try(self) -> bool:
        """One try to take or renew; True if this candidate leads. No error leaves it."""
        before = self._clock()
        limit = self._timing.request
        if self._mine is not None and self.renewed_at is not None:
            limit = max(0.0, min(limit, self.renewed_at + self._timing.renew - before))
        try:
            async with asyncio.timeout(limit):
                mine = await self._renew() or await self._take()
        except TimeoutError:
            self._failed(f"no answer within {limit:.1f} s")
            return False
        except KubernetesError as error:
            self._failed(str(error))
            return False
        self.last_error = ""
        self._mine = mine
        if mine is None:
            return False
        self.renewed_at = before
        self._fence.renewed(before)
        return True

    def _failed(self, error: str) -> None:
        if error != self.last_error:
            log.warning("leader election: %s", error)
        self.last_error = error

    async def _renew(self) -> Record | None:
        """The fast way: change what we wrote last. None if that is not what the lease is any more."""
        if self._mine is None:
            return None
        try:
            return await self._lock.change(self._spec(self._mine), self._mine.version)
        except (Conflict, NotFound):
            self.slow_renewals += 1
            return None

    async def _take(self) -> Record | None:
        """The slow way: look, and take what may be taken. None if it may not, or somebody was faster."""
        record = await self._lock.read()
        if record is None:
            try:
                return await self._lock.create(self._spec(None))
            except AlreadyExists:
                return None
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()
        believed = record.holder not in {"", self.identity}
        if believed and self._clock() < self._seen_at + max(record.seconds, 1.0):
            return None
        try:
            return await self._lock.change(self._spec(record), record.version)
        except (Conflict, NotFound):
            return None

    def _spec(self, before: Record | None) -> dict[str, object]:
        moment: datetime = self._now()
        return held_by(self.identity, moment, self._timing.lease, before)
