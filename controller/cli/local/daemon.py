# SPDX-License-Identifier: Apache-2.0
"""Runs a cluster, as the options say it, until it is told to stop: in this process, or in one in the background."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import trainwright
from trainwright.api.errors import UserError
from trainwright.api.times import format_time, wall_clock
from trainwright.controller.cli import state
from trainwright.controller.cli.local.options import LocalOptions
from trainwright.controller.local.interpreter import (
    forget_user_folders,
    isolated_python,
    path_without_user_folders,
)
from trainwright.controller.local.node.images import DEFAULT, Images
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import configure_logging, load_config
from trainwright.controller.runtime.collector import freeze_collector

if TYPE_CHECKING:
    from trainwright.controller.local.node.node import LocalNode

IMAGES = "images.yaml"
READY_SECONDS = 60.0
STOP_SECONDS = 3660.0
"""How long a cluster may take to end: pods end with their grace, 30 s by default and an hour at most."""
KILL_SECONDS = 60.0
"""The same once its pods are killed."""
_SILENT_SECONDS = 2.0
"""How long `down` waits before it says for what."""
_REACT_SECONDS = 15.0
"""How long a cluster may take to react to the signal, by taking its record away; one that hangs does not."""
_POLL_SECONDS = 0.05
_ELSEWHERE_SECONDS = 20.0
"""How long `up` waits for another `up`; a `run` may hold the folder for hours."""
LOG = "cluster.log"
"""What the process of a cluster logs, in its folder."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def node_settings(options: LocalOptions) -> NodeSettings:
    """For the node. Raises ConfigurationError where `images.yaml` has a mistake."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname().lower())
    return NodeSettings(
        name=name.strip("-")[:63].strip("-") or "laptop",
        folder=options.folder,
        images=images_of(options),
        isolation=Isolation(options.isolation),
        capacity=options.capacity,
        inherit=tuple(options.inherit_env),
        share_gpus=options.share_gpus,
    )


def images_of(options: LocalOptions) -> Images:
    """What runs in place of images. Raises ConfigurationError where `images.yaml` has a mistake."""
    program = (sys.executable, "-m", "trainwright.controller.cli.main", "initialize")
    initializers = [
        # In the command, since paths there are rewritten where pods have no mounts of their own.
        (
            f"*/{kind}-initializer[:@]*",
            replace(DEFAULT, command=(*program, kind, "--output", f"/workspace/{kind}")),
        )
        for kind in ("dataset", "model")
    ]
    return Images(options.folder / IMAGES, defaults=initializers)


class ClusterStartError(UserError):
    """The cluster in the background did not become ready."""


async def serve(options: LocalOptions, ready: Callable[[state.ClusterRun], Awaitable[None]]) -> None:
    """Run the cluster of the folder until SIGINT, SIGTERM or SIGHUP. A second one kills the pods that still end.

    Raises InUseError: another process runs it; StateFileError, ConfigurationError: it cannot be started.
    """
    stop = asyncio.Event()
    hurry: Callable[[], None] | None = None

    def on_signal() -> None:
        if stop.is_set() and hurry is not None:
            hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    state.claim(options.folder)
    with state.held(options.folder):
        async with _cluster(options) as (server, node, dashboard):
            if node is not None:
                hurry = node.hurry
            mode = "none" if node is None else node.isolation.value
            run = state.ClusterRun(
                name=options.name,
                pid=os.getpid(),
                server=server,
                version=trainwright.__version__,
                mode=mode,
                began=format_time(wall_clock()),
                dashboard=dashboard,
                options=options.kept(),
            )
            state.write(options.folder, run)
            try:
                await ready(run)
                await stop.wait()
            finally:
                state.remove(options.folder)


@asynccontextmanager
async def _cluster(options: LocalOptions) -> "AsyncIterator[tuple[str, LocalNode | None, str]]":
    """Run what the options say; yields the URL of the API server, the node if there is one, and the dashboard's."""
    if options.only:
        # Imported here: other commands need no API server, and it alone does not need the rest.
        from trainwright.controller.local.cluster import api_server  # noqa: PLC0415

        async with api_server(options.folder, port=options.port, memory=options.memory, rbac=options.rbac) as api:
            freeze_collector()
            yield api.config.server, None, ""
        return
    from trainwright.controller.cli.local.outputs import folder_of_job  # noqa: PLC0415
    from trainwright.controller.cli.local.training import training_cluster  # noqa: PLC0415
    from trainwright.controller.dashboard import embedded  # noqa: PLC0415

    async with (
        training_cluster(
            node_settings(options), port=options.port, memory=options.memory, rbac=options.rbac
        ) as cluster,
        embedded(
            cluster.api.transport(),
            load_config(options.folder / "kubeconfig"),
            options.folder,
            command=options.command("up"),
            output_of=folder_of_job,
            memory=options.memory,
        ) as dashboard,
    ):
        freeze_collector()
        yield cluster.api.config.server, cluster.node, dashboard


def run_in_foreground(options: LocalOptions) -> None:
    """`local up --foreground`. Raises as `serve`."""
    configure_logging("INFO" if options.verbose else "WARNING", "text")
    leave_out_user_plugins()
    forget_user_folders()

    async def ready(run: state.ClusterRun) -> None:
        print(f"ready: {run.server}", flush=True)
        if run.dashboard and sys.stdout.isatty():
            # Not into a log, which may be passed on: the address gives access to the jobs.
            print(f"dashboard: {run.dashboard}", flush=True)

    asyncio.run(serve(options, ready))


def leave_out_user_plugins() -> None:
    """Warn of plugins that other commands load, and a local cluster does not."""
    path = path_without_user_folders()
    if path == sys.path:
        return
    from trainwright.plugins.registry import ENTRY_POINTS, installed  # noqa: PLC0415 - most have none

    known = {one.name for found in distributions(path=path) for one in found.entry_points if one.group == ENTRY_POINTS}
    for plugin in installed():
        if plugin.name not in known:
            print(
                f"warning: {plugin} is not loaded: it is in a folder of PYTHONPATH only, and a local cluster takes "
                "plugins from its own environment; install it there with: pip install --editable FOLDER",
                file=sys.stderr,
                flush=True,
            )


def start_in_background(options: LocalOptions) -> state.ClusterRun:
    """Start the cluster as a process of its own and wait until it is ready.

    Raises ClusterStartError: it ended or took too long; the text has its last lines.
    """
    leave_out_user_plugins()
    state.claim(options.folder)
    log = options.folder / LOG
    with log.open("w", encoding="utf-8") as output:
        how = [f"--name={options.name}", f"--dir={options.folder}", *options.kept()]
        process = subprocess.Popen(
            [*isolated_python(), "-m", "trainwright.controller.cli.main", "local", "up", "--foreground", *how],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_SECONDS
    while True:
        run = state.running(options.folder)
        if run is not None and run.pid == process.pid:
            return run
        if process.poll() is not None:
            said = (
                _tail(log)
                or f"  it ended with exit code {process.returncode}, and nothing is in {log}: is its disk full?"
            )
            if "\n" not in said and said.startswith("  error: "):
                raise ClusterStartError(f"the cluster did not start: {said.removeprefix('  error: ')}")
            raise ClusterStartError(f"the cluster did not start:\n{said}")
        if time.monotonic() > deadline:
            process.terminate()
            raise ClusterStartError(f"the cluster was not ready after {READY_SECONDS:.0f} s:\n{_tail(log)}")
        time.sleep(_POLL_SECONDS)


def started_elsewhere(folder: Path) -> state.ClusterRun | None:
    """The cluster that another process has started or is starting from the folder; None if none becomes ready."""
    state.until(lambda: state.running(folder) is not None or not state.is_held(folder), _ELSEWHERE_SECONDS)
    return state.running(folder)


def stop(folder: Path, run: state.ClusterRun) -> float | None:
    """End a cluster in another process; Ctrl-C kills its pods. Returns the seconds that were not enough, if so."""
    seconds = STOP_SECONDS
    try:
        os.kill(run.pid, signal.SIGTERM)
        if _has_ended(folder, _SILENT_SECONDS):
            return None
        if not state.until(lambda: state.running(folder) is None, _REACT_SECONDS):
            _kill(folder, run)
            return None if _has_ended(folder, KILL_SECONDS) else KILL_SECONDS
        print("waiting for the pods to end with their grace; Ctrl-C kills them", file=sys.stderr, flush=True)
        if _has_ended(folder, seconds):
            return None
    except ProcessLookupError:
        return None
    except KeyboardInterrupt:
        print("killing the pods", file=sys.stderr, flush=True)
        seconds = KILL_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGTERM)
        if _has_ended(folder, seconds):
            return None
    return seconds


def _kill(folder: Path, run: state.ClusterRun) -> None:
    """Kill a cluster that hangs. `--delete` and its next start end what is left of its pods."""
    why = f"process {run.pid} did not react to SIGTERM within {_REACT_SECONDS:.0f} s, so it is killed"
    log = folder / LOG
    said = f"; the last lines of {log}:\n{_tail(log)}" if log.is_file() else ""
    print(f"cluster {run.name}: {why}{said}", file=sys.stderr, flush=True)
    os.kill(run.pid, signal.SIGKILL)


def _has_ended(folder: Path, seconds: float) -> bool:
    return state.until(lambda: not state.is_held(folder), seconds)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-15:])
