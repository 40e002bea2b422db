# SPDX-License-Identifier: Apache-2.0
"""Submits a TrainJob and follows it: the lines of its ranks, what it waits for, how it ends.

Everything is asked of the API server, so it makes no difference in which process the cluster runs.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TextIO

import msgspec

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.events.v1 import Event as ClusterEvent
from trainwright.api.objects import Document, dig, uid_of
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.local.folding import Folding
from trainwright.controller.cli.local.lines import LineWriter, lines_of, prefix_of
from trainwright.controller.cli.local.pods import (
    STARTING,
    FirstFailure,
    PodWatch,
    failed_runs,
    first_failure,
    has_ended,
    is_starting,
    runs_of,
    runs_with_logs,
)
from trainwright.controller.cli.local.stalls import EXIT_CODE as STALLED
from trainwright.controller.cli.local.stalls import Stalls
from trainwright.controller.runtime import Client, KubernetesError, NotFound
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.failures.last_words import ended_below, whereabouts
from trainwright.controller.trainer.job.pods import container_statuses, rank_of
from trainwright.controller.trainer.job.status import CONDITION_STALLED
from trainwright.controller.views import text
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.job import History, observe, view_of
from trainwright.plugins.contract.picture import index_of

TRAINJOB = TrainJob.RESOURCE
_LOOK_SECONDS = 0.1
_DRAIN_SECONDS = 2.0
_READ_SECONDS = 30.0
"""How long to read the log of a container that has ended."""
_OTHERS_SECONDS = 0.5
_LAST_LINES = 200
_ENDED_SECONDS = 3.0
"""How long a launcher may take to end after its process, before users are told."""
OUT_OF_TIME = 124
_TOLD_BY_STATUS = frozenset({"FailedScheduling", "Failed", "BackOff", "TrainJobResourcesCreationFailed"})
"""Reasons of events whose text is in the status of the pod or the job too, from where it is told."""


@dataclass
class Followed:
    code: int
    """Exit code of the command: 0 if it is Complete."""
    message: str
    failed: bool = False
    """The job has the condition Failed, of which the message is."""


class Follower:
    """Follows one job to its end.

    `takes` says whether the lines of a pod are shown, and `stalls` whether the job seems to hang.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        out: TextIO = sys.stdout,
        stop_at_failure: bool = True,
        takes: Callable[[Document], bool] | None = None,
        stalls: Stalls | None = None,
        unfolded: bool = False,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._lines = LineWriter(out)
        self._stop_at_failure = stop_at_failure
        self._takes = takes
        self._stalls = stalls
        self._unfolded = unfolded
        self._copies: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._waiting: dict[tuple[str, str, int], float] = {}
        """Since when the launcher of a run is seen to wait for others after the end of its process."""
        self._last_lines: dict[tuple[str, str, int], deque[str]] = {}
        """Of each run whose log is copied: they may tell that it failed because of another one."""
        self._pods: dict[str, Document] = {}
        """By uid, each as it was seen last, also those that are gone."""
        self._failed: dict[tuple[str, str], int] = {}
        """The first run that failed, by pod and container."""
        self._suspended: set[str] = set()
        """The uids of pods that a suspension of the job stopped. Their ends are not failures."""
        self._not_told = STARTING | ({"CrashLoopBackOff"} if stop_at_failure else set())
        self._told: set[str] = set()
        self._last = ""
        self._reports = ReportLines()
        self._started = False
        self._hang = ""
        self._uid = ""

    async def follow(
        self,
        *,
        start_seconds: float,
        seconds: float | None = None,
        end_job: Callable[[str], Awaitable[object]] | None = None,
        stop_job: Callable[[str], Awaitable[object]] | None = None,
    ) -> Followed:
        """Follow until the job is finished, a container of it failed, or nothing started within `start_seconds`.

        Args:
            start_seconds: how long to wait for the first container that runs.
            seconds: how long the job may take from now on.
            end_job: ends a job that failed, and returns when none of its pods runs. Only then is known how each of
                them ended, and so which failed first. It is given what is known by then.
            stop_job: stops a job that seems to hang, and returns when none of its pods runs; None: such a job goes on.
                It is given what is known of the hang, and once more if the ranks have said more while they stopped.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + start_seconds
        end = None if seconds is None else loop.time() + seconds
        async with TaskScope("following") as tasks:
            watch = PodWatch(
                self._client, self._namespace, f"{LABEL_JOBSET}={self._name}", lambda pod: self._take(tasks, pod)
            )
            tasks.start("pods", watch.run())
            self._watch = watch
            while True:
                job = await self._job()
                if job is None:
                    await self._finish([*self._copies.values()], _DRAIN_SECONDS)
                    return Followed(1, f"TrainJob {self._name} was deleted")
                self._tell_progress(job)
                await self._tell_events(job)
                ended = self._ended(job)
                if ended is not None and ended.code:
                    job = await self._job()
                    if job is None or (not ended.failed and self._is_suspended(job)):
                        continue  # just now, and its pods fail because of that
                if ended is not None:
                    return await self._concluded(ended, end_job)
                self._tell_ended_processes(loop.time())
                hang = self._tell_stall(job)
                if hang and stop_job is not None:
                    return await self._stopped(hang, stop_job)
                if not self._started and loop.time() > limit:
                    said = await self._why()
                    why = f": {said}" if said else ""
                    return Followed(OUT_OF_TIME, f"nothing of the job runs after {start_seconds:g} s{why}")
                if end is not None and loop.time() > end:
                    return Followed(OUT_OF_TIME, f"the job is not finished after {seconds:g} s")
                await asyncio.sleep(_LOOK_SECONDS)

    def _take(self, tasks: TaskScope, pod: Document) -> None:
        """What the watch says of a pod: each state that it had, also if it was gone a moment later."""
        self._pods[uid_of(pod)] = pod
        self._tell_waiting(pod)
        for container, run in failed_runs(pod):
            self._failed.setdefault((uid_of(pod), container), run)
        first = [(container, run) for (uid, container), run in self._failed.items() if uid == uid_of(pod)]
        for container, run in [*first, *runs_with_logs(pod)]:
            # Where the first failure ends the job, the runs after it are noise.
            if not (self._stop_at_failure and run > self._failed.get((uid_of(pod), container), run)):
                self._stream(tasks, pod, container, run)

    async def _why(self) -> str:
        """Why nothing runs: the sentence of `trainwright explain`; of a job that is only slow, what was said last."""
        # Imported here: most jobs start.
        from trainwright.controller.trainer.why import Reader  # noqa: PLC0415
        from trainwright.controller.views.explanation import explaining_plugins  # noqa: PLC0415

        with suppress(KubernetesError):
            found = await Reader(self._client, explaining_plugins()).explain(self._namespace, self._name)
            if found.cause.reason not in ("Starting", "Running"):
                return found.cause.message
        return self._last

    async def _job(self) -> Document | None:
        """The job; None once it is deleted, when its pods end without a failure, also if another got its name."""
        job = await if_there(self._client.get(TRAINJOB, self._name, self._namespace))
        if job is None:
            return None
        self._uid = self._uid or uid_of(job)
        return job if uid_of(job) == self._uid and not job["metadata"].get("deletionTimestamp") else None

    # ------------------------------------------------------------------ the end

    def _is_suspended(self, job: Document) -> bool:
        """Whether the job is suspended, which stops its pods, and may be resumed."""
        if not dig(job, "spec.suspend"):
            return False
        self._suspended |= self._pods.keys()
        return True

    def _ended(self, job: Document) -> Followed | None:
        conditions = {entry["type"]: entry for entry in dig(job, "status.conditions") or ()}
        for kind, condition in conditions.items():
            # What the manager calls a stall may be none by the limit of this command, which tells it.
            if condition["status"] == "True" and not (kind == CONDITION_STALLED and self._stalls is not None):
                self._say(f"{kind}: {condition.get('message') or condition.get('reason')}")
        if conditions.get("Complete", {}).get("status") == "True":
            return Followed(0, "the job is Complete")
        failure = self._first_failure()
        if conditions.get("Failed", {}).get("status") == "True":
            text = conditions["Failed"].get("message") or conditions["Failed"].get("reason") or "it failed"
            said = text if text.startswith("the job ") else f"the job failed: {text}"
            return Followed(failure.code if failure else 1, said, failed=True)
        if failure is not None and self._stop_at_failure:
            return Followed(failure.code, failure.message)
        return None

    def _first_failure(self) -> FirstFailure | None:
        """Of the pods that are there; of all that there were, where one failure ends the job."""
        known = [pod for uid, pod in self._pods.items() if uid not in self._suspended]
        present = [pod for pod in known if uid_of(pod) in self._watch.present]
        words = {key: list(lines) for key, lines in self._last_lines.items()}
        if self._stop_at_failure:
            return first_failure(known, words)
        return first_failure(present, words) or first_failure(known, words)

    async def _concluded(self, ended: Followed, end_job: Callable[[str], Awaitable[object]] | None) -> Followed:
        """Show what is left of the logs, end the job, and say how it ended."""
        if not ended.code:
            # The pods have ended, but for those that the job's success does not wait for.
            over = {(uid, name, run) for uid, pod in self._pods.items() for name, run, end in runs_of(pod) if end}
            await self._finish([copy for key, copy in self._copies.items() if key in over], _READ_SECONDS)
            await self._finish([*self._copies.values()], _DRAIN_SECONDS)
            return ended
        # A rank that failed first may be the last to say that it has started.
        await self._until(lambda: not any(map(is_starting, self._present())), _DRAIN_SECONDS)
        await self._finish(self._of_failed(), _READ_SECONDS)
        if end_job is not None:
            await end_job(ended.message)
            await self._until(lambda: all(map(has_ended, self._present())), _DRAIN_SECONDS)
            await self._finish(self._of_failed(), _READ_SECONDS)
        elif self._stop_at_failure:
            # The others may have failed before, and have not said so yet.
            await self._until(lambda: all(map(first_failure, ([pod] for pod in self._present()))), _OTHERS_SECONDS)
        await self._finish([*self._copies.values()], _DRAIN_SECONDS)
        failure = self._first_failure()
        if failure is None:
            return ended
        return Followed(failure.code, ended.message if ended.failed else failure.message, failed=ended.failed)

    async def _stopped(self, hang: str, stop_job: Callable[[str], Awaitable[object]]) -> Followed:
        """Stop a job that seems to hang, and show what its ranks say to that: it may be where they are."""
        begun, where = hang.partition(";")[0], hang
        await stop_job(begun)
        await self._until(lambda: all(map(has_ended, self._present())), _DRAIN_SECONDS)
        await self._finish([*self._copies.values()], _DRAIN_SECONDS)
        logs = {rank_of(self._pods[uid]): "\n".join(lines) for (uid, *_), lines in self._last_lines.items()}
        if found := whereabouts(logs):
            where = f"{begun}; {found}"
            await stop_job(where)
        return Followed(STALLED, f"the job was stopped because it seems to hang: {where}")

    def _present(self) -> list[Document]:
        return [pod for uid, pod in self._pods.items() if uid in self._watch.present]

    def _of_failed(self) -> list[asyncio.Task[None]]:
        failed = {(uid, container, run) for uid, pod in self._pods.items() for container, run in failed_runs(pod)}
        return [copy for key, copy in self._copies.items() if key in failed]

    async def _until(self, reached: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition holds, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not reached():
                    self._watch.changed.clear()
                    await self._watch.changed.wait()

    async def _finish(self, copies: list[asyncio.Task[None]], seconds: float) -> None:
        if waiting := [copy for copy in copies if not copy.done()]:
            await asyncio.wait(waiting, timeout=seconds)

    # ------------------------------------------------------------------ what is said

    def _say(self, text: str) -> None:
        self._last = text
        if text not in self._told:
            self._told.add(text)
            self._lines.print(f"| {text}")

    def _tell_progress(self, job: Document) -> None:
        if line := self._reports.line(job):
            self._lines.print(f"| {line}")

    def _tell_ended_processes(self, now: float) -> None:
        """Warn of a launcher that waits for others after the end of its process. Mostly it ends within a moment."""
        running = {uid_of(pod): pod for pod in self._present() if dig(pod, "status.phase") == "Running"}
        for run, lines in self._last_lines.items():
            said = ended_below(lines) if run[0] in running else ""
            since = self._waiting.setdefault(run, now) if said else now
            if said and now - since >= _ENDED_SECONDS:
                who = f"node {index_of(running[run[0]])}"
                self._say(f"warning: a process of {who} has ended, and the others wait for it: {said}")

    def _tell_stall(self, job: Document) -> str:
        """Warn once of each stall. Returns how the job stands still; empty: it does not, or that is not asked."""
        text = self._stalls.look(job, self._present()) if self._stalls is not None else ""
        if text and self._hang != text:
            self._lines.print(f"| warning: {text}")
        self._hang = text
        return text

    def _tell_waiting(self, pod: Document) -> None:
        rank = rank_of(pod)
        for status in container_statuses(pod):
            state = status.get("state") or {}
            waiting = state.get("waiting")
            if "running" in state or "terminated" in state:
                self._started = True
            if waiting and waiting.get("reason") not in self._not_told:
                detail = f": {waiting['message']}" if waiting.get("message") else ""
                self._say(f"{rank} waits: {waiting['reason']}{detail}")
        for condition in dig(pod, "status.conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                self._say(f"{rank} waits for room: {condition.get('message')}")

    async def _tell_events(self, job: Document) -> None:
        uids = {uid_of(job), *self._pods}
        with suppress(KubernetesError):
            listed = await self._client.list(ClusterEvent.RESOURCE, self._namespace)
            for event in listed.items:
                regarding = event.get("regarding") or {}
                if event.get("type") != "Warning" or event.get("reason") in _TOLD_BY_STATUS:
                    continue
                if regarding.get("uid") in uids:
                    self._say(f"{regarding.get('name')}: {event.get('reason')}: {event.get('note')}")

    # ------------------------------------------------------------------ lines

    def _stream(self, tasks: TaskScope, pod: Document, container: str, run: int) -> None:
        key = (uid_of(pod), container, run)
        if key not in self._copies and (self._takes is None or self._takes(pod)):
            last = self._last_lines[key] = deque(maxlen=_LAST_LINES)
            self._copies[key] = tasks.start(f"log/{key[0]}", self._copy(pod, container, run, last))

    async def _copy(self, pod: Document, container: str, run: int, last: deque[str]) -> None:
        """Show the whole log of a run once; where reading it breaks, go on with the next line."""
        shown, prefix = 0, prefix_of(pod, container)
        folding = Folding(f"trainwright local logs {self._name} --unfolded")

        def show(lines: list[str]) -> None:
            for one in lines:
                self._lines.print(f"{prefix} {one}")

        while True:
            number = 0
            try:
                async with aclosing(lines_of(self._client, pod, container, run, follow="true")) as lines:
                    async for line, is_whole in lines:
                        if not is_whole:
                            self._lines.show(f"{prefix} {line}")
                            continue
                        number += 1
                        if number > shown:
                            shown = number
                            last.append(line)
                            show([line] if self._unfolded else folding.take(line))
            except NotFound:
                show(folding.end())
                return
            except KubernetesError:
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                show(folding.end())
                return


QUIET = timedelta(minutes=1)
"""A report with the percentage of the last line is told when that line is so old."""


class ReportLines:
    def __init__(self, now: Callable[[], datetime] = wall_clock) -> None:
        self._now = now
        self._history = History()
        self._reported: tuple[int | None, bool] | None = None
        self._told_at: datetime | None = None

    def line(self, document: Document) -> str:
        """What is new in the job: percentage, time to go, step and loss. Empty: nothing that is worth a line."""
        if not dig(document, "status.trainerStatus"):
            return ""
        job = msgspec.convert(document, TrainJob)
        if not observe(job, self._history):
            return ""
        now = self._now()
        view = view_of(job, self._history, now)
        reported = (view.percentage, view.at_end)
        if self._told_at is not None and reported == self._reported and now - self._told_at < QUIET:
            return ""
        self._reported, self._told_at = reported, now
        is_told = view.remaining is not None and not view.remaining.late
        left = f"{text.remaining(view)} to go" if is_told else ""
        loss = f"{text.printable(view.loss)} {text.loss(view)}" if view.loss is not None else ""
        percent = text.AT_END if view.at_end else text.percent(view) if view.percentage is not None else ""
        return ", ".join(part for part in (percent, left, text.steps(view), loss) if part)
