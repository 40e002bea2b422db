# SPDX-License-Identifier: Apache-2.0
"""The part that takes reports of progress: the server, the check of tokens, the writer."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.rights import READ, Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import (
    BoundedLimits,
    BoundedServer,
    CacheError,
    DecodeError,
    Group,
    Key,
    TaskScope,
)
from trainwright.controller.trainer.assembly.installation import LOOPBACK
from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.progress.access import ReportAccess
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.server import BODY_LIMIT, JobLookup, StatusEndpoint
from trainwright.controller.trainer.progress.writer import RULES as WRITE_RULES
from trainwright.controller.trainer.progress.writer import Coalescer, Pace, StatusWriter

SERVER = "status-server"
"""Name of the server and of its readiness check, as in Kubeflow Trainer."""


def rights(grants: Grants) -> None:
    grants.on_jobs(*WRITE_RULES, *ReportAccess.RULES)
    # The plugin copies the CA certificates, which another program may keep in the Secret.
    grants.on_own(Rule.on(Secret.RESOURCE, *READ, names=[grants.settings.secret]))


def declare(assembly: Assembly) -> None:
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


def make_coalescer(assembly: Assembly) -> Coalescer:
    """The coalescer; the part that is declared with it runs it."""
    manager, limit = assembly.manager, assembly.settings.status_server.limit
    rate, burst = (limit.rate, limit.burst) if limit is not None else (None, 1)
    pace = Pace(interval=assembly.settings.progress_interval, rate=rate, burst=burst)

    def known(key: Key) -> TrainJob | None:
        try:
            return manager.cache.get(TrainJob, key.name, key.namespace)
        except (CacheError, DecodeError):
            return None

    metrics = ProgressMetrics(manager.metrics.registry)
    return Coalescer(StatusWriter(manager.client, known), pace, metrics, assembly.records)


class ProgressService:
    """A runnable. When it is stopped, it is not ready any more; then it listens no more, answers what is open, and
    writes what is left.
    """

    def __init__(self, coalescer: Coalescer, server: BoundedServer, access: ReportAccess) -> None:
        """The server hands what it accepts to the coalescer; `access` checks its tokens."""
        self.coalescer = coalescer
        self.server = server
        self._access = access
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until `request_stop`. Raises ConfigurationError: the address of the server cannot be used."""
        async with TaskScope("progress") as tasks:
            writing = tasks.start("progress/writer", self.coalescer.run())
            checking = tasks.start("progress/tokens", self._access.run())
            serving = tasks.start("progress/server", self.server.run())
            stop = tasks.start("progress/stop", self._stop.wait())
            works: set[asyncio.Task[Any]] = {writing, checking, serving, stop}
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
            serving.cancel()
            await asyncio.wait({serving})
            self.coalescer.request_stop()
            await writing

    def begin_drain(self) -> None:
        self.server.begin_drain()

    def request_stop(self) -> None:
        """Take no more reports, write what is left, return from `run`."""
        self._stop.set()

    def unready(self) -> str | None:
        """Why no reports are taken now; None: they are."""
        if self._stop.is_set():
            return "the manager is stopping"
        if not self.server.listening.is_set():
            return "the status server is not listening yet"
        return self._access.unready()
