# SPDX-License-Identifier: Apache-2.0
"""What makes two runs of a seed equal: virtual time, random numbers from the seed, a trace to compare, and a guard.

The event loop has no sockets and no threads. Where nothing is ready, the clock moves to the next timer. Work for
threads is done at once. Tasks and futures are told apart by numbers in the order of their making, not by addresses, so
that sets of them have the same order each time.

The guard reports code that takes time, random numbers, threads or sockets from elsewhere. It sees functions that are
called through their modules, such as `time.time()`. Functions that were imported by name, and `datetime.now`, are found
in the source: hack/seams.py.
"""

import asyncio
import hashlib
import heapq
import math
import os
import random
import secrets
import selectors
import socket
import sys
import sysconfig
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from trainwright.api.surroundings import Surroundings, present

STEPS_PER_MOMENT = 20_000
"""Turns of the loop within a millisecond of virtual time that are taken for a hot loop."""
_MOMENT_SECONDS = 1e-3
_SHOWN = 5

AT_SERVER: ContextVar[bool] = ContextVar("at_server", default=False)
"""Set while a task of a process does what a server in the same loop does for it, which goes on if it freezes."""


class HotLoopError(Exception):
    """Too many callbacks ran without time passing."""


class DeadlockError(Exception):
    """Every task waits, and there is no timer, or none before the end of the simulation."""


class _Task(asyncio.Task[Any]):
    number = 0
    surroundings: Surroundings
    """Of the process that started it."""

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    number = 0

    def __hash__(self) -> int:
        return self.number


class _NoSelector(selectors.SelectSelector):
    """Nothing is ever ready; instead of waiting the clock moves."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[Any]:
        self._advance(timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its clock starts at 0.

    Args:
        end: virtual seconds after which the main task must have ended.

    Raises, out of `run_until_complete`: HotLoopError, DeadlockError.
    """

    def __init__(self, *, end: float = 200_000.0) -> None:
        self._now = 0.0
        self._end = end
        self._made = 0
        self._moment, self._turns = 0.0, 0
        self._frozen: dict[Surroundings, list[asyncio.Handle]] = {}
        super().__init__(_NoSelector(self._advance))
        self._clock_resolution = 1e-9
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # Python 3.11 passes the context only if there is one

    def time(self) -> float:
        return self._now

    def call_later(  # type: ignore[override]  # the arguments of any callback
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in every loop, but time goes on, however small the delay is: nothing else lets it pass here."""
        due = self._now + delay
        if delay > 0 and due <= self._now:
            due = math.nextafter(self._now, math.inf)
        return self.call_at(due, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in every loop, but no timer of the future is due before the clock has reached it.

        Loops run what is due within their resolution. Whoever then finds that it is not time yet waits again, and if
        many do so at one moment, the clock never moves.
        """
        if self._now < when <= self._now + 2 * self._clock_resolution:
            when = self._now + 2 * self._clock_resolution
        return super().call_at(when, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        made = _Future(loop=self)
        made.number = self._next()
        return made

    def tasks_of(self, surroundings: Surroundings) -> int:
        return sum(isinstance(one, _Task) and one.surroundings is surroundings for one in asyncio.all_tasks(self))

    def freeze(self, surroundings: Surroundings) -> None:
        """Let nothing of a process run, as SIGSTOP does, while time goes on."""
        self._frozen.setdefault(surroundings, [])

    def thaw(self, surroundings: Surroundings) -> None:
        """Let a process run again: all that came due meanwhile is ready now, in that order."""
        for handle in self._frozen.pop(surroundings, ()):
            self._ready.append(handle)  # type: ignore[attr-defined]  # has no public name

    def _run_once(self) -> None:
        if self._frozen:
            ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # as above
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not self._is_held(handle):
                    ready.append(handle)
        super()._run_once()  # type: ignore[misc]  # as above

    def _hold_timers(self) -> None:
        """Keep timers of frozen processes that are due from being run."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # as above
        due = sorted(one for one in scheduled if one.when() <= self._now + self._clock_resolution)
        held = {id(one) for one in due if self._is_held(one)}
        if held:
            for one in due:
                if id(one) in held:
                    one._scheduled = False  # type: ignore[attr-defined]  # noqa: SLF001 - as the loop does
            scheduled[:] = [one for one in scheduled if id(one) not in held]
            heapq.heapify(scheduled)

    def _is_held(self, handle: asyncio.Handle) -> bool:
        """Whether it belongs to a frozen process, which keeps it then."""
        context: Context = handle._context  # type: ignore[attr-defined]  # noqa: SLF001 - has no public name
        held = None if context.get(AT_SERVER, False) else self._frozen.get(context.run(present))
        if held is None or handle.cancelled():
            return False
        held.append(handle)
        return True

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], *, context: Context | None = None
    ) -> asyncio.Task[Any]:
        made = _Task.__new__(_Task)
        made.number = self._next()  # before it is put into the set of all tasks
        made.surroundings = present() if context is None else context.run(present)
        made.__init__(work, loop=loop, context=context)  # type: ignore[misc]
        return made

    def _next(self) -> int:
        self._made += 1
        return self._made

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ARG002 - of every loop
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Do the work now. The caller goes on a turn later, as it would after a thread."""
        future = self.create_future()
        try:
            result = func(*args)
        except BaseException as error:  # as an executor
            future.set_exception(error)
        else:
            self.call_soon(lambda: None if future.done() else future.set_result(result))
        return future

    def _advance(self, timeout: float | None) -> None:
        if timeout is None:
            raise DeadlockError(f"every task waits, and there is no timer: {self._places()}")
        if timeout > 0:
            # Exactly to the timer: the sum of now and the difference may be a little less, and whoever finds its key
            # not due yet sets the timer again.
            scheduled = self._scheduled  # type: ignore[attr-defined]  # the heap of timers has no public name
            due = max(self._now, scheduled[0].when() if scheduled else self._now + timeout)
            if due > self._end:
                raise DeadlockError(f"the simulation has not ended after {self._end:.0f} s of virtual time")
            self._now = due
        if self._frozen:
            self._hold_timers()
        if self._now - self._moment > _MOMENT_SECONDS:
            self._moment, self._turns = self._now, 0
            return
        self._turns += 1
        if self._turns > STEPS_PER_MOMENT:
            self._turns = 0  # the tasks that are cancelled now need some more
            turns = f"{STEPS_PER_MOMENT} turns of the loop within a millisecond, at {self._now:.3f} s"
            raise HotLoopError(f"{turns}: {self._places()}")

    def _places(self) -> str:
        """Where the tasks are that run next, or the newest ones, for whoever looks for the one that spins or waits."""
        ready = [getattr(one._callback, "__self__", None) for one in self._ready]  # type: ignore[attr-defined]  # noqa: SLF001
        tasks: list[asyncio.Task[Any]] = [one for one in ready if isinstance(one, _Task)]
        tasks = tasks or sorted(asyncio.all_tasks(self), key=hash)
        found = []
        for task in tasks[-_SHOWN:]:
            places = [f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in task.get_stack(limit=2)]
            found.append(f"{task.get_name()} at {' < '.join(reversed(places))}")
        return "; ".join(found)


# ---------------------------------------------------------------------- chance, traces and the guard

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The time of day at which each world begins."""
SOURCES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")),
    (random, ("random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "getrandbits")),
    (uuid, ("uuid1", "uuid4")),
    (secrets, ("choice", "randbelow", "randbits", "token_bytes", "token_hex", "token_urlsafe")),
    (os, ("urandom", "getpid")),
    (threading.Thread, ("start",)),
    (ThreadPoolExecutor, ("submit",)),
    (socket, ("gethostname", "getfqdn", "getaddrinfo", "create_connection", "create_server")),
    (socket.socket, ("__init__",)),
)
"""What takes something from outside."""
_SEAMS = (
    "trainwright.api.surroundings",
    "trainwright.controller.simulation.",
    "trainwright.controller.runtime.lag",  # measures the real loop, and is off in a world
)
_LIBRARIES = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
"""Code of others, such as a log that stamps its lines."""


class Chance:
    """One stream of numbers for each actor, so that a decision of one does not shift those of another."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def of(self, name: str) -> random.Random:
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self.seed}/{name}")  # noqa: S311 - no secret
        return found


class SimulatedSurroundings(Surroundings):
    """Time and chance of one simulated process, whose machine has its name."""

    def __init__(self, chance: Chance, name: str) -> None:
        super().__init__()
        self.name = name
        self.skew = 0.0
        """Seconds by which the wall clock of the process is ahead."""
        self._stream = chance.of(f"process/{name}")

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=round(asyncio.get_running_loop().time() + self.skew, 6))

    def ticks(self) -> float:
        """Virtual seconds: work takes none, so that no task yields because a machine is slow."""
        return asyncio.get_running_loop().time()

    def random(self) -> random.Random:
        return self._stream

    def uid(self) -> uuid.UUID:
        return uuid.UUID(int=self._stream.getrandbits(128), version=4)

    def stamp(self) -> int:
        """Nanoseconds of the process's own time, never the same twice."""
        self._stamp = max(self._stamp + 1, round(self.now().timestamp() * 1e6) * 1000)
        return self._stamp

    def host(self) -> str:
        return self.name


class Trace:
    """Lines with the virtual time, kept for a story if asked for, and a digest of all of them and of all bodies."""

    def __init__(self, *, keep: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, text: str, body: bytes = b"") -> None:
        """Note what happens now: a kind, a sentence, and bytes of which only the digest is kept."""
        line = f"{asyncio.get_running_loop().time():12.6f} {kind:8} {text}"
        if body:
            line += f" #{hashlib.blake2b(body, digest_size=6).hexdigest()}"
        self._digest.update(line.encode())
        self.counts[kind] += 1
        if self._keep:
            self.lines.append(line)

    def sometimes(self, what: str) -> None:
        """Count a situation that simulations must meet; what none meets is not tested."""
        self.counts[f"sometimes: {what}"] += 1

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


@contextmanager
def guarded(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell of each place of this package or of the operator that calls one of SOURCES, once, during the block."""
    known: set[tuple[str, int]] = set()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - who calls
            module: str = frame.f_globals.get("__name__", "")
            place = (frame.f_code.co_filename, frame.f_lineno)
            counts = module.startswith("trainwright.") or not place[0].startswith(_LIBRARIES)
            if counts and not module.startswith(_SEAMS) and place not in known:
                known.add(place)
                tell(f"{place[0]}:{place[1]} calls {name}; take it from trainwright.api.surroundings")
            return function(*args, **kwargs)

        return call

    with ExitStack() as stack:
        for owner, names in SOURCES:
            for name in names:
                whole = f"{getattr(owner, '__module__', None) or owner.__name__}.{name}"
                stack.enter_context(mock.patch.object(owner, name, watched(whole, getattr(owner, name))))
        yield
