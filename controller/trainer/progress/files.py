# SPDX-License-Identifier: Apache-2.0
"""Reads the progress of TrainJobs in the pods of rank 0: a controller of the leader, with the gate `ProgressPull`.

A job is read while it runs, has a ready pod, and asks for it; how often, `JobFile.after` says. Over all jobs,
`AT_ONCE`, `RATE` and `ON_A_NODE` limit the reads; of those that are due, the one that has waited longest goes first.
When a job ends, its last report comes from the termination message of its container, since nothing can be read in a pod
that has ended. What is read is accepted like a report that was pushed. A bad read never clears what is stored.
"""

import asyncio
import hashlib
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from trainwright.api import surroundings
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import AnyObject, Key, annotations_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Done, Event, Forbidden, KubernetesError, Manager, Result, RetryAfter
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import DecodeError
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.trainer.job.events import EVENT_PROGRESS_UNREADABLE, EVENT_TRAINING_FAILURE, JobEvents
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.stall import COMPLETE
from trainwright.controller.trainer.job.status import ended_lately
from trainwright.controller.trainer.progress.metrics import FileMetrics, ReadResult
from trainwright.controller.trainer.progress.reading import (
    PATIENCE_SECONDS,
    TIMEOUTS,
    ContainerRef,
    FileTarget,
    JobFile,
    Phase,
    Reading,
    Uniform,
    counters_of,
    find_pod,
    interpret,
    phase_of,
    read_file,
)
from trainwright.controller.trainer.progress.report import (
    JobReports,
    ProgressReport,
    ReportRefused,
    ReportSource,
)

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
"""Between two reads of a job, where the Configuration sets no other."""
AT_ONCE = 16
"""Reads at the same time: the workers of the controller."""
RATE = 10.0
"""Reads a second, at most."""
APART = 1.02 / RATE
"""Seconds between two starts. A little more than needed, so that a late start puts no eleventh read into a second."""
ON_A_NODE = 4
"""Reads at once on one node, so that a node that hangs leaves places for the others."""
NODE_SECONDS = 1.0
"""Before a job is tried again whose node has no place free."""
FORBIDDEN_SECONDS = 300.0
"""How long nothing is read after the API server has refused it."""
RESOLVE_SECONDS = 5.0
"""Before a target that is not known yet is asked for again."""
ANSWER_SECONDS = 30.0
"""Limit of one read with its list, and of one question for a target: an answer that does not come frees its worker."""
LAST_ATTEMPTS = 3
LAST_SECONDS = 1.0
"""Between two reads of a termination message: the pod may show it a moment later than the job its end."""
PUSH_INTERVALS = 2
"""A job is not read while a report that was pushed is younger than so many intervals."""
INLINE_BYTES = 4096
"""Longer texts are interpreted in a thread."""


class NodeFull(Exception):  # noqa: N818 - not an error
    """The node of the pod has no place free."""


class ProgressFiles:
    """The controller. The constructor declares it on the manager."""

    LISTS = Uses(kind=TrainJob, more=(Rule.on(Pod.RESOURCE, "list"),))
    """For last reports, which the status of a pod shows."""
    READS = replace(LISTS, more=(*LISTS.more, Rule.on(Pod.RESOURCE, "get", "create", subresource="exec")))

    def __init__(
        self,
        manager: Manager,
        target_of: Callable[[TrainJob], Awaitable[FileTarget | None]],
        accept: Callable[[TrainJob, ProgressReport], Awaitable[None]],
        events: JobEvents,
        metrics: FileMetrics,
        records: JobRecords,
        *,
        reads_files: bool = True,
        interval: float = INTERVAL_SECONDS,
        now: Now = wall_clock,
        uniform: Uniform = surroundings.uniform,
    ) -> None:
        """Declare everything, inside a running event loop; `manager.run` starts it.

        `target_of` tells where a job is read, None if no file is to be read, and may raise KubernetesError; `accept`
        takes a report, and may raise ReportRefused. Without `reads_files`, only last reports are taken, for which no
        command is run. `interval`: seconds between two reads of a job, more if many are read; `uniform` spreads them.
        """
        self._client, self._cache = manager.client, manager.cache
        self._target_of, self._accept, self._events = target_of, accept, events
        self._metrics, self._records = metrics, records
        self._reads_files, self._usual, self._now, self._uniform = reads_files, interval, now, uniform
        self._time = asyncio.get_running_loop().time
        self._starts = TokenBucket(1.0 / APART, 1, time=self._time)
        self._on_node: Counter[str] = Counter()
        self._silent_until = -math.inf
        self._complained = False
        builder = manager.controller("progress_files_controller", self.READS if reads_files else self.LISTS)
        builder.for_(TrainJob, predicates=[self._is_of_interest])
        builder.reconcile(self.reconcile, workers=AT_ONCE)

    # ------------------------------------------------------------------ when

    async def reconcile(self, key: Key) -> Result:
        job = self._job(key)
        file = self._file_of(key, job) if job is not None else None
        if job is None or file is None or file.is_over:
            return Done()
        phase = phase_of(job)
        if phase is Phase.FILE and not self._reads_files:
            phase = Phase.NOTHING
        changed = phase is not file.phase or file.has_changed or not file.resolved
        file.job, file.phase, file.has_changed = job, phase, False
        if changed:
            file.lose_pod()
            if phase is not Phase.NOTHING and not await self._resolved(file):
                return self._retry(file, file.resolve_at)
            file.begin(self._time())
        at = self._due(file)
        if at > self._time():
            return self._retry(file, at)
        return await self._read_now(file)

    def _is_of_interest(self, event: Event[AnyObject]) -> bool:
        """Whether an event begins, moves or ends the reads of a job.

        Noted here, since the events of a key merge: pods that were away for a moment are others.
        """
        old, new = event.old, event.new
        if not isinstance(old, TrainJob) or not isinstance(new, TrainJob) or uid_of(old) != uid_of(new):
            return True
        asks_anew = annotations_of(old) != annotations_of(new)
        has_changed = phase_of(old) is not phase_of(new) or counters_of(old) != counters_of(new)
        file = self._records.find(event.key, uid_of(new), JobFile)
        if file is not None:
            file.resolved = file.resolved and not asks_anew
            file.has_changed = file.has_changed or has_changed
        return asks_anew or has_changed

    def _job(self, key: Key) -> TrainJob | None:
        try:
            return self._cache.get(TrainJob, key.name, key.namespace)
        except DecodeError:
            return None  # nothing can be read of it; the cache has logged it

    def _file_of(self, key: Key, job: TrainJob) -> JobFile | None:
        record, phase = self._records.of(key, uid_of(job)), phase_of(job)
        file = record.get(JobFile)
        if file is None and (phase is Phase.NOTHING or (phase is Phase.LAST and not self._may_lack_last(job))):
            return None
        return file or record.keep(JobFile(job))

    def _may_lack_last(self, job: TrainJob) -> bool:
        is_stored = job.status_or_empty.trainer_status_or_empty.progress_percentage == COMPLETE
        return not is_stored and ended_lately(job, self._now())

    async def _resolved(self, file: JobFile) -> bool:
        """Find out whether and where the job is read. False: that is not known yet."""
        if file.resolved:
            return True
        if self._time() < file.resolve_at:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                file.target = await self._target_of(file.job)
        except Exception as error:
            level = logging.DEBUG if isinstance(error, (KubernetesError, TimeoutError)) else logging.ERROR
            log.log(level, "%s: it is not known yet where its progress is read: %s", file.key, error)
            file.resolve_at = self._time() + RESOLVE_SECONDS
            return False
        file.resolved = True
        return True

    def _due(self, file: JobFile) -> float:
        return max(file.due, self._silent_until) if file.phase is Phase.FILE else file.due

    def _retry(self, file: JobFile, at: float) -> Result:
        if file.is_over or at == math.inf:
            return Done()
        return RetryAfter(max(at - self._time(), APART), priority=0, reason="read")

    async def _read_now(self, file: JobFile) -> Result:
        """Wait until the limits over all jobs allow a read, read once, and plan the next read."""
        if self._is_full(file.node):
            return self._retry(file, self._time() + NODE_SECONDS)
        await asyncio.sleep(self._starts.delay())
        if self._due(file) > self._time():  # another read was refused meanwhile
            return self._retry(file, self._due(file))
        file.due = math.inf
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                pause = await (self._file(file) if file.phase is Phase.FILE else self._last(file))
        except NodeFull:
            pause = NODE_SECONDS
        except Forbidden as error:
            self._stop_reading(str(error))
            pause = FORBIDDEN_SECONDS
        except (KubernetesError, TimeoutError) as error:
            log.debug("%s: the pod cannot be looked for: %s", file.key, str(error) or "no answer")
            pause = self._after(file, ReadResult.UNREACHABLE)
        except Exception:
            log.exception("%s: reading the progress failed", file.key)
            pause = self._after(file, ReadResult.UNREACHABLE)
        file.due = self._time() + pause
        file.is_over = file.phase is Phase.LAST and pause == math.inf
        return self._retry(file, self._due(file))

    def _interval(self) -> float:
        """Seconds between two reads: as configured, or longer if more jobs are read than the rate allows."""
        read = sum(1 for one in self._records.each(JobFile) if one.phase is Phase.FILE and one.target is not None)
        return max(self._usual, read / RATE)

    def _after(self, file: JobFile, result: ReadResult) -> float:
        self._metrics.results.inc(result)
        return file.after(result, self._time(), self._interval(), self._uniform)

    def _is_full(self, node: str) -> bool:
        return bool(node) and self._on_node[node] >= ON_A_NODE

    def _stop_reading(self, refusal: str) -> None:
        """The API server refuses: read no file for a while, and log it once. Last reports need no command."""
        self._silent_until = self._time() + FORBIDDEN_SECONDS
        if not self._complained:
            self._complained = True
            log.error(
                "progress files are not read, because the API server refuses it: the manager needs list on pods, and "
                "get and create on pods/exec, and an admission policy must allow its commands: %s",
                refusal,
            )

    # ------------------------------------------------------------------ one read

    async def _file(self, file: JobFile) -> float:
        """Read the file once. Returns the pause until the next read. Raises NodeFull and KubernetesError."""
        interval, begun = self._interval(), self._time()
        target = file.choose()
        if target is None:
            return self._after(file, ReadResult.NOT_READY)
        if self._was_pushed(file, interval):
            return interval
        reading = await self._reading(file, target, interval)
        if reading.report is None:
            self._say(file, target, reading)
        elif not file.is_accepted:
            await self._take(file, target, reading)
        if reading.result is not ReadResult.NOT_READY:
            self._metrics.duration.observe(self._time() - begun)
        if reading.result is ReadResult.FORBIDDEN:
            self._metrics.results.inc(reading.result)
            self._stop_reading(reading.detail)
            return 0.0
        self._complained = False
        return self._after(file, reading.result)

    async def _reading(self, file: JobFile, target: FileTarget, interval: float) -> Reading:
        if file.pod is None or not file.pod.running:
            file.pod = await find_pod(self._client, file.job, target)
        pod = file.pod
        if pod is not None and not pod.has_container:
            return Reading(ReadResult.UNREADABLE, detail=f"pod {pod.name} has no container {target.container}")
        if pod is None or not pod.running:
            return Reading(ReadResult.NOT_READY)
        if self._is_full(pod.node):
            raise NodeFull
        self._on_node[pod.node] += 1
        try:
            place = ContainerRef(file.job.namespace, pod.name, target.container)
            reading = await read_file(self._client, place, target.file, file.reader)
        finally:
            self._on_node[pod.node] -= 1
        file.reader = reading.reader
        if reading.result is ReadResult.GONE:
            file.pod = None
        return await self._interpreted(file, reading.data, interval) if reading.result is ReadResult.OK else reading

    async def _last(self, file: JobFile) -> float:
        """Look for the last report. Returns the pause until another attempt; infinite: it was there, or too many."""
        target = file.choose()
        assert target is not None
        pod = await find_pod(self._client, file.job, target)
        if pod is not None and pod.message:
            file.pod, file.last = pod, None
            reading = await self._interpreted(file, pod.message.encode(), self._interval())
            if reading.report is not None:
                reading.report.source = ReportSource.FINAL
                await self._take(file, target, reading)
                return math.inf
        file.failures += 1
        return LAST_SECONDS if file.failures < LAST_ATTEMPTS else math.inf

    async def _interpreted(self, file: JobFile, data: bytes, interval: float) -> Reading:
        """What a text says. One without a time has that of the first sight of it."""
        now = self._now()
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if file.last is None or file.last[0] != digest:
            file.last, file.is_accepted = (digest, now), False
        read = partial(interpret, file.key, data, seen=file.last[1], now=now, interval=interval)
        # Many lines of nonsense take a third of a second; a usual document less than the way to another thread.
        return read() if len(data) <= INLINE_BYTES else await asyncio.to_thread(read)

    async def _take(self, file: JobFile, target: FileTarget, reading: Reading) -> None:
        report, job = reading.report, self._job(file.key)
        if report is None or job is None or uid_of(job) != uid_of(file.job):
            return  # the job was deleted while its file was read
        file.own.append(report.status.last_updated_time or "")
        report.pod = file.pod.name if file.pod is not None else ""
        if target.is_initializer:
            file.add_loaded(target.pod.job, report)
        try:
            await self._accept(job, report)
        except ReportRefused as error:
            log.info("%s: a report was refused: %s", file.key, error)
            return
        file.is_accepted = True
        # The Job of an initializer starts it again: the training has not failed.
        if reading.failure is not None and not target.is_initializer and file.first_of("failed"):
            said = f": {reading.failure}" if reading.failure else ""
            self._events.warn(job, EVENT_TRAINING_FAILURE, f"the training reports that it has failed{said}")

    def _was_pushed(self, file: JobFile, interval: float) -> bool:
        """Whether a report came by another way a moment ago, to this process or to another replica."""
        young = PUSH_INTERVALS * interval
        reports = self._records.find(file.key, uid_of(file.job), JobReports)
        last = reports.last_push if reports is not None else None
        if last is not None and self._time() - last < young:
            return True
        stored = file.job.status_or_empty.trainer_status
        at = stored.last_updated_time if stored is not None else None
        if at is None:
            return False
        if not file.own:
            file.own.append(at)  # the first read of this leader: the leader before may have stored it
        return at not in file.own and timedelta(0) <= self._now() - parse(at) < timedelta(seconds=young)

    def _say(self, file: JobFile, target: FileTarget, reading: Reading) -> None:
        """Tell users of what they can change, once for each pod."""
        path = target.file
        if target.is_initializer:
            log.debug("%s: %s: %s: %s", file.key, target.container, reading.result, reading.detail)
            return  # Kubeflow Trainer's, for one, writes none
        match reading.result:
            case ReadResult.CORRUPT | ReadResult.TOO_LARGE | ReadResult.UNREADABLE:
                note = f"the progress file {path} cannot be used: {reading.detail}"
            case ReadResult.NO_READER:
                note = f"the progress file {path} cannot be read: {reading.detail}; add one of them to it"
            case ReadResult.TIMEOUT if file.timeouts + 1 >= TIMEOUTS:
                note = f"reading the progress file {path} does not end, so it is no longer read in this pod"
            case ReadResult.MISSING if file.missing_for(self._time()) >= PATIENCE_SECONDS:
                note = f"there is still no progress file {path} in container {target.container}"
            case _:
                log.debug("%s: %s: %s", file.key, reading.result, reading.detail)
                return
        if file.first_of(reading.result):
            self._events.warn(file.job, EVENT_PROGRESS_UNREADABLE, note)
