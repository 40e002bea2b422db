# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard`: serves a page about TrainJobs to the browser of this machine.

It reads with the rights of the user, so it works without a manager of ours and with installations of Kubeflow Trainer.
Nothing listens in the cluster.
"""

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from trainwright.controller.cli.dashboard import browser
from trainwright.controller.cli.dashboard.answering import DashboardSite
from trainwright.controller.cli.dashboard.contract import Cluster
from trainwright.controller.cli.dashboard.keys import KeptKeys
from trainwright.controller.cli.dashboard.renewal import Renewing
from trainwright.controller.cli.dashboard.reports import KeptReports
from trainwright.controller.cli.dashboard.security import PageGuard
from trainwright.controller.cli.dashboard.serving import Server
from trainwright.controller.cli.explain import explaining_plugins
from trainwright.controller.cli.reading import chosen_cluster
from trainwright.controller.runtime import (
    Client,
    ClusterConfig,
    TaskScope,
    configure_logging,
    load_config,
    tune_collector,
)
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""

    # The page says what is wrong with the cluster; a line for each attempt would hide the address.
    configure_logging("ERROR")
    tune_collector()
    with contextlib.suppress(KeyboardInterrupt):  # before the loop takes the signal
        asyncio.run(_serve(arguments))
    return 0


async def _serve(arguments: argparse.Namespace) -> None:

    config = chosen_cluster(arguments)
    namespace = "" if arguments.all_namespaces else arguments.namespace or config.namespace
    transport = Renewing(config, lambda: load_config(arguments.kubeconfig, arguments.context))
    client = Client(transport, user_agent="trainwright-dashboard")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    server = server_of(client, config, namespace, port=arguments.port, changes=arguments.allow_changes)
    try:
        async with TaskScope("dashboard") as tasks:
            listening = asyncio.Event()
            serving = tasks.start("dashboard/server", server.run(listening.set))
            tasks.start("dashboard/announcement", _announce(arguments, server, config, namespace, listening))
            waiting = tasks.start("dashboard/signals", stopped.wait())
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        browser.forget()
        await client.close()


async def _announce(
    arguments: argparse.Namespace, server: Server, config: ClusterConfig, namespace: str, listening: asyncio.Event
) -> None:

    await listening.wait()
    where = f"namespace {namespace}" if namespace else "all namespaces"
    of = f" of context {config.context}" if config.context else ""
    print(f"TrainJobs in {where}{of}: {server.address}")
    print("Ctrl-C ends it.", flush=True)
    if not arguments.no_browser and browser.is_there():
        # Made here: a thread outlives the command's end, and would leave the file with the token behind.
        url = browser.prepare(server.address)
        await asyncio.to_thread(browser.show, url)


def server_of(
    client: Client,
    config: ClusterConfig,
    namespace: str,
    *,
    port: int = 0,
    changes: bool = False,
    reports: KeptReports | None = None,
    logs: Path | None = None,
    kept: KeptKeys | None = None,
    command: str = "trainwright dashboard",
) -> Server:
    """The dashboard of a cluster.

    Args:
        client: with the user's rights.
        config: of the API server.
        namespace: empty for all.
        port: to listen on; 0 for a free one.
        changes: whether the page may stop, resume, delete and repeat jobs, where the user may.
        reports: keeps the runs of a local cluster.
        logs: the folder of a local node's logs, which has those of pods that are gone.
        kept: port and secret of a local cluster.
        command: what the user types to have this dashboard again.

    Raises:
        RegistryError: a plugin is broken.
    """

    cluster = Cluster(context=config.context, server=config.server, namespace=namespace)
    site = DashboardSite(
        client,
        cluster,
        plugins=explaining_plugins(),
        pipeline=lambda: Pipeline(Registry.load()),
        reports=reports,
        logs=logs,
        changes=changes,
    )
    return Server(site, PageGuard(), port=port, kept=kept, command=command)
