# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to be read: due times, and the limits on reads at once, on reads a second, and on reads on a node.

Of those that are due, the one that has waited longest goes first. One whose node has no place free waits, and does not
hold up the others. No I/O and no clock of its own.
"""

import heapq
import itertools
import math
from collections import Counter

AT_ONCE = 16
RATE = 10.0
"""Reads a second, at most."""
APART = 1.02 / RATE
"""Seconds between two starts. A little more than needed, so that a late start puts no eleventh read into a second."""
ON_A_NODE = 4
"""Reads at once on one node, so that a node that hangs leaves places for the others."""


class Turns:
    """The due times of jobs, by uid, and the reads that run."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._nodes: dict[str, str] = {}
        """The node of each job, as far as it is known."""
        self._running: dict[str, str] = {}
        """The node of each read that runs; empty if it is not known."""
        self._on: Counter[str] = Counter()
        self._earliest = float("-inf")

    @property
    def running(self) -> int:
        """Number of reads that run."""
        return len(self._running)

    def plan(self, uid: str, at: float, node: str = "") -> None:
        """Read this job at a time; an earlier plan is replaced. `node` is where its pod is, if that is known."""
        self._due[uid] = at
        self._nodes[uid] = node
        heapq.heappush(self._heap, (at, next(self._order), uid))

    def at(self, uid: str) -> float:
        """When this job is to be read; infinite: no read is planned."""
        return self._due.get(uid, math.inf)

    def has(self, uid: str) -> bool:
        """Whether a read of this job is planned."""
        return uid in self._due

    def cancel(self, uid: str) -> None:
        """Do not read this job."""
        self._due.pop(uid, None)
        self._nodes.pop(uid, None)

    def next(self, now: float) -> str | None:
        """Take the job whose turn it is, and begin its read; None: nobody's yet."""
        if now < self._earliest or len(self._running) >= AT_ONCE:
            return None
        blocked: list[tuple[float, int, str]] = []
        taken = None
        while self._heap and self._heap[0][0] <= now and taken is None:
            entry = heapq.heappop(self._heap)
            at, _, uid = entry
            if self._due.get(uid) != at:
                continue  # it was planned again, or cancelled
            if uid in self._running or self._is_full(self._nodes[uid]):
                blocked.append(entry)
            else:
                taken = uid
        for entry in blocked:
            heapq.heappush(self._heap, entry)
        if taken is not None:
            del self._due[taken]
            self._earliest = now + APART
            self._begin(taken, self._nodes[taken])
        return taken

    def move(self, uid: str, node: str) -> bool:
        """Note the node of a read that runs. Returns False if the node has no place free; then end the read."""
        if self._running[uid] == node:
            return True
        if self._is_full(node):
            return False
        self._end(uid)
        self._begin(uid, node)
        return True

    def end(self, uid: str) -> None:
        """The read of this job has ended."""
        self._end(uid)

    def pause(self, now: float) -> float | None:
        """Seconds until `next` may have an answer; None: not before a plan or the end of a read."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap or len(self._running) >= AT_ONCE:
            return None
        at = max(self._heap[0][0], self._earliest)
        if at > now:
            return at - now
        later = [entry[0] for entry in self._heap if entry[0] > now]
        return min(later) - now if later else None

    def _is_full(self, node: str) -> bool:
        return bool(node) and self._on[node] >= ON_A_NODE

    def _begin(self, uid: str, node: str) -> None:
        self._running[uid] = node
        self._on[node] += 1

    def _end(self, uid: str) -> None:
        node = self._running.pop(uid)
        self._on[node] -= 1
        if not self._on[node]:
            del self._on[node]
