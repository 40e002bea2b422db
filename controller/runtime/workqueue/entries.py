# SPDX-License-Identifier: Apache-2.0
"""Records of the work queue: waiting entries, handed-out items, statistics."""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

K = TypeVar("K")


@dataclass(slots=True, eq=False)
class QueueEntry(Generic[K]):
    """A key in the queue: delayed (`due` is set), ready (in a bucket), or parked until its own processing ends."""

    key: K
    priority: int
    sequence: int
    """Grows with each arrival; the smallest one has waited longest."""
    due: float | None = None
    ready_at: float = 0.0
    reasons: dict[str, None] = field(default_factory=dict)


class QueueItem(NamedTuple, Generic[K]):
    """A key that a worker has taken and not yet finished."""

    key: K
    priority: int
    reasons: tuple[str, ...]
    """Why the key was added, oldest first, each reason once."""
    waited: float
    """Seconds between ready and taken."""
    started: float


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot. Counters count from the start; times are in seconds."""

    ready: dict[int, int]
    """Ready keys by priority, without parked ones."""
    delayed: int
    parked: int
    """Keys that were added again while a worker processes them."""
    processing: int
    waiting_workers: int
    adds: int
    retries: int
    merged: int
    """Adds of keys that were already in the queue."""
    handed_out: int
    oldest: float
    """Waiting time of the oldest ready key."""
    longest_running: float
    unfinished: float
    """Sum of the processing times of all keys that are being processed."""
    shutting_down: bool

    @property
    def depth(self) -> int:
        return sum(self.ready.values())


class QueueObserver(Protocol):
    """Is told durations. Counts and depths are read from `statistics`."""

    def waited(self, seconds: float, /) -> None:
        """A worker took a key that had been ready for this long."""
        ...

    def worked(self, seconds: float, /) -> None:
        """A worker finished a key after this long."""
        ...
