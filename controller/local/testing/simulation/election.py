# SPDX-License-Identifier: Apache-2.0
"""Leader election on the event loop: the rules are the real ones, without the thread and the kernel's timer."""

import asyncio
from collections.abc import Callable

from trainwright.controller.local.testing.simulation.chance import SimulatedSurroundings
from trainwright.controller.runtime import (
    Candidate,
    Client,
    ElectionStatistics,
    Fence,
    LeaseLock,
    TaskScope,
    Timing,
    Transport,
)


class SimulatedElector:
    """One candidate for a Lease; an Elector of the manager. Whoever makes it runs `run`.

    Args:
        transport: of the process.
        surroundings: of the process, whose name is the identity.
        lease: its name.
        namespace: of the Lease.
        drift: by how much the clock of the process is fast; 1.0: it is right.
    """

    def __init__(
        self,
        transport: Transport,
        surroundings: SimulatedSurroundings,
        lease: str,
        namespace: str = "default",
        *,
        drift: float = 1.0,
    ) -> None:
        loop, timing = asyncio.get_running_loop(), Timing()

        def clock() -> float:
            return loop.time() * drift

        self.permission = Fence(timing, clock)
        client = Client(transport, user_agent=f"{surroundings.name} leader-election", timeout=timing.request)
        self._candidate = Candidate(
            LeaseLock(client, lease, namespace),
            surroundings.name,
            self.permission,
            timing=timing,
            clock=clock,
            now=surroundings.now,
            chance=surroundings.random().random,
        )
        self._lease = f"{namespace}/{lease}"
        self._elected, self._left, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._reason = "this replica left the election"

    @property
    def leads(self) -> bool:
        """Whether it leads now."""
        return self.permission.open

    def watch_loop(self, silence: Callable[[], float]) -> None:
        """The loop of a simulation is never late."""

    async def run(self) -> None:
        """Stand for election, hold the lease, and lose or leave it."""
        try:
            async with TaskScope("election") as tasks:
                life = tasks.start("election/life", self._live())
                left = tasks.start("election/left", self._left.wait())
                await asyncio.wait({life, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.permission.revoke()
            self._ended.set()

    async def _live(self) -> None:
        await self._candidate.acquire()
        self._elected.set()
        self._reason = await self._candidate.hold()

    async def wait_elected(self) -> None:
        """Wait until it leads."""
        await self._elected.wait()

    async def wait_lost(self) -> str:
        """Wait until it leads no more; returns the reason."""
        await self._ended.wait()
        return self._reason

    async def close(self, *, release: bool) -> None:
        """Leave the election."""
        self._left.set()
        await self._ended.wait()
        if release:
            await self._candidate.release()

    def unready(self) -> str | None:
        """A replica that waits is ready."""
        return None

    def statistics(self) -> ElectionStatistics:
        """The election as it sees it."""
        candidate = self._candidate
        return ElectionStatistics(self._lease, candidate.identity, self.leads, candidate.holder, 0, None, 0, "")
