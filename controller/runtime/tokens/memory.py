# SPDX-License-Identifier: Apache-2.0
"""Remembers results for a while, up to a maximum of entries: the oldest entry makes room for a new one."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TokenMemory(Generic[K, V]):
    """Values by key, each with a time at which it is forgotten."""

    def __init__(self, most: int, *, time: Callable[[], float]) -> None:
        """`most`: entries. `time`: a clock in seconds that never goes back."""
        self._most = most
        self._time = time
        self._held: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """The value, or None if it is not remembered."""
        held = self._held.get(key)
        if held is None:
            return None
        if held[0] <= self._time():
            del self._held[key]
            return None
        return held[1]

    def put(self, key: K, value: V, seconds: float) -> None:
        self._held.pop(key, None)
        while len(self._held) >= self._most:
            del self._held[next(iter(self._held))]
        self._held[key] = (self._time() + seconds, value)

    def __len__(self) -> int:
        return len(self._held)
