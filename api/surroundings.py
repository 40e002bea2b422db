# SPDX-License-Identifier: Apache-2.0
"""What a process takes from outside of itself: the time of day, chance, the name of its machine.

Everything asks here, so a simulation can give a whole process, with all of its tasks, another time and a chance that a
seed decides: `entered` sets the surroundings of the present context, and tasks inherit the context in which they are
started. Without it they are those of the machine.

Secrets, such as keys and tokens, never come from here.
"""

import random
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from time import perf_counter


class Surroundings:
    """Those of this machine. Subclasses give others."""

    def __init__(self) -> None:
        self._stamp = 0

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def ticks(self) -> float:
        """Seconds of a clock that only says how long work took."""
        return perf_counter()

    def random(self) -> random.Random:
        """A source of numbers that are no secret. It need not be the same one each time."""
        return random  # type: ignore[return-value]  # the module's functions are the methods of one such object

    def uid(self) -> uuid.UUID:
        """A UUID of version 4."""
        return uuid.uuid4()

    def stamp(self) -> int:
        """Nanoseconds since the epoch; a process never gets the same twice."""
        self._stamp = max(self._stamp + 1, time.time_ns())
        return self._stamp

    def host(self) -> str:
        """The name of the machine."""
        return socket.gethostname()


_present: ContextVar[Surroundings] = ContextVar("surroundings", default=Surroundings())  # noqa: B039 - one for the process


def present() -> Surroundings:
    """The surroundings of the running context."""
    return _present.get()


@contextmanager
def entered(surroundings: Surroundings) -> Iterator[None]:
    """Use other surroundings in this context, and in tasks that are started in it, for the length of the block."""
    token = _present.set(surroundings)
    try:
        yield
    finally:
        _present.reset(token)


def ticks() -> float:
    """Seconds of a clock that only says how long work took."""
    return _present.get().ticks()


def fraction() -> float:
    """A number in [0, 1), such as for jitter."""
    return _present.get().random().random()


def uniform(low: float, high: float) -> float:
    """A number between two others."""
    return _present.get().random().uniform(low, high)


def letters(alphabet: str, count: int) -> str:
    """Random letters of an alphabet, for names."""
    return "".join(_present.get().random().choices(alphabet, k=count))


def new_uid() -> str:
    """A UUID of version 4 as text, as objects and requests have them."""
    return str(_present.get().uid())


def stamp() -> int:
    """Nanoseconds since the epoch, never the same twice, as in the names of events."""
    return _present.get().stamp()


def host() -> str:
    """The name of the machine."""
    return _present.get().host()
