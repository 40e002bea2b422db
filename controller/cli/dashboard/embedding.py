# SPDX-License-Identifier: Apache-2.0
"""The dashboard inside another process: that of a local cluster."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from trainwright.controller.cli.dashboard.commands import server_of
from trainwright.controller.cli.dashboard.serving import Server
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)


@asynccontextmanager
async def embedded(transport: Transport, config: ClusterConfig) -> AsyncIterator[str]:
    """Serve all namespaces for the length of the block; yields the address, which holds the token.

    It is a convenience: if it cannot be served, or fails, the block goes on without it, and the address is empty.
    """
    client = Client(transport, user_agent="trainwright-dashboard")
    server = server_of(client, config, "")
    async with TaskScope("embedded dashboard") as tasks:
        decided = asyncio.Event()
        tasks.start("embedded dashboard/server", _survived(server, decided.set))
        await decided.wait()
        yield server.address if server.port else ""


async def _survived(server: Server, decided: Callable[[], None]) -> None:
    try:
        await server.run(decided)
    except Exception:
        log.exception("the dashboard has failed; `trainwright dashboard` starts another one")
    finally:
        decided()
