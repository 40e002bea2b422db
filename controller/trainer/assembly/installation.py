# SPDX-License-Identifier: Apache-2.0
"""Where pods reach the status server of this process, and which certificates verify it."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.runtime import ClusterConfig, is_in_cluster
from trainwright.controller.trainer.admission.configurations import NAMESPACE
from trainwright.controller.trainer.assembly.features import TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.plugins.contract import Installation

if TYPE_CHECKING:
    from trainwright.controller.runtime import CertificateMaterial

LOOPBACK = "127.0.0.1"
"""Where pods that are processes of this machine reach the server, whether they have host names of their own or not."""


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    installation: Installation
    own: "CertificateMaterial | None" = None
    """None: the replicas share one in the Secret, or another program keeps it there."""


def installation_in(namespace: str, *, service: str, secret: str, port: int) -> Installation:
    """The installation of a manager in that namespace of a cluster."""
    return Installation(host=f"{service}.{namespace}.svc", port=port, namespace=namespace, secret=secret)


def shipped_installation(configuration: Configuration) -> Installation:
    """The installation of a manager with this Configuration, for commands that are not the manager."""
    full = configuration.deepcopy()
    full.set_defaults()
    certificates, server = full.cert_management, full.status_server
    assert certificates is not None and server is not None and server.port is not None  # noqa: PT018 - defaults
    return installation_in(
        NAMESPACE,
        service=certificates.webhook_service_name or "",
        secret=certificates.webhook_secret_name or "",
        port=server.port,
    )


async def place_of(
    cluster: ClusterConfig, settings: ManagerSettings, *, webhook_url: str | None, is_local: bool
) -> ProcessPlace:
    """Where this process is reached.

    `webhook_url`: where the API server reaches it outside of a cluster; pods reach it at the same host. `is_local`: the
    pods are processes of this machine.
    """
    namespace = cluster.namespace if is_in_cluster(cluster) else NAMESPACE
    port = settings.status_server.port
    if is_local:
        return ProcessPlace(Installation(host=LOOPBACK, port=port, namespace=namespace, secret=settings.secret))
    host = urlsplit(webhook_url or "").hostname
    if host is None or TRAIN_JOB_STATUS not in settings.features:
        return ProcessPlace(installation_in(namespace, service=settings.service, secret=settings.secret, port=port))
    # Imported here, because the library that makes certificates costs memory and time.
    from trainwright.controller.trainer.assembly.serving import own_material  # noqa: PLC0415

    own = await asyncio.to_thread(own_material, host)
    shown = f"[{host}]" if ":" in host else host
    installation = Installation(
        host=shown, port=port, namespace=namespace, secret=settings.secret, authority=own.bundle.decode()
    )
    return ProcessPlace(installation, own)
