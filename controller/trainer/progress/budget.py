# SPDX-License-Identifier: Apache-2.0
"""How much progress may be written: a rate over all TrainJobs, shared by values and histories, for each replica."""

from collections.abc import Callable
from dataclasses import dataclass

_INSTANT = 1e-6
"""Shorter waits are none: the clock has not enough digits for them."""


class Allowance:
    """A bucket of tokens whose rate may change: so many at once, then one each `seconds`."""

    __slots__ = ("_at", "_capacity", "_tokens")

    def __init__(self, capacity: int, now: float) -> None:
        """Full."""
        self._capacity = float(capacity)
        self._tokens = float(capacity)
        self._at = now

    def wait(self, now: float, seconds: float) -> float:
        """Seconds until there is a token, if one comes each `seconds`."""
        self._fill(now, seconds)
        missing = (1.0 - self._tokens) * seconds
        return missing if missing > _INSTANT else 0.0

    def take(self, now: float, seconds: float) -> None:
        """Take a token, or what there is of one."""
        self._fill(now, seconds)
        self._tokens = max(0.0, self._tokens - 1.0)

    def is_full(self, now: float, seconds: float) -> bool:
        """Whether all tokens are there."""
        self._fill(now, seconds)
        return self._tokens >= self._capacity

    def _fill(self, now: float, seconds: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now - self._at) / seconds)
        self._at = now


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often is written."""

    interval: float = 10.0
    """Seconds between two writes of a TrainJob."""
    rate: float | None = 20.0
    """Writes a second over all TrainJobs; None: no limit."""
    burst: int = 40


class Budget:
    """The writes that may begin now. Retry-After of the API server stops them all."""

    def __init__(self, pace: Pace, time: Callable[[], float]) -> None:
        """`time`: seconds on a clock that never goes back."""
        self._rate, self._time = pace.rate, time
        self._allowance = Allowance(pace.burst, time())
        self.silent_until = float("-inf")
        """No write begins before; the API server asked for it."""

    def pause(self) -> float:
        """Seconds until the rate allows a write; 0: it does now."""
        return 0.0 if self._rate is None else self._allowance.wait(self._time(), 1.0 / self._rate)

    def take(self) -> None:
        """Begin a write."""
        if self._rate is not None:
            self._allowance.take(self._time(), 1.0 / self._rate)

    def be_silent(self, seconds: float) -> None:
        """Begin no write for so long."""
        self.silent_until = max(self.silent_until, self._time() + seconds)

    def each(self, jobs: int) -> float:
        """Seconds between two writes of each of so many TrainJobs, if all are written in turn."""
        return 0.0 if self._rate is None else jobs / self._rate

    def wait(self) -> float:
        """Seconds until both the rate and the API server allow a write; 0: they do now."""
        return max(self.pause(), self.silent_until - self._time())
