# SPDX-License-Identifier: Apache-2.0
"""The recorded cases with the feature gate TrainJobStatus, on one manager and on three, installed with the overlay."""

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from tests.installation import CONFIG, Installation, forbidden, install
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port

CONFORMANCE = ROOT / "tests" / "conformance"
PORT = 10443
"""The recordings name it, so each replica has an address of its own; the API server asks the webhooks of the first."""
HOSTS = ("127.0.0.1", "127.0.44.2", "127.0.44.3")


@pytest.mark.timeout(1200)
@pytest.mark.parity
@pytest.mark.parametrize("replicas", [1, 3])
def test_reports_are_answered_and_stored_as_recorded(replicas: int) -> None:
    """Scenarios 1 and 2 of progress. Scenarios 1 and 2 of the page on progress."""
    # JobSet's controllers must not run: the cases play their part.
    crds = [CONFIG / "crd", CONFORMANCE / "crds", provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]
    with ControlPlane(crds=crds, audit=True) as control_plane:
        installation = install(control_plane, "overlays/progress")
        for number, host in enumerate(HOSTS[:replicas]):
            start(installation, host, free_port() if number else installation.port)
        with turns([(host, PORT) for host in HOSTS[:replicas]]) as port:
            replay(control_plane, f"https://127.0.0.1:{port}")
        assert forbidden(control_plane) == []


def start(installation: Installation, host: str, webhook_port: int) -> None:
    installation.start(f"trainwright-{host}", webhook={"host": host, "port": webhook_port})


def replay(control_plane: ControlPlane, status_server: str) -> None:
    """Replay the cases with this gate, all of which must pass."""
    command = [
        sys.executable,
        str(CONFORMANCE / "replay.py"),
        f"--kubeconfig={control_plane.kubeconfig}",
        "--gate=TrainJobStatus",
        f"--status-server={status_server}",
        "--timeout=60",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr
    summary = done.stdout.splitlines()[-1]
    assert summary.startswith("10 passed, 0 failed"), summary


@contextmanager
def turns(targets: Sequence[tuple[str, int]]) -> Iterator[int]:
    """A port that leads to each of the servers in turn, as a Service does; one connection after the other."""
    loop = asyncio.new_event_loop()
    order = itertools.cycle(targets)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            there = await asyncio.open_connection(*next(order))
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
        to.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
