# SPDX-License-Identifier: Apache-2.0
"""One look at the progress of a job: find the pod, read the file or the termination message, pass the report on."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from trainwright.api.times import Now, parse
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.progress.coalescer import Arrivals, Source
from trainwright.controller.trainer.progress.document import Interpreted, interpret
from trainwright.controller.trainer.progress.reading import Place, Reading, Result, read_file
from trainwright.controller.trainer.progress.refusals import Refused
from trainwright.controller.trainer.progress.reports import Report
from trainwright.controller.trainer.progress.targets import Target, find_pod
from trainwright.controller.trainer.progress.watched import TIMEOUTS, Watched

log = logging.getLogger(__name__)

PUSH_INTERVALS = 2
"""A job is not read while a report that was pushed is younger than so many intervals."""


INLINE_BYTES = 4096
"""Longer texts are read in a thread."""


class Sink(Protocol):
    """Takes the reports; the coalescer."""

    async def accept(self, job: TrainJob, report: Report, *, source: Source, pod: str = "") -> None:
        """Take a report. Raises Refused."""
        ...

    def arrivals(self, uid: str) -> Arrivals | None:
        """When the job reported to this process."""
        ...


class ToldOfProgress(Protocol):
    """Tells users of a job."""

    def progress_unreadable(self, job: TrainJob, note: str) -> None:
        """The file cannot be used."""
        ...

    def training_failed(self, job: TrainJob, note: str) -> None:
        """The training says that it has failed."""
        ...


class NodeFull(Exception):  # noqa: N818 - not an error
    """The node of the pod has no place free; look again when it has."""


class Looker:
    """Looks at jobs. What is remembered between two looks is in `Watched`."""

    def __init__(self, client: Client, sink: Sink, told: ToldOfProgress, *, now: Now) -> None:
        self._client = client
        self._sink = sink
        self._told = told
        self._now = now

    async def at_file(self, watched: Watched, interval: float, may_use: Callable[[str], bool]) -> Result | None:
        """Read the file of a job once. None: a report was pushed a moment ago, and nothing was read.

        Args:
            watched: the job, with its target.
            interval: seconds between two reads.
            may_use: whether a node has a place free; takes it.

        Raises:
            NodeFull: it has not.
            KubernetesError: the pod could not be looked for.
        """
        target = watched.current
        if target is None:
            return Result.NOT_READY
        if self._was_pushed(watched, interval):
            return None
        if watched.pod is None or not watched.pod.running:
            watched.pod = await find_pod(self._client, watched.job, target)
        pod = watched.pod
        if pod is not None and not pod.has_container:
            detail = f"pod {pod.name} has no container {target.container}"
            self._say(watched, target, Reading(Result.UNREADABLE, detail=detail))
            return Result.UNREADABLE
        if pod is None or not pod.running:
            return Result.NOT_READY
        if not may_use(pod.node):
            raise NodeFull
        place = Place(watched.job.namespace, pod.name, target.container)
        reading = await read_file(self._client, place, target.declaration.file, watched.reader)
        watched.reader = reading.reader
        if reading.result is Result.GONE:
            watched.pod = None
        elif reading.result is Result.FORBIDDEN:
            watched.refusal = reading.detail
        if reading.result is not Result.OK:
            self._say(watched, target, reading)
            return reading.result
        found = await self._read(watched, reading.data, interval)
        if found.report is None:
            self._say(watched, target, Reading(found.result, detail=found.detail))
        elif not watched.passed_on:
            await self._pass_on(watched, *_merged(watched, target, found.report, found.failure), Source.FILE)
        return found.result

    async def at_end(self, watched: Watched, interval: float) -> bool:
        """Take the last report of a job that has ended. Returns whether there was one. Raises KubernetesError."""
        assert watched.target is not None
        pod = await find_pod(self._client, watched.job, watched.target)
        if pod is None or not pod.message:
            return False
        watched.pod, watched.last = pod, None
        found = await self._read(watched, pod.message.encode(), interval)
        if found.report is not None:
            await self._pass_on(watched, found.report, found.failure, Source.FINAL)
        return found.report is not None

    async def _read(self, watched: Watched, data: bytes, interval: float) -> Interpreted:
        """Interpret a text. One without a time has that of the first look at it."""
        now = self._now()
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if watched.last is None or watched.last[0] != digest:
            watched.last, watched.passed_on = (digest, now), False
        read = partial(interpret, watched.key, data, seen=watched.last[1], now=now, interval=interval)
        # Many lines of nonsense take a third of a second; a usual document less than the way to another thread.
        return read() if len(data) <= INLINE_BYTES else await asyncio.to_thread(read)

    async def _pass_on(self, watched: Watched, report: Report, failure: str | None, source: Source) -> None:
        watched.own.append(report.status.last_updated_time or "")
        try:
            await self._sink.accept(
                watched.job, report, source=source, pod=watched.pod.name if watched.pod is not None else ""
            )
        except Refused as error:
            log.info("%s: a report was refused: %s", watched.key, error)
            return
        watched.passed_on = True
        if failure is not None and watched.first_of("failed"):
            said = f": {failure}" if failure else ""
            self._told.training_failed(watched.job, f"the training reports that it has failed{said}")

    def _was_pushed(self, watched: Watched, interval: float) -> bool:
        """Whether a report came by another way a moment ago, to this process or to another replica."""
        young = PUSH_INTERVALS * interval
        arrivals = self._sink.arrivals(watched.uid)
        last = arrivals.last_push if arrivals is not None else None
        if last is not None and asyncio.get_running_loop().time() - last < young:
            return True
        status = watched.job.status
        stored = status.trainer_status if status is not None else None
        if stored is None or stored.last_updated_time is None:
            return False
        if not watched.own:
            # The first look of this leader: the leader before may have stored it.
            watched.own.append(stored.last_updated_time)
        if stored.last_updated_time in watched.own:
            return False
        return timedelta(0) <= self._now() - parse(stored.last_updated_time) < timedelta(seconds=young)

    def _say(self, watched: Watched, target: Target, reading: Reading) -> None:
        """Tell users of what they can change, once for each pod."""
        path = target.declaration.file
        if target.is_initializer:
            log.debug("%s: %s: %s: %s", watched.key, target.container, reading.result, reading.detail)
            return  # Kubeflow Trainer's, for one, writes none
        match reading.result:
            case Result.CORRUPT | Result.TOO_LARGE | Result.UNREADABLE:
                note = f"the progress file {path} cannot be used: {reading.detail}"
            case Result.NO_READER:
                note = f"the progress file {path} cannot be read: {reading.detail}; add one of them to it"
            case Result.TIMEOUT if watched.timeouts + 1 >= TIMEOUTS:
                note = f"reading the progress file {path} does not end, so it is no longer read in this pod"
            case Result.MISSING if watched.is_overdue(asyncio.get_running_loop().time()):
                note = f"there is still no progress file {path} in container {target.container}"
            case _:
                log.debug("%s: %s: %s", watched.key, reading.result, reading.detail)
                return
        if watched.first_of(reading.result):
            self._told.progress_unreadable(watched.job, note)


def _merged(watched: Watched, target: Target, report: Report, failure: str | None) -> tuple[Report, str | None]:
    """The report of an initializer with what the others told, since a report replaces the one before.

    It has no percentage, which is the training's, and no failure of the training: its Job starts it again.
    """
    if not target.is_initializer:
        return report, failure
    watched.loaded[target.pod.job] = report.status.metrics or []
    metrics = [metric for job in sorted(watched.loaded) for metric in watched.loaded[job]]
    status = TrainerStatus(metrics=metrics or None, last_updated_time=report.status.last_updated_time)
    return replace(report, status=status), None
