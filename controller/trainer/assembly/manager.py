# SPDX-License-Identifier: Apache-2.0
"""Makes the manager of a process from plugins, pipeline, servers and the parts that are turned on."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainwright import __version__
from trainwright.api.trainer.v1alpha1.constants import FIELD_MANAGER
from trainwright.controller.runtime import (
    ClusterConfig,
    HTTPTransport,
    LeaderElector,
    Manager,
    ProcessSettings,
    ServerSettings,
)
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.client.config import is_in_cluster
from trainwright.controller.runtime.client.limit import LimitedTransport
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.manager.manager import Elector
from trainwright.controller.trainer.admission.configurations import NAMESPACE
from trainwright.controller.trainer.assembly.features import TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.part import LOOPBACK, AnswerHere, Assembly
from trainwright.controller.trainer.assembly.parts import declare_parts, parts_of
from trainwright.controller.trainer.assembly.settings import ManagerSettings, installation_in
from trainwright.controller.trainer.build.kinds import CachedFacts, WatchedKinds, absent_kinds
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.obstacles import Defects
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.plugins.contract import Installation
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

if TYPE_CHECKING:
    from trainwright.controller.runtime.certificates.material import CertificateMaterial

log = logging.getLogger(__name__)

METRICS_ADDRESS = ":8443"
"""Where metrics are served in a cluster if the Configuration does not say."""
DRAIN_SECONDS = 5.0
"""Until all nodes of a cluster know that a pod is not ready; most know within one second. It is a part of the 30 s that
the whole stop may take, which terminationGracePeriodSeconds of the Deployment must exceed."""


async def make_manager(
    cluster: ClusterConfig,
    settings: ManagerSettings,
    *,
    user_agent: str,
    namespace: str = "",
    webhook_url: str | None = None,
    transport: Transport | None = None,
    answer_here: AnswerHere | None = None,
    elector: Elector | None = None,
    process: ProcessSettings = ProcessSettings(tune_collector=True),
) -> Manager:
    """The manager of a process, inside its running event loop.

    In a cluster it serves admission and metrics. Outside of a cluster it serves admission if `webhook_url` is given,
    with which the webhooks are registered, and metrics if the settings give an address.

    Args:
        cluster: how to reach the API server.
        settings: of its Configuration.
        user_agent: product name in the requests.
        namespace: manage the TrainJobs of this namespace only; empty: of all namespaces.
        webhook_url: where the API server reaches this process.
        transport: another way to the API server than HTTP, such as that to one in the same process.
        answer_here: takes the handlers of the webhooks, for an API server in the same process that needs no socket to
            ask them; whoever runs it registers the webhooks.
        elector: another election than that of the settings, such as one on this event loop.
        process: how the process lists, stops and manages its memory.

    Raises:
        RegistryError: the plugins cannot be loaded together.
        KubernetesError: the API server does not say which kinds it serves.
    """
    place = await place_of(cluster, settings, webhook_url=webhook_url, is_local=answer_here is not None)
    registry = Registry.load(settings.plugins, installation=place.installation)
    election = elector or _elector(cluster, settings, user_agent)
    manager = Manager(
        cluster,
        field_manager=FIELD_MANAGER,
        namespace=namespace,
        user_agent=user_agent,
        servers=_servers(cluster, settings, lambda: serving.context),
        process=replace(process, drain=drain_of(cluster, webhook_url=webhook_url, is_local=answer_here is not None)),
        transport=_transport(transport or HTTPTransport(cluster), settings),
        elector=election,
    )
    serving = ServingCertificate(manager.metrics.registry, minimum=settings.minimum_tls, ciphers=settings.ciphers)
    try:
        if place.own is not None:
            # Imported here, because the library that makes certificates costs memory and time.
            from trainwright.controller.trainer.assembly.serving import load_own  # noqa: PLC0415

            load_own(serving, place.own)
        _introduce(settings, registry)
        watches = registry.watches()
        kinds = WatchedKinds(watches, absent=await absent_kinds(manager.client, watches))
        records = JobRecords()
        records.watch(manager.cache)
        leads = (lambda: True) if election is None else (lambda: election.leads)
        await declare_parts(
            Assembly(
                manager=manager,
                settings=settings,
                pipeline=Pipeline(registry),
                facts=CachedFacts(manager.client, manager.cache, kinds),
                snapshots=Snapshots(manager.client, manager.cache),
                events=JobEvents(manager, Defects(manager.metrics.registry), leads),
                records=records,
                findings=JobFindings(records),
                serving=serving,
                leads=leads,
                webhook_url=webhook_url,
                answer_here=answer_here,
                own_certificate=place.own,
            )
        )
    except BaseException:
        await manager.client.close()
        raise
    return manager


def drain_of(cluster: ClusterConfig, *, webhook_url: str | None, is_local: bool) -> float:
    """How long to serve on after the request to stop: only where a Service sends requests to this process."""
    return DRAIN_SECONDS if is_in_cluster(cluster) and not webhook_url and not is_local else 0.0


def _introduce(settings: ManagerSettings, registry: Registry) -> None:
    features = ", ".join(sorted(gate.name for gate in settings.features)) or "none"
    plugins = ", ".join(entry.name for entry in registry)
    parts = ", ".join(part.name for part in parts_of(settings))
    log.info("trainwright %s; plugins, in order: %s; features: %s; parts: %s", __version__, plugins, features, parts)


def _servers(cluster: ClusterConfig, settings: ManagerSettings, tls: Callable[[], ssl.SSLContext]) -> ServerSettings:
    address = settings.metrics_address
    if address == "":
        address = METRICS_ADDRESS if is_in_cluster(cluster) else None
    return ServerSettings(
        metrics=address,
        metrics_access=settings.metrics_access,
        metrics_tls=tls if settings.metrics_tls else None,
        probes=settings.probe_address,
        liveness_path=settings.liveness_path,
        readiness_path=settings.readiness_path,
    )


def _transport(transport: Transport, settings: ManagerSettings) -> Transport:
    if settings.limit is None:
        return transport
    return LimitedTransport(transport, rate=settings.limit.rate, burst=settings.limit.burst)


def _elector(cluster: ClusterConfig, settings: ManagerSettings, user_agent: str) -> LeaderElector | None:
    election = settings.election
    if election is None:
        return None
    return LeaderElector(cluster, election.name, election.namespace, timing=election.timing, user_agent=user_agent)


# ---------------------------------------------------------------------- where pods reach this process


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    installation: Installation
    own: "CertificateMaterial | None" = None
    """None: the replicas share one in the Secret, or another program keeps it there."""


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
