# SPDX-License-Identifier: Apache-2.0
"""The dashboard without HTTP: one watch, and the answer to each question of the page.

Callers pass a key to `check` before they ask about it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from trainwright.api.objects import Document, Key
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.actions import Actions
from trainwright.controller.dashboard.connection import ServerLink
from trainwright.controller.dashboard.curves import JobSeries, Marker, points_of
from trainwright.controller.dashboard.details import Details
from trainwright.controller.dashboard.logbook import Book, Logs, WantedLog
from trainwright.controller.dashboard.reader import JobReader
from trainwright.controller.dashboard.searches import Search, Searches
from trainwright.controller.dashboard.watched import ShownJobs
from trainwright.controller.runtime import Client, ConfigurationError, Conflict, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.errors import BadRequest, DecodeError, Invalid, Unauthorized
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import POINTS
from trainwright.controller.views.comparison import MOST, ComparedRun, JobComparison, Missing, compare
from trainwright.controller.views.rendered import RenderedObjects
from trainwright.controller.views.reports import KeptReports
from trainwright.controller.views.watch import HeldJob, HistoryRead, OutputOf

SYNC_SECONDS = 5.0
"""How long a question about one job waits for the first list."""


class DashboardService:
    """Answers from one cluster, with the rights of one client."""

    def __init__(
        self,
        client: Client,
        cluster: contract.Cluster,
        *,
        reports: KeptReports | None = None,
        output_of: OutputOf | None = None,
        logs: Path | None = None,
        changes: bool = False,
    ) -> None:
        """`reports`: has the runs of the jobs from their begin; None: they are those that are seen from now on, and
        what a manager has recorded before.
        """
        self.actions = Actions(client, is_on=changes)
        self._has_all = reports is not None
        self._reports = reports if reports is not None else KeptReports(most=POINTS)
        self.watched = ShownJobs(client, cluster, self._reports, output_of)
        self._client = client
        self._link = ServerLink(client, self.watched)
        self._logs = Logs(client)
        self.reader = JobReader(self.watched, Details(client, cluster, logs=logs))
        self.rendered = RenderedObjects(client)
        self._searches = Searches(client, self.watched)
        self._gone: dict[str, Document] = {}
        """JobSets that are gone, of jobs that were compared, by uid."""

    async def run(self, ready: Callable[[], None]) -> None:
        """Watch the cluster until cancelled; `ready` is called once it has begun."""
        try:
            async with TaskScope("dashboard") as tasks:
                tasks.start("dashboard/reports", self._reports.run())
                tasks.start("dashboard/link", self._link.run())
                tasks.start("dashboard/logs", self._logs.run())
                tasks.start("dashboard/ends", self.watched.keep_reading_ends())
                watching = tasks.start("dashboard/jobs", self.watched.run())
                ready()
                await watching
        finally:
            self._reports.close()

    def close(self) -> None:
        self.watched.close()

    def jobs(self) -> contract.JobList:
        return self.watched.snapshot()

    async def job(self, key: Key) -> contract.Job:
        """One job. Raises NotFound, KubernetesError."""
        found = await self.reader.job(key)
        if found is None:
            raise _missing(key)
        return found

    async def search(self, key: Key) -> Search:
        """The trials of a search. Raises NotFound, KubernetesError."""
        await self._listed()
        return await self._searches.search(key)

    async def series(self, key: Key) -> JobSeries:
        """The curves of a job. Raises NotFound."""
        await self._listed()
        held = self.watched.held(key)
        if held is None:
            raise _missing(key)
        seen, record, number = await self._seen(key, held)
        return JobSeries(
            now=format_time(self.watched.now()),
            namespace=key.namespace,
            name=key.name,
            points=points_of(held.uid, seen, Marker(held.starts), number=number),
            since=format_time(held.since),
            recorded=record.read,
            joined=max((one.count for one in seen), default=1),
            unread=record.unread,
        )

    async def _seen(self, key: Key, held: HeldJob) -> tuple[list[Sample], HistoryRead, int]:
        """The reports, whether earlier ones were read, and the number of the last."""
        record = HistoryRead(read=True) if self._has_all else await self.watched.record(key)
        why = record.unread and f"{record.unread}: reports from before {held.since:%H:%M:%S} UTC are not shown"
        seen, (_, number) = await self._reports.read(held.uid)
        return seen, replace(record, unread=self._reports.problem or why), number

    async def comparison(self, keys: Sequence[Key]) -> JobComparison:
        """Jobs beside each other. Raises BadRequest."""
        if not 0 < len(keys) <= MOST:
            raise BadRequest(f"name 1 to {MOST} jobs to compare, each as job=namespace/name")
        await self._listed()
        wanted = dict.fromkeys(keys)
        missing = {key: why for key in wanted if (why := self._refusal(key))}
        held = {key: held for key in wanted if key not in missing and (held := self.watched.held(key)) is not None}
        missing |= {key: self._why_missing(key) for key in wanted if key not in held and key not in missing}
        seen = await asyncio.gather(*(self._seen(key, one) for key, one in held.items()))
        runs = [
            ComparedRun(job=msgspec.to_builtins(one.job), reports=reports, jobset=await self._jobset(key, one))
            for (key, one), (reports, *_) in zip(held.items(), seen, strict=True)
        ]
        told = [Missing(namespace=key.namespace, name=key.name, message=why) for key, why in missing.items()]
        return compare(runs, wall_clock(), told)

    async def _jobset(self, key: Key, held: HeldJob) -> Document | None:
        found = self.watched.jobset(key, held.uid) or self._gone.get(held.uid)
        if found is None and is_finished(held.job) and (found := await self.rendered.jobset(held.job)):
            self._gone[held.uid] = found
        return found

    async def book(self, key: Key, wanted: WantedLog) -> Book:
        """The lines of a log. Raises NotFound, KubernetesError."""
        return await self._logs.book(await self.job(key), wanted)

    async def _listed(self) -> None:
        """Wait for the first lists, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                await self.watched.informer.wait_synced()
                await self.watched.jobsets_listed()

    def check(self, key: Key) -> None:
        """Raises NotFound: this dashboard does not show what is in the namespace."""
        if text := self._refusal(key):
            raise NotFound(text)

    def _why_missing(self, key: Key) -> str:
        if self.watched.informer.synced:
            return _missing(key).message
        why = self.watched.connection.message or "the list of jobs has not arrived yet"
        return f"TrainJob {key.name} in namespace {key.namespace} has not been read: {why}"

    def _refusal(self, key: Key) -> str:
        """Why this dashboard does not show what is in a namespace; empty: it does."""
        only = self.watched.cluster.namespace
        if not only or key.namespace == only:
            return ""
        return f"this dashboard shows namespace {only}; start one with --namespace {key.namespace}"


def problem_of(error: Exception) -> contract.PageProblem:
    text = error.message if isinstance(error, KubernetesError) else str(error)
    if isinstance(error, (Forbidden, NotFound, BadRequest, Conflict, Invalid)):
        return contract.PageProblem(code=error.status, reason=type(error).__name__, message=text)
    if isinstance(error, (Unauthorized, ConfigurationError)):
        return contract.PageProblem(code=401, reason="Unauthorized", message=f"the credentials are refused: {text}")
    if isinstance(error, DecodeError):
        return contract.PageProblem(code=500, reason="InternalError", message=text)
    return contract.PageProblem(code=503, reason="Unavailable", message=f"no answer from the API server: {text}")


def _missing(key: Key) -> NotFound:
    return NotFound(f"there is no TrainJob {key.name} in namespace {key.namespace}")
