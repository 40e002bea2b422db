# SPDX-License-Identifier: Apache-2.0
"""What makes two runs of a seed equal: random numbers and time from the seed, a trace to compare, and a guard.

The guard reports code that takes time, random numbers, threads or sockets from elsewhere. It sees functions that are
called through their modules, such as `time.time()`. Functions that were imported by name, and `datetime.now`, are found
in the source: hack/seams.py.
"""

import asyncio
import hashlib
import os
import random
import secrets
import socket
import sys
import sysconfig
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from trainwright.api.surroundings import Surroundings

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
    """Time and chance of one simulated process.

    Args:
        chance: of the world.
        name: of the process; also that of its machine.
    """

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
        """A UUID that the seed decides."""
        return uuid.UUID(int=self._stream.getrandbits(128), version=4)

    def stamp(self) -> int:
        """Nanoseconds of the process's own time, never the same twice."""
        self._stamp = max(self._stamp + 1, round(self.now().timestamp() * 1e6) * 1000)
        return self._stamp

    def host(self) -> str:
        return self.name


class Trace:
    """Lines with the virtual time, and a digest of all of them and of all bodies.

    Args:
        keep: keep the lines, for the story of one life and to find the first difference between two.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, text: str, body: bytes = b"") -> None:
        """Note what happens now.

        Args:
            kind: one word.
            text: a sentence.
            body: bytes that belong to it; only their digest is kept.
        """
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
    """Tell of each place that calls one of SOURCES, once, for the length of the block.

    Places in this package and in the operator count, and those in libraries do not.

    Args:
        tell: takes a sentence.
    """
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
