# SPDX-License-Identifier: Apache-2.0
"""Which slot is written next: those that are due in a queue, the others with a timer."""

import heapq
import itertools
from collections.abc import Callable

from trainwright.controller.trainer.progress.slots import Slot

_URGENT, _ORDINARY = 0, 1


class Agenda:
    """Due slots in order: 100 % first, then the TrainJob that was written longest ago.

    Entries are never removed when a slot changes. A slot is judged again when its entry is reached, and planned anew if
    it is not due any more.
    """

    def __init__(self, due: Callable[[Slot], float], time: Callable[[], float]) -> None:
        """`due`: when a slot with a pending value is due. `time`: the clock of these times."""
        self._due = due
        self._time = time
        self._timers: list[tuple[float, int, Slot]] = []
        self._queue: list[tuple[int, float, int, Slot]] = []
        self._order = itertools.count()

    def plan(self, slot: Slot) -> None:
        """Queue the slot if it is due, else set its timer; nothing without a pending value."""
        if slot.pending is None or slot.is_busy:
            return
        at = self._due(slot)
        if at <= self._time():
            rank = _URGENT if slot.is_urgent() else _ORDINARY
            if slot.rank is None or rank < slot.rank:
                slot.rank = rank
                heapq.heappush(self._queue, (rank, slot.last_write, next(self._order), slot))
        elif slot.timer is None or at < slot.timer:
            slot.timer = at
            heapq.heappush(self._timers, (at, next(self._order), slot))

    def ring(self) -> None:
        """Plan the slots whose timers have passed."""
        now = self._time()
        while self._timers and self._timers[0][0] <= now:
            at, _, slot = heapq.heappop(self._timers)
            if slot.timer == at:
                slot.timer = None
                self.plan(slot)

    def next(self) -> Slot | None:
        """Take the first slot that is due; None: there is none."""
        while self._queue:
            rank, _, _, slot = heapq.heappop(self._queue)
            if slot.rank != rank:
                continue  # it was queued again with another rank, or is on its way
            slot.rank = None
            if slot.pending is None or slot.is_busy:
                continue
            if self._due(slot) <= self._time():
                return slot
            self.plan(slot)
        return None

    @property
    def has_queue(self) -> bool:
        """Whether a slot may be due now."""
        return bool(self._queue)

    @property
    def next_timer(self) -> float | None:
        """When the first timer rings; None: there is none."""
        return self._timers[0][0] if self._timers else None
