# SPDX-License-Identifier: Apache-2.0
"""How the commands that read TrainJobs of a cluster begin and end: their cluster, client and job, SIGTERM."""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from trainwright.api.errors import UserError
from trainwright.api.objects import Document, name_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli import state
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.errors import NoClusterError

TERMINATED = 143
LATEST = "latest"
"""Names the newest job."""

Command = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def run_reading(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command; returns its exit code. SIGTERM ends it.

    `arguments.job` is the TrainJob that the command is about, if it is about one.
    """
    try:
        return asyncio.run(_until_terminated(command(arguments)))
    except NotFound as error:
        if not arguments.job:
            raise
        # Either the job or the kind.
        raise UserError(f"there is no TrainJob {arguments.job} in namespace {arguments.namespace}") from error


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


def chosen_cluster(arguments: argparse.Namespace) -> ClusterConfig:
    """The cluster of the options, or as for kubectl; where nothing is configured, the local cluster, which is said.

    Raises ConfigurationError.
    """
    try:
        return load_config(arguments.kubeconfig, arguments.context)
    except NoClusterError as error:
        try:
            folder = state.only_running()
        except UserError as why:
            raise NoClusterError(f"{error}; and {why}") from None
        print(f"no kubeconfig is set: using the local cluster {folder.name}", file=sys.stderr)
        arguments.kubeconfig = folder / "kubeconfig"  # for those that read it again later
        return load_config(arguments.kubeconfig, arguments.context)


@asynccontextmanager
async def reading(arguments: argparse.Namespace, user_agent: str) -> AsyncIterator[Client]:
    """The client of a command. `arguments.namespace` is set to that of the context where it is not given.

    `arguments.job` is replaced if it is `latest`. Raises KubernetesError for a kubeconfig that cannot be used.
    """
    config = chosen_cluster(arguments)
    arguments.namespace = arguments.namespace or config.namespace
    client = Client(HTTPTransport(config), user_agent=user_agent)
    try:
        if arguments.job == LATEST:
            arguments.job = await meant(client, arguments.namespace, LATEST)
        yield client
    finally:
        await client.close()


async def meant(client: Client, namespace: str, given: str, *, only: bool = False) -> str:
    """The name of the job that is meant, which is said; what was given if there is none. Raises UserError.

    `given` is a name, `latest`, or the name of a script, which means its last job; with `only`, of several jobs of a
    script none is meant, since the command changes what it is given.
    """
    listed = (await client.list(TrainJob.RESOURCE, namespace)).items
    if any(name_of(job) == given for job in listed):
        return given
    some = [job for job in listed if given == LATEST or job["metadata"].get("generateName") == f"{given}-"]
    # Times of creation have whole seconds.
    found = sorted(some, key=lambda job: (job["metadata"]["creationTimestamp"], _stored(job)), reverse=True)
    if only and given != LATEST and len(found) > 1:
        raise UserError(f"{given} may be any of {', '.join(map(name_of, found))}: name one, or the last as {LATEST}")
    if not found:
        return given
    print(f"{given} is TrainJob {name_of(found[0])}", file=sys.stderr)
    return name_of(found[0])


def _stored(job: Document) -> int:
    text = str(job["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
