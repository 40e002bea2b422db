# SPDX-License-Identifier: Apache-2.0
"""The dashboard inside another process: that of a local cluster.

Its address, its secret and the runs of the jobs are kept in the cluster's folder.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trainwright.controller.cli.dashboard.commands import server_of
from trainwright.controller.cli.dashboard.keys import KeptKeys
from trainwright.controller.cli.dashboard.reports import FILE, KeptReports
from trainwright.controller.cli.dashboard.serving import Server
from trainwright.controller.runtime import Client, ClusterConfig, TaskScope, Transport

log = logging.getLogger(__name__)


@asynccontextmanager
async def embedded(
    transport: Transport, config: ClusterConfig, folder: Path, *, command: str, memory: bool = False
) -> AsyncIterator[str]:
    """Serve all namespaces for the length of the block; yields the address, which holds the token.

    It is a convenience: if it cannot be served, or fails, the block goes on without it, and the address is empty.

    Args:
        transport: the way to the API server.
        config: of the API server.
        folder: of the cluster.
        command: what the user types to have the cluster again.
        memory: keep no file of the runs, as no other state of the cluster is kept.
    """
    client = Client(transport, user_agent="trainwright-dashboard")
    reports = await asyncio.to_thread(KeptReports, None if memory else folder / FILE)
    server = server_of(
        client,
        config,
        "",
        changes=True,
        reports=reports,
        logs=folder / "logs",
        kept=KeptKeys(folder),
        command=command,
    )
    try:
        async with TaskScope("embedded dashboard") as tasks:
            decided = asyncio.Event()
            tasks.start("embedded dashboard/server", _survived(server, decided.set))
            await decided.wait()
            yield server.address if server.port else ""
    finally:
        await asyncio.to_thread(reports.close)


async def _survived(server: Server, decided: Callable[[], None]) -> None:
    try:
        await server.run(decided)
    except Exception:
        log.exception("the dashboard has failed; `trainwright dashboard` starts another one")
    finally:
        decided()
