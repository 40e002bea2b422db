# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard`: serves a page about TrainJobs to the browser of this machine.

It reads with the rights of the user, so it works without a manager of ours and with installations of Kubeflow Trainer.
Nothing listens in the cluster.
"""

import argparse
import asyncio
import contextlib
import html
import logging
import os
import shutil
import signal
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from trainwright.controller.cli.access import chosen_cluster
from trainwright.controller.dashboard import Server, server_of
from trainwright.controller.runtime import (
    Client,
    ClusterConfig,
    ConfigurationError,
    HTTPTransport,
    configure_logging,
    load_config,
)
from trainwright.controller.runtime.client.transport import Request, Response, Stream, WebSocket
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

LOAD_SECONDS = 2.0
"""Shortest time between two looks at the kubeconfig."""
_REFUSED = 401
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_made: list[Path] = []
"""Folders with files for a browser."""


def run(arguments: argparse.Namespace) -> int:
    # The page says what is wrong with the cluster; a line for each attempt would hide the address.
    configure_logging("ERROR")
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
        forget_pages()
        await client.close()


async def _announce(
    arguments: argparse.Namespace, server: Server, config: ClusterConfig, namespace: str, listening: asyncio.Event
) -> None:
    await listening.wait()
    where = f"namespace {namespace}" if namespace else "all namespaces"
    of = f" of context {config.context}" if config.context else ""
    print(f"TrainJobs in {where}{of}: {server.address}")
    print("Ctrl-C ends it.", flush=True)
    if not arguments.no_browser and has_browser():
        # Made here: a thread outlives the command's end, and would leave the file with the token behind.
        url = _page_to(server.address)
        with contextlib.suppress(webbrowser.Error):
            await asyncio.to_thread(webbrowser.open, url)  # blocks until its end if it runs in the terminal


def has_browser() -> bool:
    """Whether a browser can be opened here: not over ssh, and not without a display."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _page_to(address: str) -> str:
    """Make a file that leads to the address; returns its URL.

    Other users can read a command line, which would have the token. Only this user can read the file.
    """
    folder = Path(tempfile.mkdtemp(prefix="trainwright-dashboard-"))  # mode 0700
    _made.append(folder)
    file = folder / "open.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><title>Trainwright</title>'
        f'<meta http-equiv="refresh" content="0;url={html.escape(address, quote=True)}">\n',
        encoding="utf-8",
    )
    return file.as_uri()


def forget_pages() -> None:
    while _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)


class Renewing:
    """A transport that reads the kubeconfig again when the credentials are refused.

    Exec plugins, token files and providers are asked for new ones by the transport itself. But a token that a login
    writes into the kubeconfig, as `oc login` does, is only there after the file is read again.
    """

    def __init__(self, config: ClusterConfig, load: Callable[[], ClusterConfig]) -> None:
        """`load` reads the configuration again; it may raise ConfigurationError."""
        self._config = config
        self._load = load
        self._current = HTTPTransport(config)
        self._replaced: list[HTTPTransport] = []
        self._looked_at = float("-inf")

    async def send(self, request: Request) -> Response:
        answer = await self._current.send(request)
        if answer.status == _REFUSED:
            self._look()
        return answer

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        async with self._current.open(request) as stream:
            if stream.status == _REFUSED:
                self._look()
            yield stream

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator[WebSocket]:
        async with self._current.connect(request, protocols, limit=limit) as socket:
            yield socket

    async def close(self) -> None:
        while self._replaced:
            await self._replaced.pop().close()
        await self._current.close()

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOAD_SECONDS:
            return
        self._looked_at = now
        try:
            found = self._load()
            if found == self._config or found.server != self._config.server:
                return  # the same, or another cluster
            transport = HTTPTransport(found)
        except ConfigurationError as error:
            log.info("the kubeconfig cannot be read again: %s", error)
            return
        self._replaced.append(self._current)  # requests may be on their way
        self._config, self._current = found, transport
