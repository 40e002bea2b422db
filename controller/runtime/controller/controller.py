# SPDX-License-Identifier: Apache-2.0
"""The workers of one controller: take a key, call the reconciler, act on the outcome (K-25 to K-41).

Guarantees for a reconciler: it is called for a key whenever something that the controller watches changed, at least
once after the last change; never twice at once for one key; its exceptions stay its own. It is not told what changed,
because by then more may have. Caveats: it may be cancelled at any `await` when the process stops or its timeout passes,
and it will be called again for work that is already done.
"""

import asyncio
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from trainwright.controller.runtime.context import Reconcile, current
from trainwright.controller.runtime.controller.results import Backoff, Done, Result, RetryAfter
from trainwright.controller.runtime.controller.sources import KindSource, Source
from trainwright.controller.runtime.errors import ConfigurationError, Conflict, NotLeading, Terminal
from trainwright.controller.runtime.objects import Key
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.workqueue.entries import Item, QueueStatistics
from trainwright.controller.runtime.workqueue.queue import WorkQueue

log = logging.getLogger(__name__)

Reconciler: TypeAlias = Callable[[Key], Awaitable[Result]]

WORKERS = 16
SYNC_SECONDS = 120.0
WAITING_LOG_SECONDS = 10.0


class ReconcileTimeout(Exception):  # noqa: N818 - it is no error of the reconciler's
    """The reconcile took longer than the controller allows and was cancelled."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one reconcile ended: success, requeue_after, requeue or error, and what it took."""

    result: str
    seconds: float
    terminal: bool = False
    crashed: bool = False
    timed_out: bool = False


class ControllerObserver(Protocol):
    """Hears of every reconcile."""

    def started(self) -> None:
        """A worker begins."""
        ...

    def ended(self, outcome: Outcome) -> None:
        """A worker is finished with a key."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    """A snapshot."""

    name: str
    workers: int
    active: int
    waiting_for: tuple[str, ...]
    """Sources that have not delivered their first list yet, with the last error."""
    queue: QueueStatistics


class Controller:
    """Runs a reconciler over keys. Built by `Builder`."""

    def __init__(
        self,
        name: str,
        reconcile: Reconciler,
        sources: Sequence[Source],
        queue: WorkQueue[Key],
        *,
        workers: int = WORKERS,
        timeout: float | None = None,
        sync_timeout: float = SYNC_SECONDS,
        needs_leader: bool = True,
        observer: ControllerObserver | None = None,
    ) -> None:
        """`timeout` bounds one reconcile and `sync_timeout` the first lists, in seconds."""
        if workers < 1:
            raise ConfigurationError(f"controller {name}: workers must be 1 or more, not {workers}")
        if not inspect.iscoroutinefunction(reconcile) and not inspect.iscoroutinefunction(
            getattr(reconcile, "__call__", None)  # noqa: B004 - the method is wanted, not whether there is one
        ):
            raise ConfigurationError(f"controller {name}: reconcile must be an async function of one key")
        self.name = name
        self.queue = queue
        self.workers = workers
        self.needs_leader = needs_leader
        self.timeout = timeout
        self._reconcile = reconcile
        self._sources = tuple(sources)
        self._sync_timeout = sync_timeout
        self._observer = observer
        self._active = 0
        self._waiting: list[Source] = []
        self._starting: list[asyncio.Task[None]] = []
        for source in self._sources:
            if isinstance(source, KindSource):
                source.attach(queue)

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Wait for the sources, then work until `request_stop` or cancellation.

        Raises TimeoutError that names the sources whose first list did not come, with the reason.
        """
        async with TaskScope(f"controller:{self.name}") as tasks:
            await self._start_sources(tasks)
            if self._waiting:
                return  # the end was asked for before everything was there
            log.info("controller %s: %d workers", self.name, self.workers)
            workers = [tasks.start(f"worker:{self.name}/{n}", self._work()) for n in range(self.workers)]
            for worker in workers:
                await worker

    def request_stop(self) -> None:
        """Hand out no further keys; `run` returns when the running reconciles have ended."""
        self.queue.shut_down()
        for start in self._starting:
            start.cancel()

    async def _start_sources(self, tasks: TaskScope) -> None:
        self._waiting = list(self._sources)
        self._starting = [
            tasks.start(f"source:{self.name}/{source.name}", self._start(source)) for source in self._sources
        ]
        ticker = tasks.start(f"source:{self.name}/waiting", self._report_waiting())
        try:
            async with asyncio.timeout(self._sync_timeout):
                if self._starting:
                    await asyncio.wait(self._starting)
        except TimeoutError:
            missing = "; ".join(self._missing())
            raise TimeoutError(
                f"controller {self.name}: no first list within {self._sync_timeout:.0f} s of {missing}"
            ) from None
        ticker.cancel()

    async def _start(self, source: Source) -> None:
        await source.start(self.queue)
        self._waiting.remove(source)

    async def _report_waiting(self) -> None:
        while True:
            await asyncio.sleep(WAITING_LOG_SECONDS)
            log.warning("controller %s waits for %s", self.name, "; ".join(self._missing()))

    def _missing(self) -> tuple[str, ...]:
        texts = []
        for source in self._waiting:
            error = source.informer.last_error if isinstance(source, KindSource) else None
            texts.append(f"{source.name}: {error}" if error else source.name)
        return tuple(texts)

    @property
    def synced(self) -> bool:
        """Whether all sources have started."""
        return not self._waiting

    def statistics(self) -> ControllerStatistics:
        """A snapshot."""
        return ControllerStatistics(self.name, self.workers, self._active, self._missing(), self.queue.statistics())

    # ------------------------------------------------------------------ work

    async def _work(self) -> None:
        while True:
            async with self.queue.take() as item:
                if item is None:
                    return
                await self._handle(item)

    async def _handle(self, item: Item[Key]) -> None:
        failures = self.queue.limiter.failures(item.key)
        token = current.set(Reconcile(self.name, item.key, uuid.uuid4().hex, item.reasons, item.priority, failures))
        self._active += 1
        if self._observer:
            self._observer.started()
        started = time.perf_counter()
        try:
            outcome = await self._attempt(item, started)
            log.debug("%s %s: %s in %.3f s", self.name, item.key, outcome.result, outcome.seconds)
            if self._observer:  # a reconcile that was cancelled because the process stops has no outcome
                self._observer.ended(outcome)
        finally:
            self._active -= 1
            current.reset(token)

    async def _attempt(self, item: Item[Key], started: float) -> Outcome:
        key = item.key
        try:
            result = await self._call(key)
            outcome = self._settle(item, result)
        except Terminal as error:
            log.error("%s %s: will not be retried: %s", self.name, key, error)  # noqa: TRY400 - expected, no traceback
            return Outcome("error", time.perf_counter() - started, terminal=True)
        except ReconcileTimeout as error:
            self._retry(item, None, str(error), logging.ERROR)
            return Outcome("error", time.perf_counter() - started, timed_out=True)
        except (Conflict, NotLeading) as error:
            what = "conflict" if isinstance(error, Conflict) else "not leading"
            self._retry(item, None, f"{what}: {error}", logging.INFO)  # neither an error nor the user's business
            return Outcome("requeue", time.perf_counter() - started)
        except Exception as error:
            if _terminal_inside(error):
                log.exception("%s %s: will not be retried", self.name, key)
                return Outcome("error", time.perf_counter() - started, terminal=True)
            delay = self.queue.add_rate_limited(key, priority=item.priority, reason=type(error).__name__)
            log.exception("%s %s: reconcile failed, next try in %.3g s", self.name, key, delay)
            return Outcome("error", time.perf_counter() - started, crashed=not isinstance(error, OSError))
        return Outcome(outcome, time.perf_counter() - started)

    async def _call(self, key: Key) -> Result:
        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                return await self._reconcile(key)
        except TimeoutError:
            if limit.expired():
                raise ReconcileTimeout(f"cancelled after {self.timeout} s") from None
            raise
        except asyncio.CancelledError as error:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            # The reconciler awaited something that was cancelled; that must not end the worker.
            raise RuntimeError("reconcile was cancelled, and not by its controller") from error

    def _settle(self, item: Item[Key], result: object) -> str:
        """Act on what the reconciler returned; gives the name of the outcome. Raises TypeError for nonsense."""
        if result is None or isinstance(result, Done):
            self.queue.forget(item.key)
            return "success"
        if isinstance(result, RetryAfter):
            self.queue.forget(item.key)
            if result.seconds <= 0:
                return "success"
            priority = item.priority if result.priority is None else result.priority
            self.queue.add(item.key, priority=priority, after=result.seconds, reason=result.reason)
            return "requeue_after"
        if isinstance(result, Backoff):
            self._retry(item, result.priority, result.reason, logging.DEBUG)
            return "requeue"
        raise TypeError(f"reconcile returned {result!r}; it must be Done, RetryAfter, Backoff or None")

    def _retry(self, item: Item[Key], priority: int | None, reason: str, level: int) -> None:
        chosen = item.priority if priority is None else priority
        delay = self.queue.add_rate_limited(item.key, priority=chosen, reason=reason[:80])
        log.log(level, "%s %s: %s; next try in %.3g s", self.name, item.key, reason, delay)


def _terminal_inside(error: BaseException | None) -> bool:
    """Whether a Terminal is anywhere in the chain of causes, or in an exception group."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Terminal):
            return True
        if isinstance(error, BaseExceptionGroup) and any(_terminal_inside(child) for child in error.exceptions):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False
