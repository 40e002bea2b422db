# SPDX-License-Identifier: Apache-2.0
"""How the commands that read TrainJobs of a cluster begin and end: their options, their client, their exit codes."""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.controller.runtime import Client, ClusterConfig

WRONG_USE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 130, 141, 143

Command = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose the cluster."""
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig (default: as for kubectl, and where there is none the local cluster)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")


def run_reading(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command; returns its exit code, or that of what ended it: an error, a signal, a reader who has gone.

    `arguments.job` is the TrainJob that the command is about, if it is about one.
    """
    # Imported here: the help does not need it.
    from trainwright.controller.runtime import KubernetesError, NotFound  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415

    try:
        return asyncio.run(_until_terminated(command(arguments)))
    except NotFound as error:
        # Either the job or the kind.
        missing = f"there is no TrainJob {arguments.job} in namespace {arguments.namespace}" if arguments.job else error
        print(f"error: {missing}", file=sys.stderr)
    except (KubernetesError, RegistryError) as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone, such as `head`. What is buffered has nowhere to go at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return WRONG_USE


async def _until_terminated(command: Coroutine[Any, Any, int]) -> int:
    """SIGTERM ends a command as Ctrl-C does, so that it can give the terminal back; `timeout` sends it."""
    if threading.current_thread() is not threading.main_thread():
        return await command  # signals are the main thread's
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        running.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await command
    except asyncio.CancelledError:
        if not terminated:
            raise
        return TERMINATED
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def chosen_cluster(arguments: argparse.Namespace) -> "ClusterConfig":
    """The cluster of the options, or as for kubectl; where nothing is configured, the local cluster, which is said.

    Raises ConfigurationError.
    """
    from trainwright.controller.cli import state  # noqa: PLC0415 - as above
    from trainwright.controller.runtime import NoClusterError, load_config  # noqa: PLC0415 - as above

    try:
        return load_config(arguments.kubeconfig, arguments.context)
    except NoClusterError as error:
        folder, why = state.only_running()
        if folder is None:
            raise NoClusterError(f"{error}; and {why}") from None
        print(f"no kubeconfig is set: using the local cluster {folder.name}", file=sys.stderr)
        arguments.kubeconfig = folder / "kubeconfig"  # for those that read it again later
        return load_config(arguments.kubeconfig, arguments.context)


@asynccontextmanager
async def reading(arguments: argparse.Namespace, user_agent: str) -> "AsyncIterator[Client]":
    """The client of a command. `arguments.namespace` is set to that of the context where it is not given.

    Raises KubernetesError for a kubeconfig that cannot be used.
    """
    from trainwright.controller.runtime import Client, HTTPTransport  # noqa: PLC0415 - as above

    config = chosen_cluster(arguments)
    arguments.namespace = arguments.namespace or config.namespace
    client = Client(HTTPTransport(config), user_agent=user_agent)
    try:
        yield client
    finally:
        await client.close()
