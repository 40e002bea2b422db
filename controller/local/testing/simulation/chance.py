# SPDX-License-Identifier: Apache-2.0
"""Chance and time of a simulated world, all from one seed."""

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta

from trainwright.api.surroundings import Surroundings

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The time of day at which each world begins."""


class Chance:
    """One stream of numbers for each actor, so that a decision of one does not shift those of another."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def of(self, name: str) -> random.Random:
        """The stream of an actor."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self.seed}/{name}")  # noqa: S311 - no secret
        return found


class SimulatedSurroundings(Surroundings):
    """Time and chance of one simulated process.

    Args:
        chance: of the world.
        name: of the process; also that of its machine.
    """

    def __init__(self, chance: Chance, name: str) -> None:
        super().__init__()
        self.name = name
        self.skew = 0.0
        """Seconds by which the wall clock of the process is ahead."""
        self._stream = chance.of(f"process/{name}")

    def now(self) -> datetime:
        """The time of day of the process."""
        return EPOCH + timedelta(seconds=round(asyncio.get_running_loop().time() + self.skew, 6))

    def ticks(self) -> float:
        """Virtual seconds: work takes none, so that no task yields because a machine is slow."""
        return asyncio.get_running_loop().time()

    def random(self) -> random.Random:
        """The stream of the process."""
        return self._stream

    def uid(self) -> uuid.UUID:
        """A UUID that the seed decides."""
        return uuid.UUID(int=self._stream.getrandbits(128), version=4)

    def stamp(self) -> int:
        """Nanoseconds of the process's own time, never the same twice."""
        self._stamp = max(self._stamp + 1, round(self.now().timestamp() * 1e6) * 1000)
        return self._stamp

    def host(self) -> str:
        """The machine has the name of the process."""
        return self.name
