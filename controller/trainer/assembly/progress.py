# SPDX-License-Identifier: Apache-2.0
"""The part that takes reports of progress: the server, the check of tokens, the writer."""

from urllib.parse import urlsplit

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.rights import READ, Rule
from trainwright.controller.runtime import BoundedLimits, BoundedServer, Group, Kind, Manager, ServingCertificate
from trainwright.controller.trainer.assembly.installation import LOOPBACK
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.controller.trainer.progress.budget import Pace
from trainwright.controller.trainer.progress.coalescer import Coalescer
from trainwright.controller.trainer.progress.jobs import Jobs
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.reports import load_limits
from trainwright.controller.trainer.progress.server import BODY_LIMIT, StatusEndpoint
from trainwright.controller.trainer.progress.service import Progress
from trainwright.controller.trainer.progress.tokens import ReportAccess
from trainwright.controller.trainer.progress.writes import RULES as WRITE_RULES
from trainwright.controller.trainer.progress.writes import StatusWriter, known_to

SERVER = "status-server"
"""Name of the server and of its readiness check, as in Kubeflow Trainer."""


def rights(grants: Grants) -> None:
    grants.on_jobs(*WRITE_RULES, *ReportAccess.RULES)
    # The plugin copies the CA certificates, which another program may keep in the Secret.
    grants.on_own(Rule.on(Secret.RESOURCE, *READ, names=[grants.settings.secret]))


def declare(assembly: Assembly) -> None:
    settings = assembly.settings
    is_local = assembly.answer_here is not None
    host = host_of(settings, assembly.webhook_url) or (LOOPBACK if is_local else "")
    serve_progress(assembly.manager, settings, assembly.serving, assembly.coalescer, host, assembly.jobsets)
    if not assembly.is_reached:
        # Imported here, because the library that makes certificates costs memory and time.
        from trainwright.controller.trainer.assembly.serving import serve_self_signed  # noqa: PLC0415

        serve_self_signed(assembly.serving, host)


def make_coalescer(manager: Manager, settings: ManagerSettings) -> Coalescer:
    """The coalescer, which follows the TrainJobs of the cache. Whoever declares it runs it."""
    load_limits()
    limit = settings.status_server.limit
    pace = Pace(
        interval=settings.progress_interval,
        rate=limit.rate if limit is not None else None,
        burst=limit.burst if limit is not None else 1,
    )
    writer = StatusWriter(manager.client, known_to(manager.cache))
    coalescer = Coalescer(writer, pace, ProgressMetrics(manager.metrics.registry))
    coalescer.watch(manager.cache)
    return coalescer


def serve_progress(
    manager: Manager,
    settings: ManagerSettings,
    serving: ServingCertificate,
    coalescer: Coalescer,
    host: str,
    jobsets: Kind = JobSet.RESOURCE,
) -> Progress:
    """Add all of it to the manager, on every replica. Call it after TrainJobs are declared in the cache.

    Args:
        manager: of the process.
        settings: of its Configuration.
        serving: the certificate of all servers of the process.
        coalescer: takes the reports.
        host: to listen on; empty: all interfaces.
        jobsets: how the cache holds JobSets.
    """
    access = ReportAccess(
        manager.client,
        manager.config,
        manager.cache,
        manager.metrics.registry,
        jobsets=jobsets,
        require_pod=settings.progress_needs_pod,
    )
    endpoint = StatusEndpoint(access, Jobs(manager.client, manager.cache), coalescer, coalescer.metrics)
    address = f"[{host}]:{settings.status_server.port}" if ":" in host else f"{host}:{settings.status_server.port}"
    server = BoundedServer(SERVER, address, endpoint, BoundedLimits(body=BODY_LIMIT), tls=serving.context)
    progress = Progress(coalescer, server, access)
    manager.add(progress, Group.OTHERS, SERVER)
    manager.readyz.add(SERVER, progress.unready)
    return progress


def host_of(settings: ManagerSettings, webhook_url: str | None) -> str:
    """Where the status server listens: beside the webhooks, whose host is in the settings or in their URL."""
    return settings.webhook_host or urlsplit(webhook_url or "").hostname or ""
