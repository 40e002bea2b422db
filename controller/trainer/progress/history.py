# SPDX-License-Identifier: Apache-2.0
"""Keeps the history of each TrainJob in its ConfigMap: a controller of the leader, where the Configuration asks for it.

Points come from the changes of `status.trainerStatus` that the cache shows, so it does not matter which replica took
a report and how. A ConfigMap is written at most every five minutes while its job reports, and when the job ends,
within the budget of all writes of progress, several at once, so that one that is slow holds up no other. After a
start, nothing is read or written until a job reports; then the points are added to those that are stored.

Only a ConfigMap that the manager made for this very job is written. A foreign one is left alone, which is logged once;
a damaged one is begun again, and a deleted one is made again, which is logged once, too.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from trainwright.api import surroundings
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, key_of, resource_version_of, uid_of
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.runtime import (
    AlreadyExists,
    Conflict,
    Done,
    Event,
    Forbidden,
    KubernetesError,
    Manager,
    NotFound,
    Result,
    RetryAfter,
)
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import TooManyRequests
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.metrics.series import LabelledCounter
from trainwright.controller.runtime.tasks import together
from trainwright.controller.runtime.workqueue.queue import WorkQueue
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.status import ended_lately, is_ours
from trainwright.controller.trainer.progress.curve import falls, passed, sample_of
from trainwright.controller.trainer.progress.ring import (
    KEY,
    Damaged,
    Ring,
    belongs,
    config_map_name,
    document_of,
    read,
)
from trainwright.controller.trainer.progress.writer import Budget
from trainwright.progress import extremes

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 300.0
"""Between two writes of one job."""
LATE_SECONDS = 60.0
"""Before a report that came after the end of a job is written."""
FOREIGN_SECONDS = 600.0
"""Before a name that a foreign ConfigMap has is tried again: those are not watched."""
RETRY_SECONDS = (10.0, 300.0)
"""Shortest and longest delay after a failure."""
ATTEMPTS = 3
"""How often a ConfigMap is read again that others change."""
FLUSH_SECONDS = 8.0
"""For what is left when the manager stops."""
AT_ONCE = 16
"""How many are written at the same time."""
WRITE_SECONDS = 15.0
"""Limit of one write with all its attempts; after that it counts as failed."""

Uniform = Callable[[float, float], float]


@dataclass(slots=True, eq=False)
class _History:
    job: TrainJob
    ring: Ring = field(default_factory=Ring)
    seen: TrainerStatus | None = None
    is_loaded: bool = False
    """Whether `ring` holds what is stored, too."""
    is_dirty: bool = False
    """Whether it has points that are not stored."""
    is_busy: bool = False
    version: str = ""
    """Of the ConfigMap; empty: it does not exist."""
    written: float = float("-inf")
    not_before: float = float("-inf")
    """After a failure, or while the name is that of a foreign ConfigMap."""
    failures: int = 0
    may_exist: bool = False
    """Whether a create failed that the API server may have carried out all the same."""
    said: frozenset[str] = frozenset()
    """What was logged. An empty set of its own would take 200 bytes a job."""

    @property
    def key(self) -> Key:
        return key_of(self.job)


class HistoryKeeper:
    """The controller, with its source of keys, and a runnable that writes what is left at a stop."""

    USES = Uses(kind=TrainJob, writes=(ConfigMap,))

    def __init__(
        self,
        manager: Manager,
        budget: Budget,
        registry: CollectorRegistry,
        records: JobRecords,
        *,
        attempt_of: Callable[[TrainJob], int | None],
        now: Now = wall_clock,
        uniform: Uniform = surroundings.uniform,
    ) -> None:
        """Declare everything, inside a running event loop; `manager.run` starts it.

        `budget` is that of all writes of progress, `attempt_of` tells how often the pods of a job were started, and
        `uniform` spreads the first writes.
        """
        self._client, self._cache = manager.client.with_defaults(retries=0), manager.cache
        self._budget, self._records = budget, records
        self._attempt_of, self._now, self._uniform = attempt_of, now, uniform
        self._time = asyncio.get_running_loop().time
        self._writes = LabelledCounter(
            "trainer_progress_history_writes_total",
            "Writes of histories by result.",
            registry,
            result=("stored", "foreign", "failed"),
        )
        self._queue: WorkQueue[Key] | None = None
        """None on a replica that does not lead."""
        self._choosing = asyncio.Lock()
        self._stop = asyncio.Event()
        # Points are taken from events, since the changes of a key merge in a queue.
        records.follow(self._changed)
        builder = manager.controller("history_controller", self.USES).source(self)
        self._controller = builder.reconcile(self.reconcile, workers=AT_ONCE)
        manager.add(self, Group.LEADER, "progress-history")

    # ------------------------------------------------------------------ the source of keys

    @property
    def name(self) -> str:
        return "reports"

    async def start(self, queue: WorkQueue[Key]) -> None:
        # Where there is no election, the leader's work begins before the first lists have arrived.
        await self._cache.wait_synced([TrainJob])
        self._queue = queue
        for job in self._cache.list(TrainJob):
            self._take_in(queue, job, at_start=True)

    def _changed(self, event: Event[AnyObject]) -> None:
        if self._queue is not None and not self._stop.is_set() and isinstance(event.new, TrainJob):
            self._take_in(self._queue, event.new)

    def _take_in(self, queue: WorkQueue[Key], job: TrainJob, *, at_start: bool = False) -> None:
        status = job.status_or_empty.trainer_status
        record = self._records.of(key_of(job), uid_of(job))
        history = record.get(_History)
        if not is_ours(job) or deletion_timestamp_of(job) is not None:
            record.drop(_History)
            return
        if status is None or (history is None and at_start and is_finished(job) and not ended_lately(job, self._now())):
            return
        history = record.part(_History, lambda: _History(job))
        had_ended, history.job = is_finished(history.job), job
        if status != history.seen:
            history.seen = status
            is_new = self._add(history.ring, job, status)
            # What was reported before this process began may be stored already. It is written with the next report.
            history.is_dirty = history.is_dirty or (is_new and not at_start) or (at_start and is_finished(job))
        if history.is_dirty:
            at = self._time() if is_finished(job) and not had_ended else self._due(history)
            queue.add(history.key, after=max(at, history.not_before) - self._time())

    def _add(self, ring: Ring, job: TrainJob, status: TrainerStatus) -> bool:
        said = extremes({metric.name: metric.value for metric in status.metrics or ()})
        sample, last = sample_of(status, said.plain, self._attempt_of(job)), ring.last
        if sample is None:
            return False
        lows, highs = passed(said, last.step if last is not None and not falls(last, sample) else None)
        return ring.add(replace(sample, lows=lows, highs=highs))

    def _due(self, history: _History) -> float:
        if history.written == float("-inf") and not is_finished(history.job):
            # Not all at once where many jobs begin at once.
            return self._time() + INTERVAL_SECONDS * self._uniform(0.2, 1.0)
        return max(self._time(), history.written + (LATE_SECONDS if is_finished(history.job) else INTERVAL_SECONDS))

    # ------------------------------------------------------------------ writing

    async def reconcile(self, key: Key) -> Result:
        history = self._records.at(key, _History)
        if history is None or not history.is_dirty:
            return Done()
        if (early := history.not_before - self._time()) > 0:
            return RetryAfter(early, reason="failed before")
        async with self._choosing:
            if not await self._budget.allows(self._stop):
                return Done()  # `run` writes what is left
            self._budget.take()
        return await self._write(history)

    async def run(self) -> None:
        """Wait for `request_stop`, then write what is left."""
        await self._stop.wait()

        async def write_all(rest: Iterator[_History]) -> None:
            for history in rest:
                await self._write(history)

        async def flush(left: list[_History]) -> None:
            rest = iter(left)
            await together("progress/history flush", *(write_all(rest) for _ in range(AT_ONCE)))

        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                known = list(self._records.each(_History))
                await flush([one for one in known if not one.is_busy])
                await self._controller.queue.wait_idle()
                await flush(known)  # those that were being written may have got a report more
        except TimeoutError:
            left = sum(one.is_dirty for one in self._records.each(_History))
            log.warning("the last minutes of %d histories are not stored", left)

    def request_stop(self) -> None:
        """Write what is left, then return from `run`."""
        self._stop.set()

    def _lacks(self, history: _History) -> bool:
        is_known = self._records.find(history.key, uid_of(history.job), _History) is history
        return is_known and history.is_dirty

    async def _write(self, history: _History) -> Result:
        if not self._lacks(history):
            return Done()
        history.is_busy = True
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                is_stored = await self._store(history)
        except Exception as error:
            return self._failed(history, error)
        finally:
            history.is_busy = False
        history.failures, history.written = 0, self._time()
        self._writes.inc("stored" if is_stored else "foreign")
        if not is_stored:
            return self._again(history, FOREIGN_SECONDS)
        if history.is_dirty:
            return RetryAfter(self._due(history) - self._time(), reason="new points")
        if is_finished(history.job):
            # Reports may still come; then it is read again. Until then it takes no memory.
            history.ring, history.is_loaded, history.version = Ring(), False, ""
        return Done()

    def _failed(self, history: _History, error: Exception) -> Result:
        said = str(error)
        match error:
            case TimeoutError():
                # The API server may have carried it out. Then the version is another one, which a failure explains.
                history.may_exist = history.may_exist or not history.version
                said = f"no answer within {WRITE_SECONDS:.0f} s"
            case TooManyRequests():
                self._budget.be_silent(error.retry_after or 0.0)
            case KubernetesError():
                pass
            case _:
                log.error("TrainJob %s: writing its history failed", history.key, exc_info=error)
        self._writes.inc("failed")
        history.failures += 1
        shortest, longest = RETRY_SECONDS
        pause = longest if isinstance(error, Forbidden) else min(longest, shortest * 2.0 ** (history.failures - 1))
        self._say(history, "failed", f"is not stored yet: {said}")
        return self._again(history, pause)

    def _again(self, history: _History, pause: float) -> Result:
        history.not_before = self._time() + pause
        return RetryAfter(pause, reason="not stored")

    def _say(self, history: _History, what: str, text: str) -> None:
        """Log something once for each job."""
        if what not in history.said:
            history.said |= {what}
            log.warning("TrainJob %s: the history of its progress %s", history.key, text)

    async def _store(self, history: _History) -> bool:
        """Create or change the ConfigMap. Returns False if a foreign one has its name. Raises KubernetesError."""
        name, namespace = config_map_name(history.job.name), history.job.namespace
        for _ in range(ATTEMPTS):
            if not history.is_loaded and not await self._load(history):
                return False
            text, ring_seen = history.ring.encode(), history.seen
            try:
                if history.version:
                    patch = {"metadata": {"resourceVersion": history.version}, "data": {KEY: text}}
                    stored: AnyObject = await self._client.patch(ConfigMap, name, namespace, patch, type="merge")
                else:
                    stored = await self._client.create(document_of(history.job, text), kind=ConfigMap.RESOURCE)
                history.version = resource_version_of(stored)
            except NotFound:
                if not history.version:
                    raise  # the namespace is gone
                self._say(history, "deleted", f"in ConfigMap {name} was deleted, and is made again")
                history.version = ""
            except (Conflict, AlreadyExists):
                history.is_loaded = False
            except KubernetesError:
                history.may_exist = history.may_exist or not history.version
                raise
            else:
                history.is_dirty, history.may_exist = history.seen is not ring_seen, False
                return True
        raise KubernetesError(f"ConfigMap {name} changes too often")

    async def _load(self, history: _History) -> bool:
        """Put what is stored before what was seen. Returns False if the ConfigMap is foreign."""
        name = config_map_name(history.job.name)
        try:
            found = await self._client.get(ConfigMap, name, history.job.namespace)
        except NotFound:
            history.version, history.is_loaded = "", True
            return True
        if not belongs(found, history.job):
            self._say(history, "foreign", f"is not kept, because ConfigMap {name} is not the manager's; rename it")
            return False
        if (history.version or history.may_exist) and history.failures:
            log.debug("TrainJob %s: ConfigMap %s is written again after a failure", history.key, name)
        elif history.version:
            self._say(history, "changed", f"in ConfigMap {name} was changed by another program; it is overwritten")
        else:
            try:
                stored = read(found.data)
            except Damaged as error:
                self._say(history, "damaged", f"in ConfigMap {name} is damaged and begins again: {error}")
            else:
                for sample in history.ring.samples():
                    stored.add(sample)
                history.ring = stored
        history.version, history.is_loaded = resource_version_of(found), True
        return True
