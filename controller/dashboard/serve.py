# SPDX-License-Identifier: Apache-2.0
"""A dashboard for a cluster: `server_of` makes one, `embedded` runs that of a local cluster beside it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trainwright.controller.dashboard.contract import Cluster
from trainwright.controller.dashboard.keys import KeptKeys
from trainwright.controller.dashboard.server import Server
from trainwright.controller.dashboard.service import DashboardService
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.views.reports import FOLDER, KeptReports
from trainwright.controller.views.watch import OutputOf

log = logging.getLogger(__name__)


def server_of(
    client: Client,
    config: ClusterConfig,
    namespace: str,
    *,
    port: int = 0,
    changes: bool = False,
    reports: KeptReports | None = None,
    output_of: OutputOf | None = None,
    logs: Path | None = None,
    kept: KeptKeys | None = None,
    command: str = "trainwright dashboard",
) -> Server:
    """The dashboard of a cluster. Raises RegistryError: a plugin is broken.

    `namespace` is empty for all. A local cluster keeps the runs of its jobs in `reports`, the logs of pods that are
    gone in `logs`, and port and secret in `kept`. `command` is what the user types to have this dashboard again.
    """
    site = DashboardService(
        client,
        Cluster(context=config.context, server=config.server, namespace=namespace),
        reports=reports,
        output_of=output_of,
        logs=logs,
        changes=changes,
    )
    return Server(site, port=port, kept=kept, command=command)


@asynccontextmanager
async def embedded(
    transport: Transport,
    config: ClusterConfig,
    folder: Path,
    *,
    command: str,
    output_of: OutputOf,
    memory: bool = False,
) -> AsyncIterator[str]:
    """Serve all namespaces for the length of the block; yields the address, which holds the token.

    If it cannot be served, or fails, the block goes on without it, and the address is empty. With `memory`, the runs
    are kept in no file. `command` is what the user types to have the cluster again.
    """
    client = Client(transport, user_agent="trainwright-dashboard")
    server = server_of(
        client,
        config,
        "",
        changes=True,
        reports=KeptReports(None if memory else folder / FOLDER),
        output_of=output_of,
        logs=folder / "logs",
        kept=KeptKeys(folder),
        command=command,
    )
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
