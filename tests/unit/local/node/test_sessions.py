# SPDX-License-Identifier: Apache-2.0
"""Sessions of exec: what they hold is given back."""

import asyncio
from pathlib import Path
from typing import Any

from trainwright.controller.local.node.sessions import open_session


class Stubborn:
    """A process that is killed and does not end."""

    def kill(self) -> None:
        """It takes its time."""

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_session_whose_end_is_cancelled_keeps_no_descriptor() -> None:
    async def start(stdio: tuple[int, int, int], terminal: bool) -> Any:
        return Stubborn()

    before = descriptors()
    for terminal in (False, True):
        session = await open_session(start, stdin=True, tty=terminal)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        # Whoever tries it again has nothing left to do.
        await session.close()
    assert descriptors() == before
