# SPDX-License-Identifier: Apache-2.0
"""The local cluster with what training needs: our definitions, the shipped runtimes, the manager; in one process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.manifest import documents
from trainwright.api.objects import Document
from trainwright.controller.local.cluster import RunningCluster, install, local_cluster
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

_FOLDER = Path(__file__).parent
_OWNER = "trainwright-local"


@asynccontextmanager
async def training_cluster(
    settings: NodeSettings, *, port: int = 0, memory: bool = False
) -> AsyncIterator[RunningCluster]:
    """Run a cluster that TrainJobs can be submitted to, for the length of the block.

    Args:
        settings: of the node; its folder holds everything.
        port: of the API server; 0 for a free one.
        memory: keep no state file.

    Raises:
        StateFileError: the state file cannot be used.
        ConfigurationError: the port cannot be used.
        KubernetesError: something could not be set up.
    """
    async with local_cluster(settings, port=port, memory=memory) as cluster:
        client = Client(cluster.api.transport(), user_agent=_OWNER)
        await install(client, await asyncio.to_thread(_definitions), owner=_OWNER)
        chosen = replace(settings_of(Configuration()), metrics_address=None, probe_address=None)
        manager = await make_manager(
            cluster.api.config,
            chosen,
            user_agent="trainwright",
            webhook_url=f"https://127.0.0.1:{_free_port()}",
            transport=cluster.api.transport(),
        )
        async with TaskScope("training cluster") as tasks:
            running = tasks.start("manager", manager.run())
            try:
                await manager.wait_ready()
                await install(client, await asyncio.to_thread(_runtimes), owner=_OWNER)
                yield cluster
            finally:
                manager.stop()
                await asyncio.wait({running})


def _definitions() -> list[Document]:
    found: list[Document] = []
    for path in sorted(_FOLDER.glob("*.crd.json")):
        document = msgspec.json.decode(path.read_bytes())
        document.pop("//")
        found.append(document)
    return found


def _runtimes() -> list[Document]:
    return list(_shipped())


def _shipped() -> Iterator[Document]:
    for path in sorted((_FOLDER / "runtimes").glob("*.yaml")):
        for document in documents(path.read_text(encoding="utf-8")):
            if document.data["kind"] != "Kustomization":
                yield document.data


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
