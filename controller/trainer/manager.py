# SPDX-License-Identifier: Apache-2.0
"""Puts the trainer together: plugins, pipeline, controllers, servers, and the manager that runs them."""

import logging

from trainwright import __version__
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import FIELD_MANAGER
from trainwright.controller.runtime import ClusterConfig, HTTPTransport, LeaderElector, Manager
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.client.config import is_inside
from trainwright.controller.runtime.client.limit import LimitedTransport
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.trainer.admission import TrainJobAdmission
from trainwright.controller.trainer.controller import WORKERS, TrainJobController
from trainwright.controller.trainer.features import CREATED_CONDITION
from trainwright.controller.trainer.finalizers import remove_obsolete_finalizers
from trainwright.controller.trainer.kinds import WatchedKinds, absent_kinds
from trainwright.controller.trainer.metrics import JobMetrics
from trainwright.controller.trainer.runtimes import RUNTIMES, Runtimes
from trainwright.controller.trainer.settings import Settings, settings_of
from trainwright.controller.trainer.snapshot import Snapshots
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

log = logging.getLogger(__name__)

METRICS_ADDRESS = ":8443"
"""In a cluster, unless the Configuration says otherwise."""


async def make_manager(
    cluster: ClusterConfig,
    configuration: Configuration,
    *,
    user_agent: str,
    namespace: str = "",
    webhook_url: str | None = None,
    detect_mutation: bool = False,
) -> Manager:
    """The manager of a process, inside its running event loop.

    In a cluster it serves admission and metrics. Outside of one it serves admission where `webhook_url` says how the
    API server reaches it, and metrics where the configuration gives an address.

    Args:
        cluster: how to reach the API server.
        configuration: as its file has it, without defaults.
        user_agent: product name of the requests.
        namespace: look after the TrainJobs of this one only; empty: of all.
        webhook_url: where the API server reaches this process; webhooks are registered there.
        detect_mutation: look for code that changes shared objects; for tests.

    Raises:
        ConfigurationError: fields of the configuration that cannot take effect.
        RegistryError: plugins that cannot be loaded together.
        KubernetesError: the API server cannot be asked which kinds it serves.
    """
    settings = settings_of(configuration)
    registry = Registry.load(Selection.of(configuration.plugins))
    elector = _elector(cluster, settings, user_agent)
    manager = Manager(
        cluster,
        field_manager=FIELD_MANAGER,
        namespace=namespace,
        user_agent=user_agent,
        metrics_address=_metrics_address(cluster, settings),
        metrics_access=settings.metrics_access,
        metrics_tls=(lambda: serving.context) if settings.metrics_tls else None,
        probe_address=settings.probe_address,
        liveness_path=settings.liveness_path,
        readiness_path=settings.readiness_path,
        transport=_transport(cluster, settings),
        elector=elector,
        tune_collector=not detect_mutation,
        detect_mutation=detect_mutation,
    )
    serving = ServingCertificate(manager.metrics.registry, minimum=settings.minimum_tls, ciphers=settings.ciphers)
    try:
        admission = await _declare(manager, settings, registry)
        leads = (lambda: True) if elector is None else (lambda: elector.permission.open)
        JobMetrics(manager.metrics.registry, leads=leads).watch(manager.cache)
        await _serve(manager, admission, serving, settings, webhook_url)
    except BaseException:
        await manager.client.close()
        raise
    return manager


def _metrics_address(cluster: ClusterConfig, settings: Settings) -> str | None:
    """Where metrics are served, if they are."""
    if settings.metrics_address == "":
        return METRICS_ADDRESS if is_inside(cluster) else None
    return settings.metrics_address


async def _serve(
    manager: Manager, admission: TrainJobAdmission, serving: ServingCertificate, settings: Settings, url: str | None
) -> None:
    """Give the manager its webhooks, if the API server can reach them, and the certificate of its servers."""
    if is_inside(manager.config) or url is not None:
        # Certificates are made there, by a library that costs memory and time.
        from trainwright.controller.trainer.webhooks import serve_webhooks  # noqa: PLC0415

        await serve_webhooks(manager, admission, serving, settings, url=url)
        return
    log.info("no webhooks: this process is outside of the cluster, and was not told how the API server reaches it")
    if "metrics" in manager.servers and settings.metrics_tls:
        from trainwright.controller.trainer.webhooks import serve_self_signed  # noqa: PLC0415

        serve_self_signed(serving, manager.servers["metrics"].host)


async def _declare(manager: Manager, settings: Settings, registry: Registry) -> TrainJobAdmission:
    """Give the manager its controllers; returns what answers for the webhooks."""
    on = sorted(gate.name for gate in settings.features.on)
    names = ", ".join(entry.name for entry in registry)
    log.info("trainwright %s; plugins, in order: %s; features: %s", __version__, names, ", ".join(on) or "none")
    watches = registry.watches()
    kinds = WatchedKinds(watches, absent=await absent_kinds(manager.client, watches))
    pipeline = Pipeline(registry)
    runtimes = Runtimes(manager.cache)
    snapshots = Snapshots(manager.client, manager.cache, runtimes)
    TrainJobController(
        manager,
        pipeline,
        kinds,
        runtimes,
        snapshots,
        workers=settings.workers_of(TrainJob, WORKERS),
        created_condition=settings.features.enabled(CREATED_CONDITION),
    )
    remove_obsolete_finalizers(manager, {kind: settings.workers_of(kind, 1) for kind in RUNTIMES})
    return TrainJobAdmission(manager.client, manager.cache, pipeline, kinds, runtimes, snapshots)


def _transport(cluster: ClusterConfig, settings: Settings) -> Transport:
    transport = HTTPTransport(cluster)
    if settings.limit is None:
        return transport
    return LimitedTransport(transport, rate=settings.limit.rate, burst=settings.limit.burst)


def _elector(cluster: ClusterConfig, settings: Settings, user_agent: str) -> LeaderElector | None:
    election = settings.election
    if election is None:
        return None
    return LeaderElector(cluster, election.name, election.namespace, timing=election.timing, user_agent=user_agent)
