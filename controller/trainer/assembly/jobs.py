# SPDX-License-Identifier: Apache-2.0
"""The parts that every manager has, and clean-up: TrainJobs, runtimes, states, admission, the process itself."""

import functools
import logging
from collections.abc import Iterable

from trainwright.api.objects import AnyObject, finalizers_of, resource_version_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import FINALIZER_RESOURCE_IN_USE
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, Runtime
from trainwright.controller.runtime import Done, Event, Key, Manager, Result
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.leaderelection.candidate import LeaseLock
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.servers.access import BearerAccess
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission
from trainwright.controller.trainer.assembly.features import CREATED_CONDITION, RECOVERY, TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.part import LOOPBACK, Assembly, Grants, Part
from trainwright.controller.trainer.controller import WORKERS, TrainJobController
from trainwright.controller.trainer.job.cleanup import Cleanup
from trainwright.controller.trainer.job.events import PluginTransitions
from trainwright.controller.trainer.job.metrics import JobMetrics
from trainwright.controller.trainer.job.records import JobStates

log = logging.getLogger(__name__)


def _declare_jobs(assembly: Assembly) -> None:
    settings = assembly.settings
    TrainJobController(
        assembly.manager,
        assembly.pipeline,
        assembly.facts,
        assembly.snapshots,
        assembly.events,
        assembly.records,
        assembly.findings,
        recoveries=assembly.recoveries,
        workers=settings.workers_of(TrainJob, WORKERS),
        created_condition=CREATED_CONDITION in settings.features,
    )


_OF_FINALIZERS = {runtime: Uses(kind=runtime, finalizes=True) for runtime in RUNTIMES}


def _rights_on_finalizers(_: Grants) -> Iterable[Rule]:
    return (rule for uses in _OF_FINALIZERS.values() for rule in uses.rules())


def _declare_finalizers(assembly: Assembly) -> None:
    """Remove a finalizer that earlier versions of Kubeflow Trainer set to protect runtimes that are in use.

    Jobs have snapshots now, and nothing else removes it, so a runtime with it could not be deleted.
    """
    manager = assembly.manager
    for kind in RUNTIMES:
        builder = manager.controller(f"{kind.RESOURCE.kind.lower()}_controller", _OF_FINALIZERS[kind])
        builder.for_(kind, predicates=[_has_finalizer])
        workers = assembly.settings.workers_of(kind, 1)
        builder.reconcile(functools.partial(_remove_finalizer, manager, kind), workers=workers)


async def _remove_finalizer(manager: Manager, kind: type[Runtime], key: Key) -> Result:
    runtime: Runtime | None = manager.cache.get(kind, key.name, key.namespace)
    if runtime is not None and FINALIZER_RESOURCE_IN_USE in finalizers_of(runtime):
        kept = [name for name in finalizers_of(runtime) if name != FINALIZER_RESOURCE_IN_USE]
        # With the version, so that a finalizer that another client adds meanwhile is not lost.
        metadata = {"finalizers": kept, "resourceVersion": resource_version_of(runtime)}
        await manager.client.patch(kind, key.name, key.namespace, {"metadata": metadata}, type="merge")
    return Done()


def _has_finalizer(event: Event[AnyObject]) -> bool:
    return event.new is not None and FINALIZER_RESOURCE_IN_USE in finalizers_of(event.new)


def _rights_to_clean_up(grants: Grants) -> Iterable[Rule]:
    watched = dict.fromkeys(watch.resource for watch in grants.registry.watches() if not watch.name)
    return Cleanup.uses(watched, secrets=bool(grants.registry.secrets())).rules()


def _declare_cleanup(assembly: Assembly) -> None:
    assert assembly.settings.cleanup is not None  # or the part is off
    secrets = bool(assembly.pipeline.registry.secrets())
    Cleanup(assembly.manager, assembly.facts.kinds.owned(), assembly.settings.cleanup, secrets=secrets)


def _declare_states(assembly: Assembly) -> None:
    manager = assembly.manager
    states = JobStates(assembly.records)
    states.listen(JobMetrics(manager.metrics.registry, leads=assembly.leads))
    states.listen(assembly.events)
    following = assembly.pipeline.registry.having("on_transition")
    told = PluginTransitions(following, manager.metrics.registry, leads=assembly.leads)
    if following:
        states.listen(told)
        manager.add(told, Group.LEADER, "transitions")


def _rights_of_admission(grants: Grants) -> Iterable[Rule]:
    # Imported here and below, because the library that makes certificates costs 8 MiB of memory, and time.
    from trainwright.controller.runtime.certificates.material import CertificateVault  # noqa: PLC0415 - as it says
    from trainwright.controller.runtime.webhook.webhooks import Webhooks  # noqa: PLC0415 - as it says

    settings = grants.settings
    if settings.own_certificates:
        grants.on_own(*CertificateVault.rules(settings.secret))
    return Webhooks.rules(webhook_configurations(), managed=settings.own_certificates)


async def _declare_admission(assembly: Assembly) -> None:
    if not assembly.is_reached:
        log.info("not serving webhooks: this process runs outside of the cluster and has no --webhook-url")
        return
    from trainwright.controller.trainer.assembly.serving import handlers_of, keep_local_certificate, serve_webhooks  # noqa: PLC0415

    manager, settings = assembly.manager, assembly.settings
    admission = TrainJobAdmission(
        manager.client,
        manager.cache,
        assembly.pipeline,
        assembly.facts,
        assembly.snapshots.runtimes,
        assembly.snapshots,
        assembly.events.defects,
        cleans_up=settings.cleanup is not None,
        recovers=RECOVERY in settings.features,
    )
    if assembly.answer_here is not None:
        assembly.answer_here(handlers_of(admission, assembly.handlers))
        if TRAIN_JOB_STATUS in settings.features:
            keep_local_certificate(assembly, LOOPBACK)
        return
    await serve_webhooks(assembly, admission)


def _rights_of_process(grants: Grants) -> Iterable[Rule]:
    settings = grants.settings
    if settings.election is not None:
        grants.on_own(*LeaseLock.rules(settings.election.name), namespace=settings.election.namespace)
    return BearerAccess.RULES if settings.metrics_address is not None and settings.metrics_access else ()


def _declare_process(assembly: Assembly) -> None:
    """Make the certificate of the metrics if no webhook server makes one; the manager serves them itself."""
    server = assembly.manager.servers.get("metrics")
    if server is not None and assembly.settings.metrics_tls and not assembly.is_reached:
        # Imported here, because the library that makes certificates costs memory and time.
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415

        serve_self_signed(assembly.serving, server.host)


PARTS = (
    Part(
        name="trainjobs", declare=_declare_jobs, rights=lambda grants: TrainJobController.uses(grants.registry).rules()
    ),
    Part(
        name="finalizers",
        declare=_declare_finalizers,
        rights=_rights_on_finalizers,
    ),
    Part(
        name="cleanup",
        declare=_declare_cleanup,
        rights=_rights_to_clean_up,
        is_on=lambda settings: settings.cleanup is not None,
    ),
    Part(name="states", declare=_declare_states),
    Part(name="admission", declare=_declare_admission, rights=_rights_of_admission),
)
PROCESS = Part(name="process", declare=_declare_process, rights=_rights_of_process)
"""Declared last: it makes a certificate for the metrics if no other part has made one."""
