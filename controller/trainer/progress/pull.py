# SPDX-License-Identifier: Apache-2.0
"""Reads the progress of TrainJobs in the pods of rank 0: a Part of the leader, with the gate `ProgressPull`.

A job is read while it runs, has a ready pod, and asks for it. `turns` has the limits over all jobs, `watched` when a
job is read next, `look` what happens then. When a job ends, its last report comes from the termination message of its
container, since nothing can be read in a pod that has ended. What is read goes to the coalescer, like a report that was
pushed. A bad read never clears what is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Protocol

from trainwright.api import surroundings
from trainwright.api.conditions import find
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import AnyObject, annotations_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.api.trainer.v1alpha1.progress import DEFAULT_INTERVAL
from trainwright.controller.runtime import Cache, Client, Event, Forbidden, KubernetesError, TaskScope
from trainwright.controller.trainer.progress.look import Looker, NodeFull, Sink, ToldOfProgress
from trainwright.controller.trainer.progress.probes import ProbeMetrics
from trainwright.controller.trainer.progress.reading import Result
from trainwright.controller.trainer.progress.targets import Target
from trainwright.controller.trainer.progress.turns import RATE, Turns
from trainwright.controller.trainer.progress.watched import FIRST_SECONDS, Phase, Uniform, Watched, phase_of

log = logging.getLogger(__name__)

FORBIDDEN_SECONDS = 300.0
"""How long nothing is read after the API server has refused it."""
RECENT_SECONDS = 600.0
"""Jobs that ended before this leader started, and not longer ago, get their last report."""
RESOLVE_SECONDS = 5.0
"""Before a target that is not known yet is asked for again."""
RESOLVE_AT_ONCE = 8
"""Targets that are asked for at the same time, so that one that is slow holds up no other."""
ANSWER_SECONDS = 30.0
"""Limit of one look at a job, and of one question for its target: an answer that does not come frees its place."""
LAST_ATTEMPTS = 3
LAST_SECONDS = 1.0
"""Between two looks at a termination message: the pod may show it a moment later than the job its end."""


class KnowsTargets(Protocol):
    """Knows where jobs are read; `targets.Targets`."""

    async def of(self, job: TrainJob) -> Target | None:
        """The target; None if no file is to be read. Raises KubernetesError."""
        ...


async def _at_once() -> None:
    """Nothing to wait for."""


class Puller:
    """The runnable, for the leader."""

    LIST_RULES = (Rule.on(Pod.RESOURCE, "list"),)
    """What it needs to find pods and their termination messages."""
    EXEC_RULES = (Rule.on(Pod.RESOURCE, "get", "create", subresource="exec"),)
    """What it needs to read files."""

    def __init__(
        self,
        client: Client,
        targets: KnowsTargets,
        sink: Sink,
        told: ToldOfProgress,
        metrics: ProbeMetrics,
        *,
        jobs: Callable[[], Sequence[TrainJob]],
        synced: Callable[[], Awaitable[None]] = _at_once,
        reads_files: bool = True,
        now: Now = wall_clock,
        uniform: Uniform = surroundings.uniform,
    ) -> None:
        """Args:
        client: lists pods and runs commands in them.
        targets: where each job is read.
        sink: takes the reports.
        told: tells users.
        metrics: counts.
        jobs: the TrainJobs of this manager, from the cache.
        synced: waits until `jobs` can be called.
        reads_files: False leaves the last reports, for which no command is run.
        now: the time of day.
        uniform: a random number between two, to spread the reads.
        """
        self._looker = Looker(client, sink, told, now=now)
        self._targets = targets
        self._metrics = metrics
        self._list = jobs
        self._synced = synced
        self._reads_files = reads_files
        self._now = now
        self._uniform = uniform
        self._jobs: dict[str, Watched] = {}
        self._done: set[str] = set()
        """The jobs that have ended and need no further look."""
        self._turns = Turns()
        self._unresolved: asyncio.Queue[Watched] | None = None
        """None while nothing runs."""
        self._wake = asyncio.Event()
        self._silent_until = float("-inf")
        self._complained = False

    # ------------------------------------------------------------------ which jobs

    def watch(self, cache: Cache) -> None:
        """Follow the TrainJobs of the cache; the kind must be declared there."""
        cache.informer(TrainJob).add_handler(self.handle)

    def handle(self, event: Event[AnyObject]) -> None:
        """Handle one event of the cache. Replicas that do not lead ignore it."""
        if self._unresolved is None:
            return
        old, job = event.old, event.new
        if old is not None and (job is None or uid_of(job) != uid_of(old)):
            self._forget(uid_of(old))
        if isinstance(job, TrainJob):
            self._consider(job)

    def _consider(self, job: TrainJob) -> None:
        """Begin, go on or stop with a job, as its status says."""
        if uid_of(job) in self._done:
            return
        watched, phase = self._jobs.get(uid_of(job)), phase_of(job)
        if phase is Phase.FILE and not self._reads_files:
            phase = Phase.NOTHING
        if watched is None:
            if phase is Phase.NOTHING or (phase is Phase.LAST and not self._may_lack_last(job)):
                return
            watched = self._jobs[uid_of(job)] = Watched(job)
        before, watched.job = watched.job, job
        if annotations_of(before) != annotations_of(job):
            watched.resolved = False
        if phase is not watched.phase or _counters(before) != _counters(job) or not watched.resolved:
            watched.phase = phase
            watched.lose_pod()
            self._begin(watched)

    def _begin(self, watched: Watched) -> None:
        """Plan the first look of a phase, once the target is known."""
        if watched.phase is Phase.NOTHING:
            self._turns.cancel(watched.uid)
        elif not watched.resolved:
            if not watched.asking:
                assert self._unresolved is not None
                watched.asking = True
                self._unresolved.put_nowait(watched)
        elif watched.target is None:
            if watched.phase is Phase.LAST:
                self._finish(watched)
        elif watched.phase is Phase.LAST:
            self._plan(watched, self._time())
        elif watched.ready():
            # Not later than planned, or a job whose counters change every few seconds would never be read.
            self._plan(watched, min(self._turns.at(watched.uid), self._time() + FIRST_SECONDS))
        else:
            self._turns.cancel(watched.uid)

    def _plan(self, watched: Watched, at: float) -> None:
        if watched.phase is Phase.FILE:
            at = max(at, self._silent_until)
        watched.planned = True
        self._turns.plan(watched.uid, at, watched.pod.node if watched.pod is not None else "")
        self._wake.set()

    def _forget(self, uid: str) -> None:
        self._jobs.pop(uid, None)
        self._done.discard(uid)
        self._turns.cancel(uid)

    def _finish(self, watched: Watched) -> None:
        """Nothing more is to be read of a job that has ended."""
        self._forget(watched.uid)
        self._done.add(watched.uid)

    def _may_lack_last(self, job: TrainJob) -> bool:
        """Whether the job ended lately, and 100 % is not stored."""
        assert job.status is not None  # it has a condition
        stored = job.status.trainer_status
        if stored is not None and stored.progress_percentage == 100:
            return False
        held = (find(job.status.conditions, name) for name in (CONDITION_COMPLETE, CONDITION_FAILED))
        moments = [parse(one.last_transition_time) for one in held if one is not None and one.status == "True"]
        return any(self._now() - moment < timedelta(seconds=RECENT_SECONDS) for moment in moments)

    # ------------------------------------------------------------------ running

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Read until cancelled."""
        await self._synced()
        self._unresolved = asyncio.Queue()
        try:
            for job in self._list():
                self._consider(job)
            async with TaskScope("progress/pull") as tasks:
                for number in range(RESOLVE_AT_ONCE):
                    tasks.start(f"progress/targets/{number}", self._resolve(self._unresolved))
                while True:
                    self._wake.clear()
                    now = self._time()
                    while (uid := self._turns.next(now)) is not None:
                        watched = self._jobs[uid]
                        watched.planned = False
                        tasks.start(f"progress/pull {watched.key}", self._turn(watched))
                    await self._sleep(now)
        finally:
            self._unresolved = None
            self._jobs.clear()
            self._done.clear()
            self._turns = Turns()

    async def _sleep(self, now: float) -> None:
        pause = self._turns.pause(now)
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _resolve(self, unresolved: asyncio.Queue[Watched]) -> None:
        """Find out whether and where jobs are read; one of several that do so."""
        while True:
            watched = await unresolved.get()
            if self._jobs.get(watched.uid) is not watched:
                continue
            job = watched.job
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    watched.target = await self._targets.of(job)
            except Exception as error:
                level = logging.DEBUG if isinstance(error, (KubernetesError, TimeoutError)) else logging.ERROR
                log.log(level, "%s: it is not known yet where its progress is read: %s", watched.key, error)
                asyncio.get_running_loop().call_later(RESOLVE_SECONDS, unresolved.put_nowait, watched)
                continue
            watched.asking = False
            watched.resolved = annotations_of(job) == annotations_of(watched.job)
            self._begin(watched)

    def _interval(self, watched: Watched) -> float:
        """Seconds between two reads: as declared, or longer if more jobs are read than the rate allows."""
        declared = watched.target.declaration.interval if watched.target is not None else DEFAULT_INTERVAL
        read = sum(1 for one in self._jobs.values() if one.phase is Phase.FILE and one.target is not None)
        return max(declared, read / RATE)

    async def _turn(self, watched: Watched) -> None:
        """One look at a job, and the plan of the next one."""
        phase, pause = watched.phase, None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                pause = await (self._file(watched) if phase is Phase.FILE else self._last(watched))
        except NodeFull:
            pause = 0.0
        except Forbidden as error:
            self._stop_reading(str(error))
            pause = FORBIDDEN_SECONDS
        except (KubernetesError, TimeoutError) as error:
            log.debug("%s: the pod cannot be looked for: %s", watched.key, str(error) or "no answer")
            pause = self._after(watched, Result.UNREACHABLE)
        except Exception:
            log.exception("%s: reading the progress failed", watched.key)
            pause = self._after(watched, Result.UNREACHABLE)
        finally:
            self._turns.end(watched.uid)
            self._wake.set()
        # An event may have planned another look, or ended this phase, meanwhile.
        if self._jobs.get(watched.uid) is watched and watched.phase is phase and not watched.planned:
            if pause is not None:
                self._plan(watched, self._time() + pause)
            elif phase is Phase.LAST:
                self._finish(watched)

    async def _file(self, watched: Watched) -> float | None:
        """Read the file once. Returns the pause until the next look; None: there is none in this pod."""
        interval, begun = self._interval(watched), self._time()
        watched.choose()
        result = await self._looker.at_file(watched, interval, lambda node: self._turns.move(watched.uid, node))
        if result is None:
            return interval
        if result is not Result.NOT_READY:
            self._metrics.duration.observe(self._time() - begun)
        if result is Result.FORBIDDEN:
            self._metrics.count(result)
            self._stop_reading(watched.refusal)
            return 0.0
        self._complained = False
        return self._after(watched, result)

    def _after(self, watched: Watched, result: Result) -> float | None:
        self._metrics.count(result)
        return watched.after(result, self._time(), self._interval(watched), self._uniform)

    async def _last(self, watched: Watched) -> float | None:
        """Look for the last report. Returns the pause until another attempt; None: there was one, or too many."""
        if await self._looker.at_end(watched, self._interval(watched)):
            return None
        watched.failures += 1
        return LAST_SECONDS if watched.failures < LAST_ATTEMPTS else None

    def _stop_reading(self, refusal: str) -> None:
        """The API server refuses: read no file for a while, and say so once. Last reports need no command."""
        self._silent_until = self._time() + FORBIDDEN_SECONDS
        for watched in self._jobs.values():
            if watched.phase is Phase.FILE and self._turns.has(watched.uid):
                self._plan(watched, self._silent_until)
        if not self._complained:
            self._complained = True
            log.error(
                "progress files are not read, because the API server refuses it: the manager needs list on pods, and "
                "get and create on pods/exec, and an admission policy must allow its commands: %s",
                refusal,
            )


def _counters(job: TrainJob) -> object:
    """What shows that pods have come or gone."""
    return [
        (one.name, one.ready, one.succeeded, one.failed, one.active) for one in job.status_or_empty.jobs_status or ()
    ]
