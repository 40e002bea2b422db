# SPDX-License-Identifier: Apache-2.0
"""Puts the trainer together: plugins, pipeline, controllers, and the manager that runs them."""

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import FIELD_MANAGER
from trainwright.controller.runtime import ClusterConfig, Manager
from trainwright.controller.trainer.admission import TrainJobAdmission
from trainwright.controller.trainer.controller import WORKERS, TrainJobController
from trainwright.controller.trainer.finalizers import remove_obsolete_finalizers
from trainwright.controller.trainer.kinds import WatchedKinds, absent_kinds
from trainwright.controller.trainer.runtimes import Runtimes
from trainwright.controller.trainer.snapshot import Snapshots
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

_OFF = "0"
"""As an address: serve nothing."""


async def make_manager(
    cluster: ClusterConfig,
    configuration: Configuration,
    *,
    user_agent: str,
    webhook_url: str | None = None,
    detect_mutation: bool = False,
) -> Manager:
    """The manager of a process, inside its running event loop.

    Args:
        cluster: how to reach the API server.
        configuration: with its defaults set.
        user_agent: product name of the requests.
        webhook_url: where the API server reaches this process, outside of a cluster; no webhooks without it.
        detect_mutation: look for code that changes shared objects; for tests.

    Raises:
        RegistryError: plugins that cannot be loaded together.
        KubernetesError: the API server cannot be asked which kinds it serves.
    """
    registry = Registry.load(Selection.of(configuration.plugins))
    health = configuration.health.health_probe_bind_address if configuration.health is not None else None
    manager = Manager(
        cluster,
        field_manager=FIELD_MANAGER,
        user_agent=user_agent,
        metrics_address=None,
        probe_address=health if health and health != _OFF else None,
        tune_collector=not detect_mutation,
        detect_mutation=detect_mutation,
    )
    try:
        await _declare(manager, configuration, registry, webhook_url)
    except BaseException:
        await manager.client.close()
        raise
    return manager


async def _declare(manager: Manager, configuration: Configuration, registry: Registry, webhook_url: str | None) -> None:
    """Give the manager its controllers and webhooks."""
    watches = registry.watches()
    kinds = WatchedKinds(watches, absent=await absent_kinds(manager.client, watches))
    pipeline = Pipeline(registry)
    runtimes = Runtimes(manager.cache)
    snapshots = Snapshots(manager.client, manager.cache, runtimes)
    TrainJobController(manager, pipeline, kinds, runtimes, snapshots, workers=_workers(configuration))
    remove_obsolete_finalizers(manager)
    if webhook_url is not None:
        # Certificates are made there, by a library that costs memory and time.
        from trainwright.controller.trainer.webhooks import serve_webhooks  # noqa: PLC0415

        admission = TrainJobAdmission(manager.client, manager.cache, pipeline, kinds, runtimes, snapshots)
        serve_webhooks(manager, admission, webhook_url)


def _workers(configuration: Configuration) -> int:
    concurrency = (configuration.controller.group_kind_concurrency if configuration.controller else None) or {}
    return concurrency.get(f"{TrainJob.RESOURCE.kind}.{TrainJob.RESOURCE.group}", WORKERS)
