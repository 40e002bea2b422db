# SPDX-License-Identifier: Apache-2.0
"""Delays of failing keys.

A limiter is asked once per failure and counts it. `forget` is called after a success and when the object is deleted, so
that no state remains for keys that never come back.
"""

from collections.abc import Callable, Hashable
from typing import Protocol

BASE_SECONDS = 0.005
MAX_SECONDS = 1000.0


class Limiter(Protocol):
    """Returns delays in seconds."""

    def delay(self, key: Hashable) -> float:
        """Count a failure of this key and return the delay before the next try."""
        ...

    def forget(self, key: Hashable) -> None:
        """Reset the key: it succeeded, or its object is deleted."""
        ...

    def failures(self, key: Hashable) -> int:
        """Failures since the last `forget`."""
        ...


class ExponentialLimiter:
    """`base` * 2^failures, at most `maximum`, per key."""

    def __init__(self, base: float = BASE_SECONDS, maximum: float = MAX_SECONDS) -> None:
        self._base = base
        self._maximum = maximum
        self._failures: dict[Hashable, int] = {}

    def delay(self, key: Hashable) -> float:
        """With the defaults 5, 10, 20 ms …, and 1000 s from the 19th failure on."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return min(self._maximum, self._base * 2.0 ** min(count - 1, 64))  # larger exponents overflow

    def forget(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def failures(self, key: Hashable) -> int:
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        return len(self._failures)


_INSTANT = 1e-6
"""A shorter wait is none: sums of times are not exact."""


class TokenBucket:
    """`burst` at once, then `rate` per second."""

    __slots__ = ("_at", "_burst", "_time", "_tokens", "rate")

    def __init__(self, rate: float, burst: int, *, time: Callable[[], float]) -> None:
        self.rate = rate
        """Tokens a second; it may be changed, and then counts from the last use of the bucket on."""
        self._burst = float(burst)
        self._time = time
        self._tokens = float(burst)
        self._at = time()

    def delay(self) -> float:
        """Reserve one token and return the wait for it."""
        self._fill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.rate)

    def delay_within(self, seconds: float) -> float | None:
        """Reserve one token if the wait for it is not longer; else None, and nothing is reserved."""
        self._fill()
        wait = max(0.0, (1.0 - self._tokens) / self.rate)
        if wait > seconds:
            return None
        self._tokens -= 1.0
        return wait

    def wait(self) -> float:
        """Seconds until there is a token; none is reserved."""
        self._fill()
        missing = (1.0 - self._tokens) / self.rate
        return missing if missing > _INSTANT else 0.0

    def take(self) -> None:
        """Use a token if there is one."""
        self._fill()
        self._tokens = max(0.0, self._tokens - 1.0)

    def is_full(self) -> bool:
        self._fill()
        return self._tokens >= self._burst

    def give_back(self) -> None:
        """A reserved token is not used."""
        self._tokens = min(self._burst, self._tokens + 1.0)

    def _fill(self) -> None:
        now = self._time()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
