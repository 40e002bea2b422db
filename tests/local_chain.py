# SPDX-License-Identifier: Apache-2.0
"""The local cluster with our manager in it, behind the interface of the test kit's whole chain.

Containers run nothing: each ends at once with exit code 0, as those of pretended nodes do. As a program, this module is
the process of the cluster: that of `trainwright local up`, and a log of the requests.
"""

import argparse
import asyncio
import functools
import signal
import sys
from pathlib import Path

import yaml

from tests.installation import SPARED, patch_webhooks
from tests.repository import ROOT
from trainwright.api.objects import Document
from trainwright.controller.cli.local import training
from trainwright.controller.local.credentials import write_private
from trainwright.controller.local.node.images import Images
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.local.testing.late import late_if_wanted
from trainwright.controller.runtime.testing import programs
from trainwright.controller.runtime.testing.build import Binaries
from trainwright.controller.runtime.testing.component import Components
from trainwright.controller.runtime.testing.ports import free_port

_IMAGES = {"images": [{"image": "*", "command": ["true"]}]}
_WEBHOOKS = "https://trainwright.local"
_CAPACITY = {"cpu": "64", "memory": "64Gi"}


class LocalChain(LocalControlPlane):
    """The local cluster in a process of its own; a context manager. `kube-apiserver` is all of it."""

    gates = True
    """Whether the manager has the features that an installation turns on by itself, as on the local cluster."""

    def _launch_api(
        self, files: programs.Files, binaries: Binaries, components: Components, token: str, audit_log: Path | None
    ) -> str:
        """Start the cluster with the authority and the token of the test kit. Returns the URL of its API server."""
        del binaries
        state = files.folder / "state"
        pki = state / "pki"
        pki.mkdir(mode=0o700, parents=True)
        state.chmod(0o700)
        write_private(pki / "ca.crt", files.authority.pem)
        write_private(pki / "ca.key", files.authority.key_pem)
        write_private(pki / "admin.token", token.encode())
        port = free_port()
        python = ("env", f"PYTHONPATH={ROOT}", sys.executable)
        command = [*python, "-m", "tests.local_chain", f"--folder={state}", f"--port={port}"]
        if not self.gates:
            command.append("--without-gates")
        if audit_log is not None:
            command.append(f"--request-log={audit_log}")
        components.launch("kube-apiserver", command, functools.partial((state / "ready").exists), ports=(port,))
        return f"https://127.0.0.1:{port}"

    def start(self) -> None:
        """Start it; some namespaces are spared our webhooks, as in the real chain of the tests."""
        super().start()

        def is_ours(webhook: Document) -> bool:
            return str(webhook["clientConfig"].get("url", "")).startswith(_WEBHOOKS)

        try:
            patch_webhooks(self, is_ours, namespaceSelector=SPARED)
        except BaseException:
            self.stop()
            raise


async def _serve(folder: Path, port: int, request_log: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await asyncio.to_thread((folder / "images.yaml").write_text, yaml.safe_dump(_IMAGES))
    images = Images(folder / "images.yaml")
    settings = NodeSettings(name="laptop", folder=folder, images=images, capacity=_CAPACITY)
    async with training.training_cluster(settings, port=port, memory=True, request_log=request_log):
        await asyncio.to_thread((folder / "ready").touch)
        await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--request-log", type=Path)
    parser.add_argument("--without-gates", action="store_true")
    arguments = parser.parse_args()
    late_if_wanted()
    if arguments.without_gates:
        training.GATES = ()
    asyncio.run(_serve(arguments.folder, arguments.port, arguments.request_log))
