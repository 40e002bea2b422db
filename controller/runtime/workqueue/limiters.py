# SPDX-License-Identifier: Apache-2.0
"""How long a failing key waits (Q-25 to Q-33).

A limiter is asked once per failure and moves on with each question. `forget` is called after a success, and when the
object is gone, so that nothing stays behind for keys that never come back.
"""

from collections.abc import Callable, Hashable
from typing import Protocol

BASE_SECONDS = 0.005
MAX_SECONDS = 1000.0


class Limiter(Protocol):
    """Gives delays in seconds."""

    def delay(self, key: Hashable) -> float:
        """The delay after one more failure of this key."""
        ...

    def forget(self, key: Hashable) -> None:
        """The key is fine, or gone."""
        ...

    def failures(self, key: Hashable) -> int:
        """Failures since the key was forgotten last."""
        ...


class ExponentialLimiter:
    """base * 2^failures, at most `maximum`, each key for itself."""

    def __init__(self, base: float = BASE_SECONDS, maximum: float = MAX_SECONDS) -> None:
        self._base = base
        self._maximum = maximum
        self._failures: dict[Hashable, int] = {}

    def delay(self, key: Hashable) -> float:
        """5, 10, 20 ms … with the defaults, 1000 s from the 19th failure on."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if failures > 64:  # beyond any maximum, and beyond what a float can hold sooner or later
            return self._maximum
        return min(self._maximum, self._base * 2.0**failures)

    def forget(self, key: Hashable) -> None:
        """Back to the first delay."""
        self._failures.pop(key, None)

    def failures(self, key: Hashable) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        return len(self._failures)


class TokenBucket:
    """One bucket for all keys: `burst` at once, then `rate` per second. A burst of failures delays unrelated keys."""

    def __init__(self, rate: float, burst: int, *, time: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._time = time
        self._tokens = float(burst)
        self._at = time()

    def delay(self, key: Hashable) -> float:  # noqa: ARG002 - all keys share the bucket
        """Reserves one token."""
        now = self._time()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: Hashable) -> None:
        """Nothing to forget."""

    def failures(self, key: Hashable) -> int:  # noqa: ARG002 - not counted by key
        """Always 0."""
        return 0


class FastSlowLimiter:
    """`fast` for the first `attempts` failures, `slow` afterwards."""

    def __init__(self, fast: float, slow: float, attempts: int) -> None:
        self._fast = fast
        self._slow = slow
        self._attempts = attempts
        self._failures: dict[Hashable, int] = {}

    def delay(self, key: Hashable) -> float:
        """One of the two."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return self._fast if failures <= self._attempts else self._slow

    def forget(self, key: Hashable) -> None:
        """Back to fast."""
        self._failures.pop(key, None)

    def failures(self, key: Hashable) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)


class MaxOf:
    """The longest of several delays; every member moves on with each question."""

    def __init__(self, *limiters: Limiter) -> None:
        self._limiters = limiters

    def delay(self, key: Hashable) -> float:
        """The longest."""
        return max([limiter.delay(key) for limiter in self._limiters])

    def forget(self, key: Hashable) -> None:
        """Passed on to all."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: Hashable) -> int:
        """The largest count."""
        return max(limiter.failures(key) for limiter in self._limiters)


class Capped:
    """Another limiter's delay, but never more than `maximum` seconds."""

    def __init__(self, limiter: Limiter, maximum: float) -> None:
        self._limiter = limiter
        self._maximum = maximum

    def delay(self, key: Hashable) -> float:
        """The smaller of the two."""
        return min(self._maximum, self._limiter.delay(key))

    def forget(self, key: Hashable) -> None:
        """Passed on."""
        self._limiter.forget(key)

    def failures(self, key: Hashable) -> int:
        """Passed on."""
        return self._limiter.failures(key)
