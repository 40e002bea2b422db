# SPDX-License-Identifier: Apache-2.0
"""Keeps the event loop responsive while many objects are decoded."""

import asyncio

from trainwright.api.surroundings import present

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
        """Whether the slice is used up."""
        return self._ticks() - self._since >= self._slice

    async def pause(self) -> None:
        """Yield to the event loop once if the slice is used up."""
        if self.due():
            await asyncio.sleep(0)
            self._since = self._ticks()
