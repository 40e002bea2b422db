# SPDX-License-Identifier: Apache-2.0
"""From accepted values to writes: the newest value of each TrainJob, at a bounded rate.

One slot for each TrainJob holds its newest value; an older one that was not written is dropped. A value is written when
it is due (`slots.Slot.due`): the first three of a TrainJob, 100 % and a loss that becomes infinite at once, others once
each interval. Over all TrainJobs there are at most `rate` writes a second; 100 % goes first, then the TrainJob that was
written longest ago.

Guarantees: arrival order wins within a process, whatever the clocks of the reporters say. A value is lost only when a
newer one is stored, when its TrainJob is gone, when the API server refuses it, or when the process is killed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from trainwright.api.objects import AnyObject, Key, uid_of
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import (
    BadRequest,
    Cache,
    Conflict,
    Event,
    Invalid,
    KubernetesError,
    NotFound,
    TaskScope,
    TooManyRequests,
    together,
)
from trainwright.controller.trainer.progress.agenda import Agenda
from trainwright.controller.trainer.progress.budget import Allowance, Budget, Pace
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.refusals import InvalidReport, UnknownJob
from trainwright.controller.trainer.progress.reports import Report
from trainwright.controller.trainer.progress.slots import BURST, Slot
from trainwright.controller.trainer.progress.writes import Superseded

log = logging.getLogger(__name__)

ANSWER_SECONDS = 3.0
"""How long a report of 100 % waits for its write. Clients give up after five seconds."""
IN_FLIGHT = 64
"""Writes at the same time."""
WRITE_SECONDS = 30.0
"""Limit of one write. An answer that does not come must not keep a place."""
LONGEST_RETRY_SECONDS = 60.0
FLUSH_SECONDS = 15.0
"""For the values that are left when the process stops."""
FLUSH_RETRY_SECONDS = 0.5
COUNT_SECONDS = 5.0
"""How often the TrainJobs that report are counted."""
ACTIVE_SECONDS = 60.0
"""A TrainJob that reported within this time counts as one that reports."""
PRUNE_SECONDS = 60.0
FORGET_FINISHED_SECONDS = 600.0
FORGET_SECONDS = 86400.0
"""When a TrainJob that is silent is forgotten; one that is deleted is forgotten at once."""

Write = Callable[[Key, str, TrainerStatus], Awaitable[None]]
"""Stores a value in a TrainJob with this uid. Raises KubernetesError."""


class Source(StrEnum):
    """Where a value comes from."""

    PUSH = "push"
    """A request of the training process."""
    FILE = "file"
    """A file that was read in a pod."""
    FINAL = "final"
    """What a container left at its end."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When a TrainJob reported, by the clock of the event loop."""

    pods: Mapping[str, float]
    """By name of the pod, of those that named one."""
    last_push: float | None
    """None: no report with this source."""
    last: float
    """Of any source and pod."""
    is_stuck: bool
    """Whether the newest value cannot be stored; the status is older than the training."""
    again: frozenset[str] = frozenset()
    """The pods that reported more than once."""


class Coalescer:
    """A runnable that can finish its work: `request_stop` lets it write what is left."""

    def __init__(
        self, write: Write, pace: Pace, metrics: ProgressMetrics, *, time: Callable[[], float] | None = None
    ) -> None:
        """Create it inside a running event loop.

        Args:
            write: stores one value.
            pace: how often.
            metrics: counts.
            time: a clock in seconds that never goes back; None: that of the event loop.
        """
        self._store = write
        self._pace = pace
        self.metrics = metrics
        """Counts of reports and writes."""
        self._time = time or asyncio.get_running_loop().time
        self._slots: dict[str, Slot] = {}
        self._agenda = Agenda(self._due, self._time)
        self.budget = Budget(pace, self._time)
        """Of all writes of this replica; shared with the histories."""
        self._in_flight = 0
        self._active = 0
        self._counted = float("-inf")
        self._pruned = self._time()
        self._wake = asyncio.Event()
        self._stopping = False
        metrics.watch_pending(lambda: len(self._left()))

    # ------------------------------------------------------------------ in

    async def accept(self, job: TrainJob, report: Report, *, source: Source, pod: str = "") -> None:
        """Take a value. One with the first 100 % is written before this returns, or three seconds have passed.

        Args:
            job: as the cache or the API server shows it.
            report: checked.
            source: where it comes from.
            pod: name of the pod that reported; empty: not known.

        Raises:
            UnknownJob: the TrainJob of this uid was gone when 100 % was written.
            InvalidReport: the API server refused 100 %.
        """
        slot, now = self._slot_of(job), self._time()
        slot.last_report = now
        slot.saw(pod, now)
        if source is Source.PUSH:
            slot.last_push = now
        if slot.lowers(report):
            self.metrics.report(source, "ignored")
            return
        self.metrics.report(source, "accepted")
        if slot.put(report, now):
            self.metrics.coalesced.inc()
        self._plan(slot)
        if report.is_complete and slot.is_urgent():
            await self._stored(slot)

    def arrivals(self, uid: str) -> Arrivals | None:
        """When a TrainJob reported to this process; None: it did not, or long ago."""
        slot = self._slots.get(uid)
        if slot is None:
            return None
        pods = MappingProxyType(slot.pods)
        return Arrivals(pods, slot.last_push, slot.last_report, slot.is_stuck(), frozenset(slot.again))

    def watch(self, cache: Cache) -> None:
        """Follow the TrainJobs of the cache; the kind must be declared there."""
        cache.informer(TrainJob).add_handler(self.handle, undecodable=True)

    def handle(self, event: Event[AnyObject]) -> None:
        """Handle one event of the cache: deletions, ends, and what others wrote."""
        if not self._slots:
            return
        job = event.new
        if event.old is not None and (job is None or uid_of(event.old) != uid_of(job)):
            self._drop(self._slots.pop(uid_of(event.old), None))
        slot = self._slots.get(uid_of(job)) if isinstance(job, TrainJob) else None
        if slot is None or not isinstance(job, TrainJob):
            return
        slot.learn(job)
        stored = job.status_or_empty.trainer_status
        if stored == slot.stored:
            return
        slot.stored = stored
        if stored is not None and stored not in slot.own:
            self._foreign(slot, stored)
        if slot.pending is not None:
            self._plan(slot)

    def _slot_of(self, job: TrainJob) -> Slot:
        uid = uid_of(job)
        slot = self._slots.get(uid)
        if slot is None:
            key = Key(job.namespace, job.name)
            slot = self._slots[uid] = Slot(key, uid, Allowance(BURST, self._time()))
            slot.stored = job.status_or_empty.trainer_status
        slot.learn(job)
        return slot

    def _foreign(self, slot: Slot, stored: TrainerStatus) -> None:
        """Another replica wrote. Its value replaces the pending one if it is newer, and it counts as a write."""
        slot.wrote(self._time(), self._interval())
        while slot.is_behind(stored):
            slot.drop()
            self.metrics.write("superseded")
            slot.answer(None)

    async def _stored(self, slot: Slot) -> None:
        """Wait until a value is written, for a while."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        slot.waiters.append(waiter)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await waiter
        except TimeoutError:
            log.debug("TrainJob %s: 100 %% is not stored after %g s, and kept", slot.key, ANSWER_SECONDS)
        finally:
            if waiter in slot.waiters:
                slot.waiters.remove(waiter)

    # ------------------------------------------------------------------ when

    def _interval(self) -> float:
        """Seconds between two writes of a TrainJob: as wanted, or longer if too many report."""
        now = self._time()
        if now - self._counted > COUNT_SECONDS:
            self._counted = now
            self._active = sum(1 for slot in self._slots.values() if now - slot.last_report < ACTIVE_SECONDS)
        return max(self._pace.interval, self.budget.each(self._active))

    def _due(self, slot: Slot) -> float:
        return max(slot.due(self._time(), self._interval()), self.budget.silent_until)

    def _plan(self, slot: Slot) -> None:
        self._agenda.plan(slot)
        self._wake.set()

    def _pause(self) -> float | None:
        """Seconds until something can be done; None: nothing can before the next change."""
        now = self._time()
        timer = self._agenda.next_timer
        pauses = [timer - now] if timer is not None else []
        if self._agenda.has_queue and self._in_flight < IN_FLIGHT:
            pauses.append(self.budget.pause())
        return max(0.0, min(pauses)) if pauses else None

    # ------------------------------------------------------------------ out

    async def run(self) -> None:
        """Write until `request_stop`, then write what is left. What cannot be written is logged and counted."""
        try:
            async with TaskScope("progress/writes") as tasks:
                while not self._stopping:
                    self._wake.clear()
                    self._prune()
                    self._agenda.ring()
                    while self._in_flight < IN_FLIGHT and self.budget.pause() <= 0 and (slot := self._agenda.next()):
                        self.budget.take()
                        self._begin(slot)
                        tasks.start(f"progress/write {slot.key}", self._write(slot))
                    await self._sleep(self._pause())
                await self._flush()
        finally:
            if left := self._left():
                self.metrics.lost.inc(len(left))
                names = ", ".join(str(slot.key) for slot in left[:10])
                log.warning("%d values of progress are lost; the first are of TrainJobs %s", len(left), names)

    def request_stop(self) -> None:
        """Write what is left, then return from `run`. Nothing may be accepted any more."""
        self._stopping = True
        self._wake.set()

    async def _sleep(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _begin(self, slot: Slot) -> None:
        slot.is_busy = True
        self._in_flight += 1
        slot.wrote(self._time(), self._interval())

    async def _write(self, slot: Slot) -> None:
        """Write the pending value of a slot that has begun."""
        report, arrived, since, known = slot.pending, slot.arrived, slot.waiting_since, slot.stored
        assert report is not None
        slot.drop()
        slot.writing = report
        slot.own.append(report.status)
        try:
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._store(slot.key, slot.uid, report.status)
            except BaseException as error:
                is_foreign = isinstance(error, Superseded) and error.stored not in slot.own
                if is_foreign or slot.is_overtaken(report, known):
                    self.metrics.write("superseded")
                    slot.answer(None)
                else:
                    slot.put_back(report, arrived, since)
                raise
        except Superseded as error:
            if error.stored in slot.own:  # its answer was lost; ours came later, whatever the clocks say
                self._fail(slot, error, "failed")
        except (NotFound, Conflict) as error:
            log.debug("TrainJob %s is gone: %s", slot.key, error)
            self._slots.pop(slot.uid, None)
            self._drop(slot)
        except (Invalid, BadRequest) as error:
            self._refuse(slot, report, error)
        except TooManyRequests as error:
            self.budget.be_silent(error.retry_after or 0.0)
            self._fail(slot, error, "throttled")
        except (KubernetesError, TimeoutError) as error:
            self._fail(slot, error, "failed")
        except Exception as error:
            log.exception("TrainJob %s: writing its progress failed", slot.key)
            self._fail(slot, error, "failed")
        else:
            self.metrics.write("stored")
            self.metrics.delay.observe(self._time() - arrived)
            slot.stored, slot.failures, slot.not_before = report.status, 0, float("-inf")
            slot.has_diverged = report.diverged
            slot.answer(None)
        finally:
            slot.is_busy, slot.writing = False, None
            self._in_flight -= 1
            self._plan(slot)
            self._wake.set()

    def _fail(self, slot: Slot, error: Exception, result: str) -> None:
        self.metrics.write(result)
        slot.failures += 1
        slot.not_before = self._time() + min(LONGEST_RETRY_SECONDS, 2.0 ** (slot.failures - 1))
        if slot.failures == 1:
            said = str(error) or f"no answer within {WRITE_SECONDS:.0f} s"
            log.warning("TrainJob %s: its progress is not stored yet: %s", slot.key, said)

    def _refuse(self, slot: Slot, report: Report, error: Invalid | BadRequest) -> None:
        self.metrics.write("refused")
        if slot.pending is report:
            slot.drop()
        if not slot.was_refused:
            slot.was_refused = True
            log.warning("TrainJob %s: the API server refuses its progress, which is dropped: %s", slot.key, error)
        slot.answer(InvalidReport(error.message))

    def _drop(self, slot: Slot | None) -> None:
        """The TrainJob is gone."""
        if slot is None:
            return
        while slot.pending is not None:
            slot.drop()
            self.metrics.write("gone")
        slot.answer(UnknownJob())

    def _prune(self) -> None:
        """Forget TrainJobs that are silent; now and then."""
        now = self._time()
        if now - self._pruned < PRUNE_SECONDS:
            return
        self._pruned = now
        for uid, slot in list(self._slots.items()):
            limit = FORGET_FINISHED_SECONDS if slot.is_finished else FORGET_SECONDS
            if slot.pending is None and not slot.is_busy and now - slot.last_report > limit:
                del self._slots[uid]

    # ------------------------------------------------------------------ the end

    def _left(self) -> list[Slot]:
        return [slot for slot in self._slots.values() if slot.pending is not None]

    async def _flush(self) -> None:
        """Write all pending values without the limit of the rate, 100 % first."""
        left = sorted(
            (slot for slot in self._slots.values() if slot.pending is not None or slot.is_busy),
            key=lambda slot: (slot.is_busy, not slot.is_urgent(), slot.last_write),
        )
        rest = deque(left)
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await together("progress/flush", *(self._flush_some(rest) for _ in left[:IN_FLIGHT]))
        except TimeoutError:
            log.warning("not all progress could be written within %g s", FLUSH_SECONDS)

    async def _flush_some(self, slots: deque[Slot]) -> None:
        """Take slots and write each. One that cannot be written goes to the end, so that it holds up no other."""
        while slots:
            slot = slots.popleft()
            if slot.pending is not None and not slot.is_busy:
                self._begin(slot)
                await self._write(slot)
            if slot.pending is not None or slot.is_busy:
                slots.append(slot)
                await asyncio.sleep(FLUSH_RETRY_SECONDS)
