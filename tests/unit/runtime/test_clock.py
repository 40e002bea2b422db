# SPDX-License-Identifier: Apache-2.0
"""The clock that jumps, and threads."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainwright.controller.runtime.testing.clock import jumping


class Slow(ThreadPoolExecutor):
    """Takes a moment to end, as on a busy machine."""

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        time.sleep(0.02)
        super().shutdown(*args, **kwargs)


@jumping
async def test_the_end_of_the_threads_is_waited_for() -> None:
    """The loop ends them in a thread of its own; until that is done, no timer and no task is there to go on with."""
    asyncio.get_running_loop().set_default_executor(Slow())
