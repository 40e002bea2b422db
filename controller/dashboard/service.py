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

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.manifest import dump
from trainwright.api.messages import value_text
from trainwright.api.objects import AnyObject, Document, Key, controller_of, name_of, namespace_of, uid_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.actions import Actions
from trainwright.controller.dashboard.connection import ServerLink
from trainwright.controller.dashboard.curves import JobSeries, Marker, points_of
from trainwright.controller.dashboard.details import Details
from trainwright.controller.dashboard.logbook import Book, Logs, WantedLog
from trainwright.controller.dashboard.reader import JobReader
from trainwright.controller.dashboard.searches import Search, Searches
from trainwright.controller.dashboard.watched import HeldJob, HistoryRead, WatchedJobs
from trainwright.controller.runtime import Client, ConfigurationError, Conflict, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.errors import ApiError, BadRequest, DecodeError, Invalid, Unauthorized
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.build.runtimes import (
    RuntimeUnsupported,
    SnapshotInvalid,
    name_of_snapshot,
    runtime_in,
    target_of,
)
from trainwright.controller.trainer.progress.curve import POINTS, Sample
from trainwright.controller.views.cluster import ClusterView, shown
from trainwright.controller.views.comparison import MOST, ComparedRun, JobComparison, Missing, compare
from trainwright.controller.views.reports import KeptReports
from trainwright.plugins.contract import ClusterFacts, Explains, FactUnavailable, Reference, Runtime
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.contract.provenance import Setting
from trainwright.plugins.pipeline import Pipeline, Rendering

_IN_THE_WAY = (ApiError, PipelineError, FactUnavailable, RuntimeUnsupported, SnapshotInvalid)
"""Why a job is not rendered."""
SYNC_SECONDS = 5.0
"""How long a question about one job waits for the first list."""
VALUE_LENGTH = 100


class DashboardService:
    """Answers from one cluster, with the rights of one client."""

    def __init__(
        self,
        client: Client,
        cluster: contract.Cluster,
        *,
        plugins: Sequence[Explains],
        pipeline: Callable[[], Pipeline],
        reports: KeptReports | None = None,
        logs: Path | None = None,
        changes: bool = False,
    ) -> None:
        """`reports`: has the runs of the jobs from their begin; None: they are those that are seen from now on, and
        what a manager has recorded before.
        """
        self.actions = Actions(client, is_on=changes)
        self._has_all = reports is not None
        self._reports = reports if reports is not None else KeptReports(None, most=POINTS)
        self.watched = WatchedJobs(client, cluster, self._reports)
        self._client = client
        self._link = ServerLink(client, self.watched)
        self._logs = Logs(client)
        self.reader = JobReader(self.watched, Details(client, cluster, plugins, logs=logs), client)
        self.rendered = RenderedObjects(client, pipeline)
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
        record = HistoryRead(read=True) if self._has_all else await self.reader.record(key)
        while True:
            number = held.number
            seen = await self._reports.read(held.uid)
            if number == held.number:  # one that comes meanwhile may be among those that were read, or not
                return seen, replace(record, unread=self._reports.problem or record.unread), number

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


class RenderedObjects:
    """What jobs become: the manager's pipeline, run on a job and its runtime as they are in the cluster.

    It shows what this version of Trainwright and its plugins make of the job, as `trainwright render --cluster` does.
    """

    def __init__(self, client: Client, pipeline: Callable[[], Pipeline]) -> None:
        """`pipeline` is called when the first job is rendered: to load all plugins takes a while."""
        self._client = client
        self._view = ClusterView(client)
        self._load = pipeline
        self._pipeline: Pipeline | None = None

    async def objects(self, key: Key) -> contract.ObjectsView:
        """The objects of a job; what stands in the way is in `problems`.

        Raises NotFound: the job does not exist; KubernetesError: no answer; RegistryError: a plugin is broken.
        """
        job = await self._client.get(TrainJob, key.name, key.namespace)
        try:
            rendering = await self._rendering(job)
        except _IN_THE_WAY as error:
            problem = error.message if isinstance(error, ApiError) else str(error)
            return contract.ObjectsView(now=format_time(wall_clock()), problems=[problem])
        return contract.ObjectsView(
            now=format_time(wall_clock()),
            objects=[_object(component.document) for component in rendering.components],
            settings=[_setting(one) for one in rendering.settings],
            overrides=list(rendering.overrides),
        )

    async def jobset(self, job: TrainJob) -> Document | None:
        """What a job that has ended was, where its JobSet is gone; None: that is not known any more."""
        with suppress(*_IN_THE_WAY):
            rendering = await self._rendering(msgspec.structs.replace(job, status=None))
            found = (one.document for one in rendering.components)
            return next((one for one in found if one["kind"] == JobSet.RESOURCE.kind), None)
        return None

    async def _rendering(self, job: TrainJob) -> Rendering:
        runtime = await self._runtime(job)
        if self._pipeline is None:
            self._pipeline = self._load()
        run = self._pipeline.begin(job, runtime)
        facts = await self._view.read(run.references())
        return run.render(_without_own(facts, job))

    async def _runtime(self, job: TrainJob) -> Runtime:
        # It was not built yet, or the user may not read ConfigMaps; the runtime is most often the same.
        with suppress(ApiError):
            return runtime_in(await self._client.get(ConfigMap, name_of_snapshot(job), job.namespace), job)
        runtime = await self._view.runtime(job)
        if runtime is None:
            kind, missing = target_of(job)
            raise NotFound(f"{kind.RESOURCE.kind} {missing.name} does not exist")
        runtime.set_defaults()
        return runtime


def _without_own(facts: ClusterFacts, job: TrainJob) -> ClusterFacts:
    """The facts without what the job became: beside a JobSet that runs nothing is built, so nothing would be shown.

    A JobSet that the user may not read is most often that of the job.
    """

    def is_own(reference: Reference, found: AnyObject | Unreadable) -> bool:
        if isinstance(found, Unreadable):
            return reference.resource == JobSet.RESOURCE
        owner = controller_of(found)
        return owner is not None and owner.uid == uid_of(job)

    kept = {one: None if found is None or is_own(one, found) else found for one, found in facts.objects.items()}
    return replace(facts, objects=kept)


def _setting(one: Setting) -> contract.SettingView:
    shared = {name: getattr(one, name) for name in ("path", "source", "phase", "why")}
    return contract.SettingView(**shared, value=value_text(one.value, VALUE_LENGTH))


def _object(document: Document) -> contract.ObjectView:
    return contract.ObjectView(
        kind=str(document.get("kind", "")),
        namespace=namespace_of(document),
        name=name_of(document),
        yaml=dump(shown(document), sort_keys=False),
    )
