# SPDX-License-Identifier: Apache-2.0
"""One read of the progress of a job: its file and its pod, the command in the container, what the text says, and when
the next read is due.

The pod is found with one list, and kept by the caller. Pods are not watched: a cluster has many more than jobs. The
command has no shell and no standard input. `tail` is tried first; where the image lacks it, Python. An admission policy
lets the manager run these two commands only; `exec_policy` of `hack/manifests.py` makes its manifest.
"""

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec

from trainwright.api.jobset.v1alpha2.labels import LABEL_INDEX, LABEL_JOB_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, Key, annotations_of, deletion_timestamp_of, key_of, name_of, uid_of
from trainwright.api.trainer.v1alpha1 import Metric, TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_PROGRESS,
    PROGRESS_FILE,
    STEP_DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER,
)
from trainwright.api.trainer.v1alpha1.progress import DEFAULT_FILE, declared, may_read_file
from trainwright.controller.runtime import Client, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.client.exec import CommandTimeout
from trainwright.controller.runtime.errors import BadRequest, Invalid, OutputTooLarge, ServerError
from trainwright.controller.trainer.build.kinds import CachedFacts
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.job.status import is_ours, state_of
from trainwright.controller.trainer.progress.metrics import ReadResult
from trainwright.controller.trainer.progress.report import ProgressReport, ReportRefused, ReportSource, checked
from trainwright.plugins.contract import FactUnavailable, JobState, PodRef
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.pipeline import Pipeline
from trainwright.progress import ReadError
from trainwright.progress import read as parse_document

POD = Pod.RESOURCE
READ_BYTES = 65537
"""One byte more than the largest document, so that a larger one is noticed."""
SECONDS = 10.0
"""Longest time of one read."""
PYTHON = (
    "import sys\n"
    "with open(sys.argv[1],'rb') as f:\n"
    f" f.seek(max(0,f.seek(0,2)-{READ_BYTES}))\n"
    f" sys.stdout.buffer.write(f.read({READ_BYTES}))"
)
READERS: tuple[tuple[str, ...], ...] = (("tail", "-c", str(READ_BYTES)), ("python3", "-I", "-S", "-c", PYTHON))
"""Commands to which the path is appended, the preferred one first."""
_LIMIT = 2 * READ_BYTES
_NOT_EXECUTABLE = (126, 127)
"""Exit codes of a shell, and of some container runtimes, for a program that does not exist or cannot be run."""
_NO_PROGRAM = re.compile(r"executable file not found|no such file or directory|not found", re.IGNORECASE)
_NO_FILE = re.compile(r"no such file or directory", re.IGNORECASE)
_SHOWN = 150
FIRST_SECONDS = 5.0
"""From the first sight of a ready pod to the first read."""
AGAIN_SECONDS = 1.0
"""Before a file that was being written is read again, and before a pod that was replaced is looked for."""
NOT_READY_SECONDS = 10.0
"""Before a pod that is not ready is looked for again, at first; later the interval."""
PATIENCE_SECONDS = 600.0
"""How long a file may be missing before users are told."""
LONGEST_SECONDS = 600.0
"""Longest delay after failures."""
TIMEOUTS = 2
"""A command that did not end may still run in the container, so after so many no more is started in this pod."""
OWN = 16
"""How many times of own reports are kept; one of them may be written later."""
JITTER = 0.1
"""Part of the interval by which a read may be earlier or later."""
STALE_INTERVALS = 10
"""A report that is older than so many intervals is stale."""


Uniform = Callable[[float, float], float]
"""A random number between two."""


@dataclass(frozen=True, slots=True)
class ContainerRef:
    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a read found: the end of the file for `OK`, else the reason in `detail`."""

    result: ReadResult
    data: bytes = b""
    detail: str = ""
    reader: int = 0
    """Index of the command that worked, to start with at the next read in this pod."""
    report: ProgressReport | None = None
    """What a text says that was interpreted; for `OK` and `STALE`."""
    failure: str | None = None
    """The message of a training that says that it has failed; None if it does not say so."""


# ---------------------------------------------------------------------- where


class TargetUnknown(KubernetesError):  # noqa: N818 - a state, which passes
    """It is not known yet which pod reports."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    file: str
    """Its path in the container."""
    pod: PodRef
    loading: "tuple[FileTarget, ...]" = ()
    """The initializers, which are read before the training."""
    is_initializer: bool = False

    @property
    def container(self) -> str:
        return self.pod.container


@dataclass(frozen=True, slots=True)
class FoundPod:
    name: str
    uid: str
    node: str
    running: bool
    message: str
    """The termination message of the container's last run; empty without one."""
    has_container: bool = True
    """False if the pod has other containers only."""


async def file_target_of(
    pipeline: Pipeline, snapshots: Snapshots, facts: CachedFacts, job: TrainJob
) -> FileTarget | None:
    """The target of a job; None if no file is to be read. Callers keep it, by uid and annotations of the job.

    Raises TargetUnknown and other KubernetesErrors; try again later.
    """
    own = annotations_of(job)
    if not may_read_file(own.get(ANNOTATION_PROGRESS, PROGRESS_FILE)):
        return None
    runtime = await snapshots.existing(job)
    if runtime is None:
        raise TargetUnknown("the job has no snapshot of its runtime yet")
    declaration, _ = declared(own, annotations_of(runtime))
    if not declaration.reads_file:
        return None
    try:
        run = pipeline.begin(job, runtime)
        info = run.enforced(await facts.read(run.references()))
    except (PipelineError, FactUnavailable) as error:
        raise TargetUnknown(str(error)) from error
    if info.reporter is None:
        return None
    loading = tuple(
        FileTarget(DEFAULT_FILE, PodRef(pods.name, container=step), is_initializer=True)
        for pods in info.pod_sets
        if (step := pods.step or "") in (STEP_DATASET_INITIALIZER, STEP_MODEL_INITIALIZER)
        and pods.container(step) is not None
    )
    return FileTarget(declaration.file, info.reporter, loading)


async def find_pod(client: Client, job: TrainJob, target: FileTarget) -> FoundPod | None:
    """The pod with rank 0; None if there is none. Raises KubernetesError."""
    where = target.pod
    labels = {
        LABEL_JOBSET: job.name,
        LABEL_REPLICATED_JOB: where.job,
        LABEL_JOB_INDEX: where.replica,
        LABEL_INDEX: where.index,
    }
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    # "0": the API server answers from its cache. All: pods of an index that have failed stay beside the one that runs.
    page = await client.list_page(POD, job.namespace, label_selector=selector, limit=0, resource_version="0")
    pods: list[Document] = [msgspec.json.decode(item) for item in page.items]
    current = [pod for pod in pods if deletion_timestamp_of(pod) is None]
    if not current:
        return None
    pod = max(current, key=_order)
    status = pod.get("status") or {}
    listed = (one for one in status.get("containerStatuses") or () if one.get("name") == target.container)
    container: Document = next(listed, {})
    spec = pod.get("spec") or {}
    containers = {str(one.get("name")) for one in spec.get("containers") or ()}
    return FoundPod(
        name=name_of(pod),
        uid=uid_of(pod),
        node=str(spec.get("nodeName") or ""),
        running=(container.get("state") or {}).get("running") is not None,
        message=_last_message(container),
        has_container=not containers or target.container in containers,
    )


def _order(pod: Document) -> tuple[bool, str]:
    """The present pod of an index is the last: one that has not ended, whatever the clock said when it was created."""
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not has_ended, str(pod["metadata"].get("creationTimestamp") or "")


def _last_message(container: Document) -> str:
    """The termination message; after a restart in the pod that of the run before."""
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""


# ---------------------------------------------------------------------- the command


async def read_file(client: Client, place: ContainerRef, path: str, reader: int = 0) -> Reading:
    """Read the last `READ_BYTES` bytes of a file, within `SECONDS` for each command. Errors become results."""
    for index, command in enumerate(READERS[reader:], reader):
        found = await _read(client, place, command, path)
        if found.result is not ReadResult.NO_READER:
            return Reading(found.result, found.data, found.detail, index)
    programs = " nor ".join(command[0] for command in READERS)
    return Reading(ReadResult.NO_READER, detail=f"the image has neither {programs}", reader=reader)


async def _read(client: Client, place: ContainerRef, command: tuple[str, ...], path: str) -> Reading:
    try:
        ended = await client.exec(
            place.pod, place.namespace, [*command, path], container=place.container, seconds=SECONDS, limit=_LIMIT
        )
    except KubernetesError as error:
        return Reading(_result_of(error, command[0]), detail=str(error))
    if ended.code == 0:
        return Reading(ReadResult.OK, ended.stdout)
    if ended.code in _NOT_EXECUTABLE:
        return Reading(ReadResult.NO_READER)
    if ended.code > 128:
        return Reading(ReadResult.UNREACHABLE, detail=f"{command[0]} was ended by signal {ended.code - 128}")
    said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    shown = "".join(one if one.isprintable() else "?" for one in said[-_SHOWN:])
    return Reading(ReadResult.MISSING if _NO_FILE.search(said) else ReadResult.UNREADABLE, detail=shown)


def _result_of(error: KubernetesError, program: str) -> ReadResult:
    match error:
        case NotFound():
            return ReadResult.GONE
        case Forbidden() | Invalid():
            return ReadResult.FORBIDDEN
        case CommandTimeout():
            return ReadResult.TIMEOUT
        case BadRequest() | OutputTooLarge():
            return ReadResult.UNREADABLE
        case ServerError() if _lacks(error.message, program):
            return ReadResult.NO_READER
    return ReadResult.UNREACHABLE


def _lacks(message: str, program: str) -> bool:
    """Whether a node says that it did not find the program. A container's name may hold that of the program."""
    named = re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", message)
    return named is not None and _NO_PROGRAM.search(message) is not None


# ---------------------------------------------------------------------- the text


def interpret(key: Key, data: bytes, *, seen: datetime, now: datetime, interval: float) -> Reading:
    """What a document says, by the rules of `trainwright.progress.read`. Long ones take a third of a second.

    `seen` is when this text was seen first, which is its time if it names none; `interval` the seconds between two
    reads.
    """
    try:
        found = parse_document(data)
    except ReadError as error:
        return Reading(ReadResult(error.reason.replace(" ", "_")), detail=str(error))
    moment = found.time or seen
    status = TrainerStatus(
        progress_percentage=found.percentage,
        estimated_remaining_seconds=found.remaining_seconds,
        metrics=[Metric(name=name, value=value) for name, value in found.metrics.items()] or None,
        last_updated_time=moment.isoformat(),
    )
    try:
        report = checked(key, status, source=ReportSource.FILE)
    except ReportRefused as error:
        return Reading(ReadResult.CORRUPT, detail=str(error))
    stale = now - moment > timedelta(seconds=STALE_INTERVALS * interval)
    failure = (found.message or "") if found.state == "failed" else None
    return Reading(ReadResult.STALE if stale else ReadResult.OK, report=report, failure=failure)


# ---------------------------------------------------------------------- when


class Phase(Enum):
    NOTHING = auto()
    """It asks for nothing, waits, is suspended or is being deleted."""
    FILE = auto()
    """It runs, and asks for its file to be read."""
    LAST = auto()
    """It has ended, and its last report is in the termination message."""


def phase_of(job: TrainJob) -> Phase:
    """The phase, as far as the job itself tells; its runtime may ask for a file, too."""
    asks = may_read_file(annotations_of(job).get(ANNOTATION_PROGRESS, PROGRESS_FILE))
    if not is_ours(job) or deletion_timestamp_of(job) is not None or not asks:
        return Phase.NOTHING
    state = state_of(job).state
    if state.is_over:
        return Phase.LAST
    ready = any(one.ready > 0 for one in job.status_or_empty.jobs_status or ())
    return Phase.FILE if ready and state is not JobState.SUSPENDED else Phase.NOTHING


@dataclass(slots=True)
class JobFile:
    """What is remembered of one job whose progress is read in a pod. Times are of the clock of the event loop."""

    job: TrainJob
    phase: Phase = Phase.NOTHING
    has_changed: bool = False
    """Whether its phase or its pods have changed since it was looked at."""
    due: float = math.inf
    """When it is read next; infinite: not before it changes."""
    target: FileTarget | None = None
    current: FileTarget | None = None
    """What is read now: the target itself, or one of the initializers before it is ready."""
    loaded: dict[str, list[Metric]] = field(default_factory=dict)
    """What each initializer has reported last, by its replicated job."""
    resolved: bool = False
    """Whether `target` is known; None then means that no file is read."""
    resolve_at: float = -math.inf
    """When the target may be asked for again."""
    is_over: bool = False
    """Whether it has ended and its last report was read, or there is none."""
    pod: FoundPod | None = None
    """None: to be looked for."""
    reader: int = 0
    last: tuple[bytes, datetime] | None = None
    """Digest of the text that was read last, and when it was seen first."""
    is_accepted: bool = False
    """Whether the report of that text was accepted."""
    own: deque[str] = field(default_factory=lambda: deque(maxlen=OWN))
    """`lastUpdatedTime` of the last reports that did not come by push."""
    said: set[tuple[str, str]] = field(default_factory=set)
    """Events that were written: uid of the pod, and what."""
    missing_since: float | None = None
    failures: int = 0
    timeouts: int = 0
    again: bool = False
    """Whether the next read is the second one of a file that was being written."""

    @property
    def key(self) -> Key:
        return key_of(self.job)

    @property
    def node(self) -> str:
        """Node of the pod; empty: not known."""
        return self.pod.node if self.pod is not None else ""

    def begin(self, now: float) -> None:
        """Plan the first read of a phase, or the next one when pods have changed; the target is known."""
        target = self.target
        if target is None or self.phase is Phase.NOTHING:
            self.due = math.inf
            self.is_over = self.phase is Phase.LAST
        elif self.phase is Phase.LAST:
            self.due = now
        elif self.ready():
            # Not later than planned, or a job whose counters change every few seconds would never be read.
            self.due = min(self.due, now + FIRST_SECONDS)
        else:
            self.due = math.inf

    def ready(self) -> list[FileTarget]:
        """What can be read: the training, or before it the initializers."""
        target = self.target
        if target is None:
            return []
        if self.phase is Phase.LAST or _is_ready(self.job, target.pod.job):
            return [target]
        return [one for one in target.loading if _is_ready(self.job, one.pod.job)]

    def choose(self) -> FileTarget | None:
        """What is read next. Initializers take turns: one report holds what all of them have told."""
        before, ready = self.current, self.ready()
        after = [one for one in ready if before is None or one.pod.job > before.pod.job]
        self.current = min(after or ready, key=lambda one: one.pod.job, default=None)
        if self.current != before:
            self.lose_pod()
        return self.current

    def add_loaded(self, job: str, report: ProgressReport) -> None:
        """Add to the report of an initializer what the others told, since a report replaces the one before.

        It gets no percentage, which is the training's.
        """
        self.loaded[job] = report.status.metrics or []
        metrics = [metric for job in sorted(self.loaded) for metric in self.loaded[job]]
        report.status = TrainerStatus(metrics=metrics or None, last_updated_time=report.status.last_updated_time)

    def lose_pod(self) -> None:
        """The pod may be another one: look for it again, and forget what was learned about it."""
        self.pod, self.reader, self.failures, self.timeouts = None, 0, 0, 0
        self.missing_since, self.again = None, False

    def first_of(self, what: str) -> bool:
        """Whether this is the first event of its kind for this pod; then it counts as written."""
        entry = (self.pod.uid if self.pod is not None else "", what)
        if entry in self.said:
            return False
        self.said.add(entry)
        return True

    def after(self, result: ReadResult, now: float, interval: float, uniform: Uniform) -> float:
        """Seconds from `now`, by the clock of the event loop, until the next read; infinite: not before its pods
        change.
        """
        usual = interval * uniform(1 - JITTER, 1 + JITTER)
        again, self.again = self.again, False
        if result is not ReadResult.MISSING:
            self.missing_since = None
        elif self.missing_since is None:
            self.missing_since = now
        match result:
            case ReadResult.OK | ReadResult.STALE | ReadResult.MISSING:
                self.failures = self.timeouts = 0
                return usual
            case ReadResult.EMPTY | ReadResult.PARTIAL:
                self.again = not again
                return usual if again else AGAIN_SECONDS
            case ReadResult.NOT_READY:
                return min(usual, self._delayed(NOT_READY_SECONDS / 2))
            case ReadResult.GONE:
                return self._delayed(AGAIN_SECONDS / 2)
            case ReadResult.TIMEOUT:
                self.timeouts += 1
        ends = result is ReadResult.NO_READER or self.timeouts >= TIMEOUTS
        return math.inf if ends else self._delayed(usual)

    def missing_for(self, now: float) -> float:
        """Seconds for which reads have found no file."""
        return now - self.missing_since if self.missing_since is not None else 0.0

    def _delayed(self, seconds: float) -> float:
        self.failures += 1
        return min(LONGEST_SECONDS, seconds * 2.0 ** min(self.failures, 20))


def _is_ready(job: TrainJob, replicated: str) -> bool:
    """Whether JobSet counts the pods of a replicated job as ready."""
    return any(one.name == replicated and one.ready > 0 for one in job.status_or_empty.jobs_status or ())


def counters_of(job: TrainJob) -> object:
    """What shows that pods have come or gone."""
    return [
        (one.name, one.ready, one.succeeded, one.failed, one.active) for one in job.status_or_empty.jobs_status or ()
    ]
