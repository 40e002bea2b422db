# SPDX-License-Identifier: Apache-2.0
"""Measures how late the event loop runs, and logs what blocks it.

A timer in the loop measures how much later than requested it runs. A watchdog thread reads the same timer from outside:
when the loop has not run for a second, it logs the stack of the loop's thread. Code inside the loop could not do that.
"""

import asyncio
import logging
import math
import sys
import threading
import time
import traceback
from collections import deque

from trainwright.api.surroundings import present

log = logging.getLogger(__name__)

PERIOD_SECONDS = 0.25
"""How often the timer runs. Each run wakes a process that may have nothing else to do."""
WINDOW_SECONDS = 60.0
STALL_SECONDS = 1.0


class LoopLag:
    """A runnable that measures the lag of its event loop."""

    def __init__(self, *, stall: float = STALL_SECONDS) -> None:
        self._stall = stall
        self._samples: deque[tuple[float, float]] = deque()
        self._beat = time.monotonic()
        self._thread_id = 0
        self.stalls = 0
        """Number of times the loop was blocked for longer than `stall` seconds."""

    @property
    def worst(self) -> float:
        """The largest lag of the last minute, in seconds."""
        return max((lag for _, lag in self._samples), default=0.0)

    def silence(self) -> float:
        """Seconds since the loop last ran the timer; below 0 once nobody measures. Safe to call from another thread."""
        return time.monotonic() - self._beat

    async def run(self) -> None:
        self._thread_id = threading.get_ident()
        self._beat = time.monotonic()
        end = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(end,), name="loop-watchdog", daemon=True)
        watchdog.start()
        try:
            while True:
                before = time.monotonic()
                await asyncio.sleep(PERIOD_SECONDS)
                now = self._beat = time.monotonic()
                self._samples.append((now, max(0.0, now - before - PERIOD_SECONDS)))
                while self._samples[0][0] < now - WINDOW_SECONDS:
                    self._samples.popleft()
        finally:
            end.set()
            watchdog.join()
            self._beat = math.inf  # nobody measures any more, and a slow stop is not a blocked loop

    def _watch(self, end: threading.Event) -> None:
        reported = 0.0
        wait = self._stall
        while not end.wait(wait):
            beat = self._beat
            left = self._stall + PERIOD_SECONDS - self.silence()
            wait = max(self._stall / 4, left)
            if left > 0 or beat == reported:
                continue
            reported = beat
            self.stalls += 1
            frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - the documented way to see another thread
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "(gone)"
            log.error("the event loop has been blocked for over %.1f s in:\n%s", self._stall, stack)


SLICE_SECONDS = 0.005


class Pacer:
    """Yields to other tasks when a slice of time is used up. Call `pause` between items; each item must be short."""

    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        self._slice = slice_seconds
        self._ticks = present().ticks
        self._since = self._ticks()

    def restart(self) -> None:
        """A new slice begins: the loop has just run, because the caller waited for more items."""
        self._since = self._ticks()

    def due(self) -> bool:
        return self._ticks() - self._since >= self._slice

    async def pause(self) -> None:
        """Yield to the event loop once if the slice is used up."""
        if self.due():
            await asyncio.sleep(0)
            self._since = self._ticks()
