# SPDX-License-Identifier: Apache-2.0
"""The workers of one controller: take a key, call the reconciler, act on the result.

Guarantees: the reconciler is called for a key after every change of a watched object, at least once after the last
change. It is never called twice at once for one key. Its exceptions do not affect other keys. It is not told what
changed, because more may have changed in the meantime.

Caveats: a reconcile can be cancelled at any `await`, when the process stops or its timeout passes. It can be called
again for work that is already done.
"""

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from trainwright.api.objects import Key
from trainwright.api.surroundings import ticks
from trainwright.controller.runtime.context import Reconcile, current_reconcile
from trainwright.controller.runtime.controller.sources import KindSource, Source
from trainwright.controller.runtime.errors import ConfigurationError, Conflict, KubernetesError, NotLeading, Terminal
from trainwright.controller.runtime.tasks import TaskScope, limited
from trainwright.controller.runtime.workqueue.queue import QueueItem, QueueStatistics, WorkQueue


@dataclass(frozen=True, slots=True)
class Done:
    """Do nothing until something changes. The same as returning None."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Reconcile again after `seconds`, or earlier if something changes. Resets the failure count."""

    seconds: float
    """0 or less: the same as `Done`. For a time that may have passed, use `Context.requeue_after`, or `Backoff`."""
    priority: int | None = None
    """Priority of the next run; None keeps the current one."""
    reason: str = "retry after"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Retry after a delay that grows with each failure in a row. The failure count is kept."""

    reason: str
    priority: int | None = None
    """Priority of the next run; None keeps the current one."""
    at_most: float | None = None
    """Upper bound of the delay in seconds, such as the time left until a deadline; None: the limiter's delay alone.

    The bound shortens one delay. It does not reset the failure count, so the delays after it go on growing.
    """
    error: Exception | None = None
    """The failure to retry, if there is one: logged and counted as if it had been raised.

    A `Terminal` error is not retried. With `at_most` the key is still looked at once more after that time.
    """


Result: TypeAlias = Done | RetryAfter | Backoff | None


log = logging.getLogger(__name__)

Reconciler: TypeAlias = Callable[[Key], Awaitable[Result]]

_PROCESS = os.urandom(6).hex()
"""Begins the id of each reconcile, so that the ids of two processes differ."""
WAITING_LOG_SECONDS = 10.0


class ReconcileTimeout(Exception):  # noqa: N818 - not an error of the reconciler
    """The reconcile exceeded its timeout and was cancelled."""


class ReconcileOutcome(NamedTuple):
    """How a reconcile ended: success, requeue_after, requeue or error, and its duration."""

    result: str
    seconds: float
    terminal: bool = False
    crashed: bool = False
    """An error that neither the API server nor the network explains: a defect of the reconciler."""
    timed_out: bool = False


class ControllerObserver(Protocol):
    """Is told of every reconcile."""

    def started(self) -> None:
        """A worker starts a reconcile."""
        ...

    def ended(self, outcome: ReconcileOutcome) -> None:
        """A reconcile has ended."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    """A snapshot."""

    name: str
    workers: int
    active: int
    waiting_for: tuple[str, ...]
    """Sources without their first list, with their last error."""
    queue: QueueStatistics


def check_limits(name: str, workers: int, timeout: float | None) -> None:
    """Raises ConfigurationError for settings with which no reconcile could succeed."""
    if workers < 1:
        raise ConfigurationError(f"controller {name}: workers must be 1 or more, not {workers}")
    if timeout is not None and timeout <= 0:
        raise ConfigurationError(f"controller {name}: timeout must be more than 0 s, not {timeout}; None: no limit")


class Controller:
    """Runs a reconciler over keys. Built by `Builder`."""

    synced: bool
    """Whether it runs and all sources have started; those of a replica that does not lead have not."""

    def __init__(
        self,
        name: str,
        reconcile: Reconciler,
        sources: Sequence[Source],
        queue: WorkQueue[Key],
        *,
        workers: int,
        timeout: float | None,
        sync_timeout: float,
        needs_leader: bool,
        observer: ControllerObserver | None = None,
    ) -> None:
        """As `Builder.reconcile`. Raises ConfigurationError for settings or a reconciler that cannot work."""
        check_limits(name, workers, timeout)
        if not inspect.iscoroutinefunction(reconcile) and not inspect.iscoroutinefunction(
            getattr(reconcile, "__call__", None)  # noqa: B004 - the method is needed, not whether it exists
        ):
            raise ConfigurationError(f"controller {name}: reconcile must be an async function of one key")
        self.name = name
        self.queue = queue
        self.needs_leader = needs_leader
        self._workers = workers
        self._timeout = timeout
        self._sync_timeout = sync_timeout
        self._reconcile = reconcile
        self._sources = tuple(sources)
        self._observer = observer
        self._active = 0
        self._calls = 0
        self._waiting: list[Source] = []
        self.synced = False
        self._starting: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Wait for the sources, then work until `request_stop` or cancellation.

        Raises TimeoutError that names the sources without a first list, with the reason.
        """
        async with TaskScope(f"controller:{self.name}") as tasks:
            await self._start_sources(tasks)
            if self._waiting:
                return  # the stop came before all sources were ready
            self.synced = True
            log.info("controller %s: %d workers", self.name, self._workers)
            workers = [tasks.start(f"worker:{self.name}/{n}", self._work()) for n in range(self._workers)]
            for worker in workers:
                await worker

    def request_stop(self) -> None:
        """Take no more keys; `run` returns when the running reconciles have ended."""
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
                f"controller {self.name}: no first list after {self._sync_timeout:.0f} s of {missing}"
            ) from None
        ticker.cancel()

    async def _start(self, source: Source) -> None:
        await source.start(self.queue)
        self._waiting.remove(source)

    async def _report_waiting(self) -> None:
        while True:
            await asyncio.sleep(WAITING_LOG_SECONDS)
            log.warning("controller %s waits for the first list of %s", self.name, "; ".join(self._missing()))

    def _missing(self) -> tuple[str, ...]:
        texts = []
        for source in self._waiting:
            error = source.informer.last_error if isinstance(source, KindSource) else None
            texts.append(f"{source.name}: {error}" if error else source.name)
        return tuple(texts)

    def statistics(self) -> ControllerStatistics:
        return ControllerStatistics(self.name, self._workers, self._active, self._missing(), self.queue.statistics())

    # ------------------------------------------------------------------ work

    async def _work(self) -> None:
        queue = self.queue
        while (item := await queue.get()) is not None:
            try:
                await self._handle(item)
            finally:
                queue.done(item.key)

    async def _handle(self, item: QueueItem[Key]) -> None:
        failures = self.queue.limiter.failures(item.key)
        self._calls += 1
        call = f"{_PROCESS}-{self._calls:08x}"
        token = current_reconcile.set(Reconcile(self.name, item.key, call, item.reasons, item.priority, failures))
        self._active += 1
        if self._observer:
            self._observer.started()
        started = ticks()
        try:
            outcome = await self._attempt(item, started)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s %s: %s in %.3f s", self.name, item.key, outcome.result, outcome.seconds)
            if self._observer:  # a reconcile that is cancelled because the process stops has no outcome
                self._observer.ended(outcome)
        finally:
            self._active -= 1
            current_reconcile.reset(token)

    async def _attempt(self, item: QueueItem[Key], started: float) -> ReconcileOutcome:
        key = item.key
        bound = Backoff("")
        try:
            result = await self._call(key)
            if isinstance(result, Backoff) and result.error is not None:
                bound = result
                raise result.error
            outcome = self._settle(item, result)
        except Terminal as error:
            log.error("%s %s: not retried: %s", self.name, key, error)  # noqa: TRY400 - expected, no traceback
            return self._given_up(item, bound, started)
        except ReconcileTimeout as error:
            self._retry(item, Backoff(str(error)), logging.ERROR)
            return ReconcileOutcome("error", ticks() - started, timed_out=True)
        except (Conflict, NotLeading) as error:
            what = "conflict" if isinstance(error, Conflict) else "not leading"
            reason = f"{what}: {error}"
            self._retry(item, replace(bound, reason=reason), logging.INFO)  # not an error
            return ReconcileOutcome("requeue", ticks() - started)
        except Exception as error:
            if _terminal_inside(error):
                log.exception("%s %s: not retried", self.name, key)
                return self._given_up(item, bound, started)
            delay = self._requeue(item, replace(bound, reason=type(error).__name__))
            log.exception("%s %s: reconcile failed, retry in %.3g s", self.name, key, delay)
            return ReconcileOutcome(
                "error", ticks() - started, crashed=not isinstance(error, (OSError, KubernetesError))
            )
        return ReconcileOutcome(outcome, ticks() - started)

    def _given_up(self, item: QueueItem[Key], bound: Backoff, started: float) -> ReconcileOutcome:
        """The outcome of a terminal error. Only `at_most` of a `Backoff` queues the key again."""
        if bound.at_most is not None:
            self.queue.add(item.key, priority=_priority(item, bound), after=bound.at_most, reason=bound.reason)
        return ReconcileOutcome("error", ticks() - started, terminal=True)

    async def _call(self, key: Key) -> Result:
        try:
            seconds = self._timeout
            if seconds is None:
                return await self._reconcile(key)
            text = f"the reconcile was cancelled after {seconds} s"
            async with limited(asyncio.timeout(seconds), lambda: ReconcileTimeout(text)):
                return await self._reconcile(key)
        except asyncio.CancelledError as error:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            # The reconciler awaited a cancelled task. The worker must go on.
            raise RuntimeError("the reconcile was cancelled, but not by its controller") from error

    def _settle(self, item: QueueItem[Key], result: object) -> str:
        """Act on a result; returns the name of the outcome. Raises TypeError for anything that is not a result."""
        if result is None or isinstance(result, Done):
            self.queue.forget(item.key)
            return "success"
        if isinstance(result, RetryAfter):
            self.queue.forget(item.key)
            if result.seconds <= 0:
                return "success"
            self.queue.add(item.key, priority=_priority(item, result), after=result.seconds, reason=result.reason)
            return "requeue_after"
        if isinstance(result, Backoff):
            self._retry(item, result, logging.DEBUG)
            return "requeue"
        raise TypeError(f"reconcile returned {result!r}; return Done, RetryAfter, Backoff or None")

    def _retry(self, item: QueueItem[Key], backoff: Backoff, level: int) -> None:
        delay = self._requeue(item, backoff)
        log.log(level, "%s %s: %s; retry in %.3g s", self.name, item.key, backoff.reason, delay)

    def _requeue(self, item: QueueItem[Key], backoff: Backoff) -> float:
        """Queue the key again after the limiter's delay, at most `at_most`; returns the seconds."""
        return self.queue.add_rate_limited(
            item.key, priority=_priority(item, backoff), at_most=backoff.at_most, reason=backoff.reason[:80]
        )


def _priority(item: QueueItem[Key], result: RetryAfter | Backoff) -> int:
    return item.priority if result.priority is None else result.priority


def _terminal_inside(error: BaseException | None) -> bool:
    """Whether a Terminal is in the chain of causes or in an exception group."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Terminal):
            return True
        if isinstance(error, BaseExceptionGroup) and any(_terminal_inside(child) for child in error.exceptions):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False
