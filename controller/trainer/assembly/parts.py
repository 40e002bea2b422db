# SPDX-License-Identifier: Apache-2.0
"""The parts of the manager. A part says what turns it on, which rights it needs and how it is declared.

The manager and the roles are both made from `PARTS`, so a new capability is one entry here.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.rights import READ, Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES
from trainwright.controller.runtime import (
    AdmissionHandler,
    BearerAccess,
    CacheError,
    CertificateVault,
    Group,
    LeaseLock,
    Manager,
    ServingCertificate,
    Webhooks,
    is_in_cluster,
)
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission
from trainwright.controller.trainer.assembly import cleanup, finalizers
from trainwright.controller.trainer.assembly.features import (
    CREATED_CONDITION,
    EXPLAIN,
    PROGRESS_PULL,
    RECOVERY,
    TRAIN_JOB_STATUS,
)
from trainwright.controller.trainer.assembly.installation import LOOPBACK
from trainwright.controller.trainer.assembly.settings import Settings
from trainwright.controller.trainer.build.facts import CachedFacts
from trainwright.controller.trainer.build.kinds import WatchedKinds
from trainwright.controller.trainer.build.runtimes import Runtimes
from trainwright.controller.trainer.build.snapshot import Snapshots
from trainwright.controller.trainer.controller import WORKERS, Options, TrainJobController
from trainwright.controller.trainer.failures.recorder import FailureRecorder
from trainwright.controller.trainer.job.defects import Defects
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.metrics import JobMetrics
from trainwright.controller.trainer.job.pods import declare_pods, pods_of
from trainwright.controller.trainer.job.state import JobStates
from trainwright.controller.trainer.job.transitions import PluginTransitions
from trainwright.plugins.contract import Explains, Reference
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry

if TYPE_CHECKING:
    from trainwright.controller.runtime import CertificateMaterial
    from trainwright.controller.trainer.progress.coalescer import Coalescer

log = logging.getLogger(__name__)

OWN_NAMESPACE = ""
"""Stands for the namespace that the manager runs in, in `Part.own_rights`."""


AnswerHere: TypeAlias = Callable[[Mapping[str, AdmissionHandler]], None]
"""Takes the handlers of the webhooks, by path."""


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """The manager that parts are declared on, and the objects that they share."""

    manager: Manager
    settings: Settings
    pipeline: Pipeline
    kinds: WatchedKinds
    facts: CachedFacts
    runtimes: Runtimes
    snapshots: Snapshots
    defects: Defects
    events: JobEvents
    serving: ServingCertificate
    """The certificate of all servers of the process."""
    leads: Callable[[], bool]
    """Whether this replica leads now."""
    webhook_url: str | None
    """Where the API server reaches this process outside of a cluster; None: nowhere."""
    answer_here: AnswerHere | None = None
    """Takes the handlers where the API server runs in this process, and asks them without a socket."""
    own_certificate: "CertificateMaterial | None" = None
    """The certificate that is loaded already, of a process that makes its own; None: it is made or read later."""

    @cached_property
    def coalescer(self) -> "Coalescer":
        """Takes reports of progress and writes them; made when the first part asks for it."""
        from trainwright.controller.trainer.assembly.progress import make_coalescer  # noqa: PLC0415 - costs memory

        return make_coalescer(self.manager, self.settings)

    def jobs(self) -> Sequence[TrainJob]:
        """The TrainJobs of the cache; none before it has them."""
        try:
            return self.manager.cache.list(TrainJob)
        except CacheError:
            return ()

    @property
    def is_reached(self) -> bool:
        """Whether the API server can call the webhooks of this process."""
        return is_in_cluster(self.manager.config) or self.webhook_url is not None or self.answer_here is not None


def _always(settings: Settings) -> bool:  # noqa: ARG001 - as every condition
    return True


def _no_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    return ()


def _no_own_rights(settings: Settings) -> Mapping[str, Iterable[Rule]]:  # noqa: ARG001 - as every one
    return {}


def _nothing(assembly: Assembly) -> None:
    """For parts that the manager's constructor sets up."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One capability of the manager."""

    name: str
    is_on: Callable[[Settings], bool] = _always
    rights: Callable[[Settings, Registry], Iterable[Rule]] = _no_rights
    """The rights that it needs in every namespace with TrainJobs, and on objects without a namespace."""
    own_rights: Callable[[Settings], Mapping[str, Iterable[Rule]]] = _no_own_rights
    """The rights that it needs in single namespaces, by the name of the namespace."""
    declare: Callable[[Assembly], Awaitable[None] | None] = _nothing
    """Adds what the part runs to the manager."""


async def declare_parts(assembly: Assembly) -> None:
    """Declare the parts that are turned on, in the order of `PARTS`."""
    for part in parts_of(assembly.settings):
        declared = part.declare(assembly)
        if inspect.isawaitable(declared):
            await declared


def parts_of(settings: Settings) -> list["Part"]:
    """The parts that are turned on."""
    return [part for part in PARTS if part.is_on(settings)]


# ---------------------------------------------------------------------- how each is declared


def _declare_jobs(assembly: Assembly) -> None:
    options = Options(
        workers=assembly.settings.workers_of(TrainJob, WORKERS),
        created_condition=assembly.settings.features.enabled(CREATED_CONDITION),
    )
    TrainJobController(
        assembly.manager,
        assembly.pipeline,
        assembly.kinds,
        assembly.facts,
        assembly.runtimes,
        assembly.snapshots,
        assembly.events,
        options,
    )


def _declare_finalizers(assembly: Assembly) -> None:
    workers = {kind: assembly.settings.workers_of(kind, 1) for kind in RUNTIMES}
    finalizers.remove_obsolete_finalizers(assembly.manager, workers)


def _declare_failures(assembly: Assembly) -> None:
    declare_pods(assembly.manager.cache)
    FailureRecorder(assembly.manager, assembly.events)


def _declare_waiting(assembly: Assembly) -> None:
    # Imported here: a manager without the gate needs none of the checks.
    from trainwright.controller.trainer.explain.waiting import WaitingConditions  # noqa: PLC0415

    jobsets = assembly.kinds.kind_of(Reference(JobSet.RESOURCE, "", ""))
    explaining = [cast("Explains", entry.plugin) for entry in assembly.pipeline.registry.having("explain")]
    WaitingConditions(assembly.manager, jobsets, explaining)


def _waiting_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    from trainwright.controller.trainer.explain.waiting import WaitingConditions  # noqa: PLC0415 - as above

    return WaitingConditions.RULES


def _declare_cleanup(assembly: Assembly) -> None:
    assert assembly.settings.cleanup is not None  # or the part is off
    cleanup.clean_up(assembly.manager, assembly.kinds, assembly.settings.cleanup)


def _declare_states(assembly: Assembly) -> None:
    states = JobStates()
    states.listen(JobMetrics(assembly.manager.metrics.registry, leads=assembly.leads))
    states.listen(assembly.events)
    following = assembly.pipeline.registry.having("on_transition")
    told = PluginTransitions(following, assembly.manager.metrics.registry, leads=assembly.leads)
    if following:
        states.listen(told)
        assembly.manager.add(told, Group.LEADER, "transitions")
    states.watch(assembly.manager.cache)


async def _declare_admission(assembly: Assembly) -> None:
    if not assembly.is_reached:
        log.info("not serving webhooks: this process runs outside of the cluster and has no --webhook-url")
        return
    # Imported here, because the library that makes certificates costs memory and time.
    from trainwright.controller.trainer.assembly.serving import (  # noqa: PLC0415
        handlers_of,
        keep_local_certificate,
        serve_webhooks,
    )

    manager = assembly.manager
    admission = TrainJobAdmission(
        manager.client,
        manager.cache,
        assembly.pipeline,
        assembly.facts,
        assembly.runtimes,
        assembly.snapshots,
        assembly.defects,
        cleans_up=assembly.settings.cleanup is not None,
        recovers=assembly.settings.features.enabled(RECOVERY),
    )
    if assembly.answer_here is not None:
        assembly.answer_here(handlers_of(admission))
        if assembly.settings.features.enabled(TRAIN_JOB_STATUS):
            keep_local_certificate(manager, assembly.serving, assembly.settings, host=LOOPBACK)
        return
    await serve_webhooks(
        manager,
        admission,
        assembly.serving,
        assembly.settings,
        url=assembly.webhook_url,
        own=assembly.own_certificate,
    )


def _declare_progress(assembly: Assembly) -> None:
    # Imported here, because a manager without it needs none of it.
    from trainwright.controller.trainer.assembly.progress import host_of, serve_progress  # noqa: PLC0415

    is_local = assembly.answer_here is not None
    host = host_of(assembly.settings, assembly.webhook_url) or (LOOPBACK if is_local else "")
    jobsets = assembly.kinds.kind_of(Reference(JobSet.RESOURCE, "", ""))
    serve_progress(assembly.manager, assembly.settings, assembly.serving, assembly.coalescer, host, jobsets)
    if not assembly.is_reached:
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415 - as above

        serve_self_signed(assembly.serving, host)


def _declare_standstill(assembly: Assembly) -> None:
    # Imported here, because a manager without it needs none of it.
    from trainwright.controller.trainer.progress.jobmetrics import StalledJobs  # noqa: PLC0415 - as above
    from trainwright.controller.trainer.progress.standstill import Standstill  # noqa: PLC0415

    existing, after = assembly.snapshots.existing, assembly.settings.stall_after
    cache, has_pods = assembly.manager.cache, assembly.settings.features.enabled(EXPLAIN)
    Standstill(
        assembly.manager,
        assembly.events,
        existing,
        after,
        assembly.coalescer,
        pods_of=(lambda job: pods_of(cache, job)) if has_pods else None,
        is_alone=assembly.settings.election is None,
    )
    StalledJobs(assembly.manager.metrics.registry, assembly.jobs, leads=assembly.leads)


def _declare_job_progress(assembly: Assembly) -> None:
    from trainwright.controller.trainer.progress.jobmetrics import JobProgress  # noqa: PLC0415 - as above

    JobProgress(assembly.manager.metrics.registry, assembly.jobs, leads=assembly.leads)


def _declare_history(assembly: Assembly) -> None:
    # Imported here, because a manager without it needs none of it.
    from trainwright.controller.trainer.assembly.history import keep_history  # noqa: PLC0415

    jobsets = assembly.kinds.kind_of(Reference(JobSet.RESOURCE, "", ""))
    keep_history(assembly.manager, assembly.coalescer.budget, jobsets)


def _history_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    from trainwright.controller.trainer.progress.history.keeper import HistoryKeeper  # noqa: PLC0415 - as above

    return HistoryKeeper.RULES


def _declare_pull(assembly: Assembly) -> None:
    # Imported here, because a manager without it needs none of it.
    from trainwright.controller.trainer.assembly.pull import Read, read_progress  # noqa: PLC0415

    if not assembly.settings.features.enabled(TRAIN_JOB_STATUS):
        assembly.manager.add(assembly.coalescer, Group.OTHERS, "progress-writes")
    read = Read(assembly.pipeline, assembly.snapshots, assembly.facts, assembly.events, assembly.coalescer)
    read_progress(assembly.manager, assembly.settings, read)


def _pull_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    from trainwright.controller.trainer.assembly.pull import pull_rights  # noqa: PLC0415 - as above

    return pull_rights(settings)


def _declare_metrics(assembly: Assembly) -> None:
    """The manager serves metrics itself. Make their certificate here if no webhook server makes one."""
    server = assembly.manager.servers.get("metrics")
    if server is not None and assembly.settings.metrics_tls and not assembly.is_reached:
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415 - as above

        serve_self_signed(assembly.serving, server.host)


def _admission_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    return Webhooks.rules(webhook_configurations(), managed=settings.own_certificates)


def _metrics_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    return BearerAccess.RULES if settings.metrics_access else ()


def _progress_rights(settings: Settings, registry: Registry) -> Iterable[Rule]:  # noqa: ARG001 - as every one
    from trainwright.controller.trainer.assembly.progress import progress_rights  # noqa: PLC0415 - as above

    return progress_rights()


def _certificate_rights(settings: Settings) -> Mapping[str, Iterable[Rule]]:
    return {OWN_NAMESPACE: CertificateVault.rules(settings.secret)} if settings.own_certificates else {}


def _injection_rights(settings: Settings) -> Mapping[str, Iterable[Rule]]:
    """The plugin copies the CA certificates, which another program may keep in the Secret."""
    return {OWN_NAMESPACE: [Rule.on(Secret.RESOURCE, *READ, names=[settings.secret])]}


def _election_rights(settings: Settings) -> Mapping[str, Iterable[Rule]]:
    assert settings.election is not None  # or the part is off
    return {settings.election.namespace or OWN_NAMESPACE: LeaseLock.rules(settings.election.name)}


PARTS = (
    Part(
        name="trainjobs",
        rights=lambda _, registry: (*TrainJobController.RULES, *registry.rules()),
        declare=_declare_jobs,
    ),
    Part(name="obsolete-finalizers", rights=lambda *_: finalizers.RULES, declare=_declare_finalizers),
    Part(
        name="failures",
        is_on=lambda settings: settings.features.enabled(EXPLAIN),
        rights=lambda *_: FailureRecorder.RULES,
        declare=_declare_failures,
    ),
    Part(
        name="waiting",
        is_on=lambda settings: settings.features.enabled(EXPLAIN),
        rights=_waiting_rights,
        declare=_declare_waiting,
    ),
    Part(
        name="clean-up",
        is_on=lambda settings: settings.cleanup is not None,
        rights=lambda _, registry: cleanup.rules(registry.watches()),
        declare=_declare_cleanup,
    ),
    Part(name="job-states", declare=_declare_states),
    Part(name="admission", rights=_admission_rights, own_rights=_certificate_rights, declare=_declare_admission),
    Part(
        name="progress-injection",
        is_on=lambda settings: settings.features.enabled(TRAIN_JOB_STATUS),
        own_rights=_injection_rights,
    ),
    Part(
        name="progress",
        is_on=lambda settings: settings.features.enabled(TRAIN_JOB_STATUS),
        rights=_progress_rights,
        declare=_declare_progress,
    ),
    Part(
        name="progress-pull",
        is_on=lambda settings: settings.features.enabled(PROGRESS_PULL),
        rights=_pull_rights,
        declare=_declare_pull,
    ),
    Part(
        name="standstill",
        is_on=lambda settings: settings.takes_progress,
        declare=_declare_standstill,
    ),
    Part(
        name="progress-history",
        is_on=lambda settings: settings.progress_history and settings.takes_progress,
        rights=_history_rights,
        declare=_declare_history,
    ),
    Part(
        name="progress-metrics",
        is_on=lambda settings: settings.progress_metrics and settings.takes_progress,
        declare=_declare_job_progress,
    ),
    Part(
        name="metrics",
        is_on=lambda settings: settings.metrics_address is not None,
        rights=_metrics_rights,
        declare=_declare_metrics,
    ),
    Part(name="leader-election", is_on=lambda settings: settings.election is not None, own_rights=_election_rights),
)
"""In the order in which they are declared."""
