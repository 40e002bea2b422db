# SPDX-License-Identifier: Apache-2.0
"""The local cluster with what training needs: our definitions, the shipped runtimes, the manager; in one process."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from trainwright.api.config.v1alpha1 import Configuration, ControllerWebhook, Progress, ProgressPull, StatusServer
from trainwright.api.manifest import documents
from trainwright.api.objects import Document
from trainwright.controller.cli.versions import public_objects
from trainwright.controller.dashboard import is_free
from trainwright.controller.local.apiserver.http.serving import HOST
from trainwright.controller.local.cluster import RunningCluster, RunningServer, install, local_cluster
from trainwright.controller.local.credentials import write_private
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.reviews import answerer
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.assembly.features import (
    EXPLAIN,
    OPTIMIZATION_JOB,
    PROGRESS_PULL,
    RECOVERY,
    TRAIN_JOB_STATUS,
    Gate,
)
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import ManagerSettings, settings_of

_FOLDER = Path(__file__).parent
_RUNTIMES = _FOLDER.parent / "rendering" / "shipped"
"""Those of config/runtimes, which a wheel has there once."""
_USER_ROLES = _FOLDER / "user_roles.yaml"
"""Those of config/rbac, copied by `make generate`."""
_OWNER = "trainwright-local"
GATES: tuple[Gate, ...] = (EXPLAIN, OPTIMIZATION_JOB, PROGRESS_PULL, RECOVERY, TRAIN_JOB_STATUS)
"""Features that are off in an installation until its admin knows their price; on a laptop they cost nothing."""
_WEBHOOKS = "https://trainwright.local"
"""Nothing listens there: the manager's webhooks are answered in the process."""


@asynccontextmanager
async def training_cluster(
    settings: NodeSettings,
    *,
    port: int = 0,
    memory: bool = False,
    rbac: bool = False,
    request_log: Path | None = None,
) -> AsyncIterator[RunningCluster]:
    """Run a cluster that TrainJobs can be submitted to, for the length of the block.

    Args:
        settings: of the node.
        port: of the API server; 0 for that of the last run, or a free one.
        memory: keep no state file.
        rbac: authorize by roles and bindings; the shipped roles for people are there.
        request_log: file for a line about each request (`http/requestlog.py`).

    Raises:
        StateFileError: the state file cannot be used.
        ConfigurationError: the port cannot be used.
        KubernetesError: something could not be set up.
    """

    @asynccontextmanager
    async def managed(api: RunningServer) -> AsyncIterator[None]:
        await install_definitions(api)
        async with training_manager(api, settings.folder):
            yield

    async with local_cluster(
        settings, port=port, memory=memory, rbac=rbac, request_log=request_log, beside=managed
    ) as cluster:
        client = Client(cluster.api.transport(), user_agent=_OWNER)
        await install(client, await asyncio.to_thread(_shipped, *sorted(_RUNTIMES.glob("*.yaml"))), owner=_OWNER)
        if rbac:
            await install(client, await asyncio.to_thread(_shipped, _USER_ROLES), owner=_OWNER)
        yield cluster


async def install_definitions(api: RunningServer) -> None:
    """Our definitions, and the namespace that the manager keeps its certificate in."""
    client = Client(api.transport(), user_agent=_OWNER)
    await install(client, [*await asyncio.to_thread(definitions), *public_objects()], owner=_OWNER)


@asynccontextmanager
async def training_manager(api: RunningServer, folder: Path) -> AsyncIterator[None]:
    """Run the manager of an API server that has our definitions, for the length of the block."""
    client = Client(api.transport(), user_agent=_OWNER)

    def answer_here(handlers: Mapping[str, AdmissionHandler]) -> None:
        api.webhooks.answer_here(_WEBHOOKS, answerer(handlers))

    manager = await make_manager(
        api.config,
        _settings(await asyncio.to_thread(status_port, folder)),
        user_agent="trainwright",
        transport=api.transport(),
        answer_here=answer_here,
    )
    async with TaskScope("training cluster") as tasks:
        running = tasks.start("manager", manager.run())
        try:
            await manager.wait_ready()
            hooks = [webhooks_by_url(one, _WEBHOOKS, b"", {}) for one in webhook_configurations()]
            await install(client, hooks, owner=_OWNER)
            yield
        finally:
            manager.stop()
            await asyncio.wait({running})


def _settings(port: int) -> ManagerSettings:
    """Those of the manager. Training may report its progress: the server is reached by this machine only."""
    configuration = Configuration(
        webhook=ControllerWebhook(host=HOST),
        status_server=StatusServer(port=port),
        feature_gates={gate.name: True for gate in GATES},
        # The shortest interval: there are few jobs, and people watch them.
        progress=Progress(interval="2s", stall_after="10m", pull=ProgressPull(interval="10s")),
    )
    return replace(settings_of(configuration), metrics_address=None, probe_address=None)


def definitions() -> list[Document]:
    found: list[Document] = []
    for path in sorted(_FOLDER.glob("*.crd.json")):
        document = msgspec.json.decode(path.read_bytes())
        document.pop("//")
        found.append(document)
    return found


def _shipped(*files: Path) -> list[Document]:
    found = [document.data for path in files for document in documents(path.read_text(encoding="utf-8"))]
    return [document for document in found if document["kind"] != "Kustomization"]


log = logging.getLogger(__name__)

FILE = "status-port"


def status_port(folder: Path) -> int:
    """The port of the last run if it is free, else another free one.

    Pods of jobs that go on after a restart know the port of the last run, since their JobSets cannot be changed.
    """
    kept = folder / FILE
    known = 0
    with suppress(FileNotFoundError, UnicodeDecodeError):
        text = kept.read_text(encoding="ascii").strip()
        known = int(text) if text.isdecimal() and 0 < int(text) <= 65535 else 0
    if known and is_free(known):
        return known
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
    if known:
        log.warning(
            "another program uses port %d: jobs that exist cannot report their progress; new ones use %d", known, port
        )
    write_private(kept, str(port).encode())
    return port
