# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard`: serves a page about TrainJobs to the browser of this machine.

It reads with the rights of the user, so it works without a manager of ours and with installations of Kubeflow Trainer.
Nothing listens in the cluster.
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.controller.cli.reading import BROKEN_PIPE, WRONG_USE, add_kubeconfig, chosen_cluster

if TYPE_CHECKING:
    from trainwright.controller.cli.dashboard.keys import KeptKeys
    from trainwright.controller.cli.dashboard.reports import Reports
    from trainwright.controller.cli.dashboard.serving import Server
    from trainwright.controller.runtime import Client, ClusterConfig

_SUCCESS = 0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "dashboard",
        help="show TrainJobs in the browser",
        description="Serve a page about TrainJobs to the browser of this machine, until Ctrl-C. It listens on "
        "127.0.0.1 only, reads the cluster of the kubeconfig with your own rights, and changes nothing unless you let "
        "it. Exit code 0; 2 for a wrong command line, and if the port or the kubeconfig cannot be used.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace (default: the one of the kubeconfig's context)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="TrainJobs of all namespaces")
    parser.add_argument("--port", type=_port, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="let the page stop, resume, delete and repeat jobs, where you have the rights",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    add_kubeconfig(parser)
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: write a number from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    # Imported here: the help does not need it.
    from trainwright.controller.runtime import KubernetesError, configure_logging, tune_collector  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415

    # The page says what is wrong with the cluster; a line for each attempt would hide the address.
    configure_logging("ERROR")
    tune_collector()
    try:
        asyncio.run(_serve(arguments))
    except (KubernetesError, RegistryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:  # before the loop takes the signal
        return _SUCCESS
    except BrokenPipeError:
        # The reader of the output has gone, such as `head`. What is buffered has nowhere to go at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return _SUCCESS


async def _serve(arguments: argparse.Namespace) -> None:
    from trainwright.controller.cli.dashboard import browser  # noqa: PLC0415
    from trainwright.controller.cli.dashboard.renewal import Renewing  # noqa: PLC0415
    from trainwright.controller.runtime import Client, TaskScope, load_config  # noqa: PLC0415

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
    arguments: argparse.Namespace, server: "Server", config: "ClusterConfig", namespace: str, listening: asyncio.Event
) -> None:
    from trainwright.controller.cli.dashboard import browser  # noqa: PLC0415

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
    client: "Client",
    config: "ClusterConfig",
    namespace: str,
    *,
    port: int = 0,
    changes: bool = False,
    reports: "Reports | None" = None,
    logs: Path | None = None,
    kept: "KeptKeys | None" = None,
    command: str = "trainwright dashboard",
) -> "Server":
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
    from trainwright.controller.cli.dashboard.answering import Site  # noqa: PLC0415
    from trainwright.controller.cli.dashboard.contract import Cluster  # noqa: PLC0415
    from trainwright.controller.cli.dashboard.security import Guard  # noqa: PLC0415
    from trainwright.controller.cli.dashboard.serving import Server  # noqa: PLC0415
    from trainwright.controller.cli.explain import explaining_plugins  # noqa: PLC0415
    from trainwright.plugins.pipeline import Pipeline  # noqa: PLC0415
    from trainwright.plugins.registry import Registry  # noqa: PLC0415

    cluster = Cluster(context=config.context, server=config.server, namespace=namespace)
    site = Site(
        client,
        cluster,
        plugins=explaining_plugins(),
        pipeline=lambda: Pipeline(Registry.load()),
        reports=reports,
        logs=logs,
        changes=changes,
    )
    return Server(site, Guard(), port=port, kept=kept, command=command)
