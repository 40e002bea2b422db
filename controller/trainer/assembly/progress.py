# SPDX-License-Identifier: Apache-2.0
"""The parts of progress: reports that are sent, files that are read in pods, jobs that stand still, the history."""

from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.rights import READ, Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.errors import CacheError
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.servers.bounded import BoundedLimits, BoundedServer
from trainwright.controller.trainer.assembly.features import EXPLAIN, PROGRESS_PULL, RECOVERY, TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.part import LOOPBACK, Assembly, Grants, Part, gate
from trainwright.controller.trainer.job.pods import jobset_of_job, life_of_ranks, pods_of, present_attempt
from trainwright.controller.trainer.progress.access import ReportAccess
from trainwright.controller.trainer.progress.files import ProgressFiles
from trainwright.controller.trainer.progress.history import HistoryKeeper
from trainwright.controller.trainer.progress.metrics import FileMetrics, JobProgress, StalledJobs
from trainwright.controller.trainer.progress.reading import file_target_of
from trainwright.controller.trainer.progress.server import BODY_LIMIT, JobLookup, ProgressService, StatusEndpoint
from trainwright.controller.trainer.progress.stall import StallController
from trainwright.controller.trainer.progress.writer import RULES as WRITE_RULES

SERVER = "status-server"
"""Name of the server and of its readiness check, as in Kubeflow Trainer."""


def _rights_to_take_reports(grants: Grants) -> Iterable[Rule]:
    # The plugin copies the CA certificates, which another program may keep in the Secret.
    grants.on_own(Rule.on(Secret.RESOURCE, *READ, names=[grants.settings.secret]))
    return (*WRITE_RULES, *ReportAccess.RULES)


def _declare_reports(assembly: Assembly) -> None:
    manager, settings, coalescer = assembly.manager, assembly.settings, assembly.coalescer
    access = ReportAccess(
        manager.client,
        manager.config,
        manager.cache,
        manager.metrics.registry,
        jobsets=assembly.jobsets,
        require_pod=settings.progress_needs_pod,
    )
    # Beside the webhooks, whose host is in the settings or in their URL; empty: on all interfaces.
    host = settings.webhook_host or urlsplit(assembly.webhook_url or "").hostname or ""
    if not host and assembly.answer_here is not None:
        host = LOOPBACK
    address = f"[{host}]:{settings.status_server.port}" if ":" in host else f"{host}:{settings.status_server.port}"
    endpoint = StatusEndpoint(access, JobLookup(manager.client, manager.cache), coalescer)
    server = BoundedServer(SERVER, address, endpoint, BoundedLimits(body=BODY_LIMIT), tls=assembly.serving.context)
    service = ProgressService(coalescer, server, access)
    manager.add(service, Group.OTHERS, SERVER)
    manager.readyz.add(SERVER, service.unready)
    if not assembly.is_reached:
        # Imported here, because the library that makes certificates costs memory and time.
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415

        serve_self_signed(assembly.serving, host)


def _rights_to_read_files(grants: Grants) -> Iterable[Rule]:
    uses = ProgressFiles.READS if grants.settings.progress_by_exec else ProgressFiles.LISTS
    return (*WRITE_RULES, *uses.rules())


def _declare_files(assembly: Assembly) -> None:
    manager, settings = assembly.manager, assembly.settings
    if TRAIN_JOB_STATUS not in settings.features:
        manager.add(assembly.coalescer, Group.OTHERS, "progress-writes")
    ProgressFiles(
        manager,
        partial(file_target_of, assembly.pipeline, assembly.snapshots, assembly.facts),
        assembly.coalescer.accept,
        assembly.events,
        FileMetrics(manager.metrics.registry),
        assembly.records,
        reads_files=settings.progress_by_exec,
        interval=settings.pull_interval,
    )


def _declare_stalls(assembly: Assembly) -> None:
    manager, settings = assembly.manager, assembly.settings
    cache, has_pods = manager.cache, bool(settings.features & {EXPLAIN, RECOVERY})
    StallController(
        manager,
        assembly.events,
        assembly.snapshots.existing,
        settings.stall_after,
        assembly.records,
        assembly.findings,
        pods_of=(lambda job: pods_of(cache, job)) if has_pods else None,
        attempt_of=lambda job: life_of_ranks(cache, job),
        is_alone=settings.election is None,
    )
    StalledJobs(manager.metrics.registry, assembly.jobs, leads=assembly.leads)
    if settings.progress_metrics:
        JobProgress(manager.metrics.registry, assembly.jobs, leads=assembly.leads)


def _declare_history(assembly: Assembly) -> None:
    manager = assembly.manager
    HistoryKeeper(
        manager,
        assembly.coalescer.budget,
        manager.metrics.registry,
        assembly.records,
        attempt_of=lambda job: _attempt(manager.cache, job),
    )


def _attempt(cache: Cache, job: TrainJob) -> int | None:
    """The number of the present attempt, from 1; None: its JobSet is not known."""
    try:
        found = jobset_of_job(cache, job)
    except CacheError:
        return None
    return present_attempt(found) + 1 if found is not None else None


PARTS = (
    Part(
        name="progress",
        declare=_declare_reports,
        rights=_rights_to_take_reports,
        is_on=gate(TRAIN_JOB_STATUS),
    ),
    Part(name="pull", declare=_declare_files, rights=_rights_to_read_files, is_on=gate(PROGRESS_PULL)),
    Part(name="stall", declare=_declare_stalls),
    Part(
        name="history",
        declare=_declare_history,
        rights=lambda _: HistoryKeeper.USES.rules(),
        is_on=lambda settings: settings.progress_history,
    ),
)
"""Those of a manager that takes progress."""
