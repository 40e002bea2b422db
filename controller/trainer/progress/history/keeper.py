# SPDX-License-Identifier: Apache-2.0
"""Keeps the history of each TrainJob in its ConfigMap: a runnable of the leader, where the Configuration asks for it.

Points come from the changes of `status.trainerStatus` that the cache shows, so it does not matter which replica took
a report and how. A ConfigMap is written at most every five minutes while its job reports, and when the job ends,
within the budget of all writes of progress, several at once, so that one that is slow holds up no other. After a
start nothing is read or written until a job reports; then the ring goes on from the one that is stored.

Only a ConfigMap that the manager made for this very job is written. One of somebody else is left alone, and said once;
one that is damaged is begun again, and one that is deleted is made again, which is said once, too.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter

from trainwright.api import surroundings
from trainwright.api.conditions import find
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, key_of, resource_version_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.controller.runtime import (
    AlreadyExists,
    Cache,
    Client,
    Conflict,
    Event,
    Forbidden,
    KubernetesError,
    NotFound,
    TaskScope,
    TooManyRequests,
    together,
)
from trainwright.controller.trainer.job.state import is_ours
from trainwright.controller.trainer.job.status import is_finished
from trainwright.controller.trainer.progress.budget import Budget
from trainwright.controller.trainer.progress.history.ring import Damaged, Ring, numbers_of
from trainwright.controller.trainer.progress.history.stored import KEY, belongs, config_map_name, document_of, read

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 300.0
"""Between two writes of one job."""
LATE_SECONDS = 60.0
"""Before a report that came after the end of a job is written."""
FOREIGN_SECONDS = 600.0
"""Before a name that somebody else uses is looked at again; nothing tells when it becomes free."""
RETRY_SECONDS = (10.0, 300.0)
"""Shortest and longest delay after a failure."""
RECENT_SECONDS = 600.0
"""A job that ended before this leader started, and not longer ago, may lack its last points."""
ATTEMPTS = 3
"""How often a ConfigMap is read again that others change."""
FLUSH_SECONDS = 8.0
"""For what is left when the manager stops."""
AT_ONCE = 16
"""How many are written at the same time."""
WRITE_SECONDS = 15.0
"""Limit of one write with all its attempts; after that it counts as failed."""
RESULTS = ("stored", "foreign", "failed")

Uniform = Callable[[float, float], float]


class HistoryMetrics:
    """Counts the writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """`registry`: of the manager."""
        writes = Counter(
            "trainer_progress_history_writes_total", "Writes of histories by result.", ["result"], registry=registry
        )
        self._writes = {result: writes.labels(result) for result in RESULTS}

    def count(self, result: str) -> None:
        """Count one; `result` is of `RESULTS`."""
        self._writes[result].inc()


@dataclass(slots=True, eq=False)
class _Kept:
    """One job."""

    job: TrainJob
    ring: Ring = field(default_factory=Ring)
    seen: TrainerStatus | None = None
    """The status that was taken in last."""
    is_loaded: bool = False
    """Whether `ring` holds what is stored, too."""
    is_dirty: bool = False
    """Whether it has points that are not stored."""
    version: str = ""
    """Of the ConfigMap; empty: it does not exist."""
    due: float | None = None
    """When it is looked at next; None: not before a change."""
    written: float = float("-inf")
    not_before: float = float("-inf")
    """After a failure, or while the name is somebody else's."""
    failures: int = 0
    is_busy: bool = False
    """Whether it is being written."""
    may_exist: bool = False
    """Whether a create failed that the API server may have carried out all the same."""
    said: set[str] = field(default_factory=set)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return key_of(self.job)


async def _at_once() -> None:
    """Nothing to wait for."""


class HistoryKeeper:
    """The runnable, for the leader."""

    RULES = (Rule.on(ConfigMap.RESOURCE, "get", "create", "patch"),)

    def __init__(
        self,
        client: Client,
        budget: Budget,
        metrics: HistoryMetrics,
        *,
        jobs: Callable[[], Sequence[TrainJob]],
        attempt_of: Callable[[TrainJob], int | None],
        synced: Callable[[], Awaitable[None]] = _at_once,
        now: Now = wall_clock,
        uniform: Uniform = surroundings.uniform,
    ) -> None:
        """Create it inside a running event loop.

        Args:
            client: reads and writes ConfigMaps.
            budget: of all writes of progress.
            metrics: counts.
            jobs: the TrainJobs of this manager, from the cache.
            attempt_of: how often the pods of a job were started; None: not known.
            synced: waits until `jobs` can be called.
            now: the wall clock.
            uniform: a random number between two, to spread the first writes.
        """
        self._client = client.with_defaults(retries=0)
        self._budget, self._metrics = budget, metrics
        self._list, self._attempt_of, self._synced = jobs, attempt_of, synced
        self._now, self._uniform = now, uniform
        self._time = asyncio.get_running_loop().time
        self._kept: dict[str, _Kept] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._choosing = asyncio.Lock()
        self._writing = 0
        self._runs = False

    # ------------------------------------------------------------------ what is seen

    def watch(self, cache: Cache) -> None:
        """Follow the TrainJobs of the cache; the kind must be declared there."""
        cache.informer(TrainJob).add_handler(self.handle)

    def handle(self, event: Event[AnyObject]) -> None:
        """Handle one event of the cache. Replicas that do not lead ignore it."""
        if not self._runs:
            return
        old, job = event.old, event.new
        if old is not None and (job is None or uid_of(job) != uid_of(old)):
            self._kept.pop(uid_of(old), None)
        if isinstance(job, TrainJob):
            self._consider(job)

    def _consider(self, job: TrainJob, *, at_start: bool = False) -> None:
        """Take in what is new of a job."""
        status = job.status_or_empty.trainer_status
        kept = self._kept.get(uid_of(job))
        if not is_ours(job) or deletion_timestamp_of(job) is not None:
            self._kept.pop(uid_of(job), None)
            return
        if status is None or (kept is None and at_start and is_finished(job) and not self._ended_lately(job)):
            return
        if kept is None:
            kept = self._kept[uid_of(job)] = _Kept(job)
        had_ended, kept.job = is_finished(kept.job), job
        if status != kept.seen:
            kept.seen = status
            is_new = self._take(kept.ring, job, status)
            # What was reported before this process looked may be stored already. It is written with the next report.
            kept.is_dirty = kept.is_dirty or (is_new and not at_start) or (at_start and is_finished(job))
        if kept.is_dirty:
            self._plan_write(kept, has_ended=is_finished(job) and not had_ended)

    def _take(self, ring: Ring, job: TrainJob, status: TrainerStatus) -> bool:
        try:
            moment = parse(status.last_updated_time or "")
        except ValueError:  # no API server stores such a time: its schema forbids it
            return False
        metrics = {metric.name: metric.value for metric in status.metrics or ()}
        return ring.add(moment, status.progress_percentage, numbers_of(metrics), self._attempt_of(job))

    def _ended_lately(self, job: TrainJob) -> bool:
        conditions = job.status_or_empty.conditions
        held = (find(conditions, name) for name in (CONDITION_COMPLETE, CONDITION_FAILED))
        moments = [parse(one.last_transition_time) for one in held if one is not None and one.status == "True"]
        return any(self._now() - moment < timedelta(seconds=RECENT_SECONDS) for moment in moments)

    # ------------------------------------------------------------------ when

    def _plan_write(self, kept: _Kept, *, has_ended: bool) -> None:
        now = self._time()
        if has_ended:
            at = now
        elif is_finished(kept.job):
            at = max(now, kept.written + LATE_SECONDS)
        elif kept.written > float("-inf"):
            at = max(now, kept.written + INTERVAL_SECONDS)
        else:
            # Not all at once where many jobs begin at once.
            at = now + INTERVAL_SECONDS * self._uniform(0.2, 1.0)
        at = max(at, kept.not_before)
        if kept.due is None or at < kept.due:
            self._plan(kept, at)

    def _plan(self, kept: _Kept, at: float) -> None:
        kept.due = at
        heapq.heappush(self._heap, (at, next(self._order), uid_of(kept.job)))
        self._wake.set()

    def _next(self) -> _Kept | None:
        """The job that is due. One that is being written is due again when that has ended."""
        while self._heap and self._heap[0][0] <= self._time():
            at, _, uid = heapq.heappop(self._heap)
            kept = self._kept.get(uid)
            if kept is not None and kept.due == at and not kept.is_busy:
                kept.due = None
                return kept
        return None

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Write until `request_stop`, then write what is left."""
        await self._synced()
        self._runs = True
        async with TaskScope("progress/history") as tasks:
            try:
                for job in self._list():
                    self._consider(job, at_start=True)
                for number in range(AT_ONCE):
                    tasks.start(f"progress/history/{number}", self._write())
                await self._stopped.wait()
            finally:
                self._runs = False
            await self._flush()
        self._kept.clear()

    def request_stop(self) -> None:
        """Write what is left, then return from `run`."""
        self._stopped.set()
        self._wake.set()

    async def _write(self) -> None:
        """Write what is due until a stop. One of several, of which one waits for the next job at a time."""
        while True:
            async with self._choosing:
                kept = await self._chosen()
            if kept is None:
                return
            self._writing += 1
            try:
                await self._turn(kept)
            finally:
                kept.is_busy = False
                self._writing -= 1
                self._wake.set()
            if kept.due is not None and kept.due <= self._time():
                self._plan(kept, kept.due)  # its time came meanwhile, as at the end of the job

    async def _chosen(self) -> _Kept | None:
        """Wait for a job that is due and that may be written. None: a stop was asked for, which `_flush` answers."""
        while not self._stopped.is_set():
            self._wake.clear()
            kept = self._next()
            if kept is None:
                await self._sleep(max(0.0, self._heap[0][0] - self._time()) if self._heap else None)
            elif await self._may_write():
                kept.is_busy = True
                return kept
        return None

    async def _may_write(self) -> bool:
        """Wait until a write may begin, and begin it. False: a stop was asked for."""
        while not self._stopped.is_set():
            self._wake.clear()
            pause = self._budget.wait()
            if pause <= 0:
                self._budget.take()
                return True
            await self._sleep(pause)
        return False

    async def _sleep(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _flush(self) -> None:
        async def some(rest: Iterator[_Kept]) -> None:
            for kept in rest:
                await self._turn(kept)

        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                written = [kept for kept in self._kept.values() if kept.is_busy]
                rest = iter([kept for kept in self._kept.values() if kept.is_dirty and not kept.is_busy])
                await together("progress/history flush", *(some(rest) for _ in range(AT_ONCE)))
                while self._writing:
                    self._wake.clear()
                    await self._wake.wait()
                # Those that were being written may have got a report more.
                rest = iter(written)
                await together("progress/history flush", *(some(rest) for _ in range(AT_ONCE)))
        except TimeoutError:
            left = sum(kept.is_dirty for kept in self._kept.values())
            log.warning("the last minutes of %d histories are not stored", left)

    # ------------------------------------------------------------------ writing

    def _lacks(self, kept: _Kept) -> bool:
        """Whether the job exists and has points that are not stored."""
        return kept.is_dirty and self._kept.get(uid_of(kept.job)) is kept

    async def _turn(self, kept: _Kept) -> None:
        """Write the history of one job, and plan what comes next."""
        if not self._lacks(kept):
            return
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                is_stored = await self._store(kept)
        except TimeoutError:
            # The API server may have carried it out. Then the version is another one, which a failure explains.
            kept.may_exist = kept.may_exist or not kept.version
            self._fail(kept, KubernetesError(f"no answer within {WRITE_SECONDS:.0f} s"))
        except TooManyRequests as error:
            self._budget.be_silent(error.retry_after or 0.0)
            self._fail(kept, error)
        except KubernetesError as error:
            self._fail(kept, error)
        except Exception as error:
            log.exception("TrainJob %s: writing its history failed", kept.key)
            self._fail(kept, error)
        else:
            kept.failures = 0
            kept.written = self._time()
            self._metrics.count("stored" if is_stored else "foreign")
            if not is_stored:
                self._look_again(kept, FOREIGN_SECONDS)
            elif kept.is_dirty:
                self._plan_write(kept, has_ended=False)
            elif is_finished(kept.job):
                # Reports may still come; then it is read again. Until then it takes no memory.
                kept.ring, kept.is_loaded, kept.version = Ring(), False, ""

    def _fail(self, kept: _Kept, error: Exception) -> None:
        self._metrics.count("failed")
        kept.failures += 1
        shortest, longest = RETRY_SECONDS
        pause = longest if isinstance(error, Forbidden) else min(longest, shortest * 2.0 ** (kept.failures - 1))
        self._say(kept, "failed", f"is not stored yet: {error}")
        self._look_again(kept, pause)

    def _look_again(self, kept: _Kept, pause: float) -> None:
        kept.not_before = self._time() + pause
        self._plan(kept, kept.not_before)

    def _say(self, kept: _Kept, what: str, text: str) -> None:
        """Log something once for each job."""
        if what not in kept.said:
            kept.said.add(what)
            log.warning("TrainJob %s: the history of its progress %s", kept.key, text)

    async def _store(self, kept: _Kept) -> bool:
        """Create or change the ConfigMap. Returns False if its name is somebody else's. Raises KubernetesError."""
        name, namespace = config_map_name(kept.job.name), kept.job.namespace
        for _ in range(ATTEMPTS):
            if not kept.is_loaded and not await self._load(kept):
                return False
            text, ring_seen = kept.ring.encode(), kept.seen
            try:
                if kept.version:
                    patch = {"metadata": {"resourceVersion": kept.version}, "data": {KEY: text}}
                    stored = await self._client.patch(ConfigMap, name, namespace, patch, type="merge")
                    kept.version = resource_version_of(stored)
                else:
                    made = await self._client.create(document_of(kept.job, text), kind=ConfigMap.RESOURCE)
                    kept.version = resource_version_of(made)
            except NotFound:
                if not kept.version:
                    raise  # the namespace is gone
                self._say(kept, "deleted", f"in ConfigMap {name} was deleted, and is made again")
                kept.version = ""
            except (Conflict, AlreadyExists):
                kept.is_loaded = False
            except KubernetesError:
                kept.may_exist = kept.may_exist or not kept.version
                raise
            else:
                kept.is_dirty, kept.may_exist = kept.seen is not ring_seen, False
                return True
        raise KubernetesError(f"ConfigMap {name} changes too often")

    async def _load(self, kept: _Kept) -> bool:
        """Put what is stored before what was seen. Returns False if the ConfigMap is somebody else's."""
        name = config_map_name(kept.job.name)
        try:
            found = await self._client.get(ConfigMap, name, kept.job.namespace)
        except NotFound:
            kept.version, kept.is_loaded = "", True
            return True
        if not belongs(found, kept.job):
            self._say(kept, "foreign", f"is not kept, because ConfigMap {name} is not the manager's; rename that one")
            return False
        if (kept.version or kept.may_exist) and kept.failures:
            log.debug("TrainJob %s: ConfigMap %s is written again after a failure", kept.key, name)
        elif kept.version:
            self._say(kept, "changed", f"in ConfigMap {name} was changed by another program; it is overwritten")
        else:
            try:
                stored = read(found.data)
            except Damaged as error:
                self._say(kept, "damaged", f"in ConfigMap {name} is damaged and begins again: {error}")
            else:
                for point in kept.ring.points():
                    stored.add(point.at, point.percentage, point.metrics, point.attempt)
                kept.ring = stored
        kept.version, kept.is_loaded = resource_version_of(found), True
        return True
