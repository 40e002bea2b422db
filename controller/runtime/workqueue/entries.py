# SPDX-License-Identifier: Apache-2.0
"""The records of the work queue: what is waiting, what was handed out, what is counted."""

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

K = TypeVar("K")


@dataclass(slots=True, eq=False)
class Entry(Generic[K]):
    """A key in the queue. It is delayed (`due` set), ready (in a bucket), or parked behind its own processing."""

    key: K
    priority: int
    sequence: int
    """Grows with each arrival; decides which of all ready entries waits longest."""
    due: float | None = None
    ready_at: float = 0.0
    reasons: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item(Generic[K]):
    """A key in the hands of a worker, until it is done."""

    key: K
    priority: int
    reasons: tuple[str, ...]
    """Why it was added, oldest first, each once."""
    waited: float
    """Seconds between ready and handed out."""
    started: float


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot. Counters since the start; times in seconds."""

    ready: dict[int, int]
    """Keys ready to be handed out, by priority; parked ones not included."""
    delayed: int
    parked: int
    """Keys added again while they are processed."""
    processing: int
    waiting_workers: int
    adds: int
    retries: int
    merged: int
    """Adds that found their key in the queue."""
    handed_out: int
    oldest: float
    """How long the longest waiting ready key has waited."""
    longest_running: float
    unfinished: float
    """Sum over the keys in process of how long each has been."""
    shutting_down: bool

    @property
    def depth(self) -> int:
        """All ready keys."""
        return sum(self.ready.values())


class QueueObserver(Protocol):
    """Hears of durations; counts and depths are read from `statistics` instead."""

    def waited(self, seconds: float) -> None:
        """A key was handed out after waiting this long."""
        ...

    def worked(self, seconds: float) -> None:
        """A key was done after this long."""
        ...
