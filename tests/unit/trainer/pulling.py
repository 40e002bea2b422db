# SPDX-License-Identifier: Apache-2.0
"""TrainJobs whose progress is read, in pods that exist in memory only, on a clock that jumps."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry

from tests import builders
from tests.builders import counts
from trainwright.api.objects import Key, key_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.progress import declared
from trainwright.controller.runtime import Client, Event, Manager
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType, Handler
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.controller.controller import Controller
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import DecodeError, KubernetesError
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.scripted import listing, status_body
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.files import ProgressFiles
from trainwright.controller.trainer.progress.metrics import FileMetrics
from trainwright.controller.trainer.progress.reading import FileTarget
from trainwright.controller.trainer.progress.report import (
    JobReports,
    ProgressReport,
    ReportRefused,
    ReportSource,
)
from trainwright.plugins.contract import PodRef

START = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)
P = "trainwright.dev/progress"


@dataclass
class PretendPod:
    """One pod with rank 0."""

    job: str
    node: str = "n"
    uid: str = "pod-1"
    running: bool = True
    message: str = ""
    file: bytes | None = b'{"progressPercentage":10}'
    """None: there is none."""
    refusal: tuple[int, str] | None = None
    """Status and reason of the answer to the handshake."""
    hangs: str = ""
    """`command`: the command starts and does not end. `node`: nothing comes after the handshake."""
    took: float = 0.0
    """Seconds of each command."""
    container: str = "node"
    """Its only container."""
    times: list[float] = field(default_factory=list)
    """When commands began."""
    commands: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.job}-{self.uid}"

    def document(self) -> dict[str, Any]:
        state: dict[str, Any] = {"running": {}} if self.running else {"terminated": {"message": self.message}}
        return {
            "metadata": {"name": self.name, "namespace": "team", "uid": self.uid},
            "spec": {"nodeName": self.node, "containers": [{"name": self.container}]},
            "status": {"containerStatuses": [{"name": self.container, "state": state}]},
        }


class PretendCluster:
    """A transport that lists pods and runs their commands."""

    def __init__(self) -> None:
        self.pods: dict[str, PretendPod] = {}
        """By name of the job, of an initializer also by its replicated job: `job/model-initializer`."""
        self.lists = 0
        self.list_error: KubernetesError | None = None
        self.list_status = 200
        self.running = 0
        self.most = 0
        self.on: dict[str, int] = {}
        self.most_on: dict[str, int] = {}

    async def send(self, request: Request) -> Response:
        """Answer the list of one job's pods."""
        self.lists += 1
        assert request.query["resourceVersion"] == "0"
        selector = dict(part.split("=") for part in str(request.query["labelSelector"]).split(","))
        role = selector["jobset.sigs.k8s.io/replicatedjob-name"]
        assert selector["jobset.sigs.k8s.io/job-index"] == "0"
        assert selector["batch.kubernetes.io/job-completion-index"] == "0"
        if self.list_status != 200:
            return Response(self.list_status, {}, msgspec.json.encode(status_body(self.list_status, "Forbidden")))
        job = selector["jobset.sigs.k8s.io/jobset-name"]
        pod = self.pods.get(job if role == "node" else f"{job}/{role}")
        return Response(200, {}, msgspec.json.encode(listing("1", *([pod.document()] if pod is not None else []))))

    def open(self, request: Request) -> Any:
        raise AssertionError(f"nothing is streamed: {request}")

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator["_Socket"]:
        assert protocols
        assert limit > 0
        name = request.path.split("/")[-2]
        pod = next((one for one in self.pods.values() if one.name == name), None)
        if pod is None:
            yield _Socket(None, refusal=(404, "NotFound"))
            return
        command = request.query["command"]
        assert isinstance(command, tuple)
        assert request.query["container"] == pod.container
        pod.times.append(asyncio.get_running_loop().time())
        pod.commands.append(command)
        self._begin(pod.node)
        try:
            yield _Socket(pod, refusal=pod.refusal, command=command)
        finally:
            self.running -= 1
            self.on[pod.node] -= 1

    def _begin(self, node: str) -> None:
        self.running += 1
        self.on[node] = self.on.get(node, 0) + 1
        self.most = max(self.most, self.running)
        self.most_on[node] = max(self.most_on.get(node, 0), self.on[node])

    async def close(self) -> None:
        """Do nothing."""


class _Socket:
    protocol = "v5.channel.k8s.io"

    def __init__(
        self, pod: PretendPod | None, *, refusal: tuple[int, str] | None = None, command: tuple[str, ...] = ()
    ) -> None:
        self.refusal = None
        if refusal is not None:
            self.refusal = Response(refusal[0], {}, msgspec.json.encode(status_body(*refusal)))
        self._messages = _output(pod, command) if pod is not None and refusal is None else iter(())
        self._pod = pod

    async def receive(self) -> bytes | None:
        assert self._pod is not None
        if self._pod.hangs == "node":
            await asyncio.Event().wait()
        message = next(self._messages, None)
        if message is not None and len(message) > 1:
            if self._pod.hangs:
                await asyncio.Event().wait()
            await asyncio.sleep(self._pod.took)
        return message

    async def send(self, message: bytes) -> None:
        raise AssertionError(f"the command has no input: {message!r}")


def _output(pod: PretendPod, command: tuple[str, ...]) -> Iterator[bytes]:
    """The messages of one command."""
    yield b"\x01"
    if pod.file is not None:
        yield b"\x01" + pod.file
        yield b'\x03{"status":"Success"}'
    else:
        yield f"\x02{command[0]}: cannot open '{command[-1]}': No such file or directory\n".encode()
        causes = {"causes": [{"reason": "ExitCode", "message": "1"}]}
        yield b"\x03" + msgspec.json.encode({"status": "Failure", "reason": "NonZeroExitCode", "details": causes})


class _Here(ThreadPoolExecutor):
    """Runs work at once: a clock that jumps does not wait for threads."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Leader:
    """What the controller uses of a manager, its cache and the informer of TrainJobs."""

    resource, scope, last_error = TrainJob.RESOURCE, "all", None

    def __init__(self, client: Client, jobs: dict[str, TrainJob], listed: asyncio.Event) -> None:
        self.client, self.cache = client, self
        self.jobs, self.wait_synced = jobs, listed.wait
        self.undecodable: set[str] = set()
        self.handlers: list[Handler] = []
        self.controllers: list[Controller] = []

    def controller(self, name: str, uses: Uses) -> Builder:
        return Builder(cast("Cache", self), name, uses=uses, register=self.controllers.append)

    def informer(self, _: type[TrainJob], **__: object) -> "Leader":
        return self

    def reconciled(self, *_: object) -> None:
        """There is one cache only."""

    def add_handler(self, handler: Handler, **_: object) -> None:
        for job in self.jobs.values():
            handler(Event(EventType.ADDED, key_of(job), old=None, new=job, initial=True))
        self.handlers.append(handler)

    def get(self, _: type[TrainJob], name: str, namespace: str) -> TrainJob | None:
        assert namespace == "team"
        if name in self.undecodable:
            raise DecodeError("it does not fit its model")
        return self.jobs.get(name)


class Bench:
    """The controller that reads files, and what it reads, accepts and says. A target of the pods of each job."""

    def __init__(self, *, reads_files: bool = True) -> None:
        self.cluster = PretendCluster()
        self.registry = CollectorRegistry()
        self.client = Client(self.cluster)
        self.jobs: dict[str, TrainJob] = {}
        self.listed = asyncio.Event()
        """Whether the first list of TrainJobs has arrived."""
        self.listed.set()
        self.accepted: list[tuple[float, str, int | None, ReportSource]] = []
        self.reports: list[ProgressReport] = []
        self.pods_of_reports: list[str] = []
        self.refusal: ReportRefused | None = None
        self.events: list[tuple[str, str]] = []
        self.loading: tuple[str, ...] = ()
        """Initializers that each job has."""
        self.target_error: KubernetesError | None = None
        self.targets_asked = 0
        self._reads_files = reads_files
        self.begin(self.registry)

    def begin(self, registry: CollectorRegistry) -> None:
        """A process begins, with no memory."""
        self.records, self.leader = JobRecords(), Leader(self.client, self.jobs, self.listed)
        ProgressFiles(
            cast("Manager", self.leader),
            lambda job: self.of(job),  # noqa: PLW0108 - tests replace it
            self.accept,
            cast("JobEvents", self),
            FileMetrics(registry),
            self.records,
            reads_files=self._reads_files,
            interval=10.0,
            now=lambda: START + timedelta(seconds=self.now),
            uniform=lambda low, high: (low + high) / 2,
        )

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """This process leads. Afterwards another one begins."""
        asyncio.get_running_loop().set_default_executor(_Here())
        async with TaskScope("bench") as tasks:
            tasks.start("controller", self.leader.controllers[0].run())
            await asyncio.sleep(0)
            yield
        self.begin(CollectorRegistry())

    def push(self, at: float) -> None:
        """A report of the job was pushed to this process."""
        bucket = TokenBucket(1.0, 1, time=float)
        reports = JobReports(Key("team", "job"), "uid-of-job", bucket, bucket)
        reports.last_push = at
        self.records.of(reports.key, reports.uid).keep(reports)

    # ------------------------------------------------------------------ the controller's surroundings

    async def of(self, job: TrainJob) -> FileTarget | None:
        self.targets_asked += 1
        if self.target_error is not None:
            raise self.target_error
        assert job.metadata is not None
        declaration, _ = declared(job.metadata.annotations or {}, {})
        loading = tuple(
            FileTarget(declaration.file, PodRef(one, container=one), is_initializer=True) for one in self.loading
        )
        return FileTarget(declaration.file, PodRef("node"), loading) if declaration.reads_file else None

    async def accept(self, job: TrainJob, report: ProgressReport) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.accepted.append((self.now, job.name, report.percentage, report.source))
        self.reports.append(report)
        self.pods_of_reports.append(report.pod)

    def warn(self, job: TrainJob, event: str, note: str) -> None:  # noqa: ARG002 - the protocol's
        self.events.append((job.name, note))

    # ------------------------------------------------------------------ what happens to jobs

    def pod(self, job: str = "job", **fields: Any) -> PretendPod:
        made = self.cluster.pods[job] = PretendPod(job, **fields)
        return made

    def show(self, name: str = "job", *, uid: str = "", **fields: Any) -> TrainJob:
        """The cache shows a job. Keywords: see `train_job`."""
        old = self.jobs.get(name)
        job = self.jobs[name] = train_job(name, uid or f"uid-of-{name}", **fields)
        kind = EventType.MODIFIED if old is not None else EventType.ADDED
        self._tell(Event(kind, key_of(job), old=old, new=job))
        return job

    def delete(self, name: str = "job") -> None:
        job = self.jobs.pop(name)
        self._tell(Event(EventType.DELETED, key_of(job), old=job, new=None))

    def damage(self, name: str = "job") -> None:
        """The job does not fit its model any longer."""
        self.leader.undecodable.add(name)
        old, new = self.jobs[name], msgspec.to_builtins(self.jobs[name])
        self._tell(Event(EventType.MODIFIED, key_of(old), old=old, new=new, undecodable=True))

    def _tell(self, event: Event[Any]) -> None:
        for handler in (self.records.handle, *self.leader.handlers):
            handler(event)

    def results(self) -> dict[str, float]:
        """The counts of reads that are not zero."""
        (family,) = [one for one in self.registry.collect() if one.name == "trainer_progress_probes"]
        return {one.labels["result"]: one.value for one in family.samples if one.name.endswith("_total") and one.value}


def train_job(
    name: str,
    uid: str,
    *,
    ready: int = 1,
    active: int = 1,
    marks: dict[str, str] | None = None,
    condition: str = "",
    ended: float = 0.0,
    stored: dict[str, Any] | None = None,
    deleted: bool = False,
    replicated: str = "node",
    ready_too: tuple[str, ...] = (),
) -> TrainJob:
    """A TrainJob that runs and asks for a file every ten seconds.

    Args:
        name: of the job.
        uid: of the job.
        ready: how many Jobs JobSet counts as ready.
        active: how many as active.
        marks: annotations.
        condition: one that is True.
        ended: seconds after START when that was.
        stored: its trainerStatus.
        deleted: it is being deleted.
        replicated: name of the replicated job.
        ready_too: names of other replicated jobs that are ready.
    """
    one = counts(replicated, active=active, ready=ready)
    return builders.train_job(
        name,
        "team",
        uid=uid,
        annotations={P: "file"} if marks is None else marks,
        deleted=START if deleted else None,
        jobs=[one, *({**one, "name": other} for other in ready_too)],
        conditions=[builders.condition(condition, at=START + timedelta(seconds=ended))] if condition else None,
        progress=stored,
    )
