# SPDX-License-Identifier: Apache-2.0
"""Ends a job of `trainwright local run` so that it stays as it is, and says whose lines go when they take too much.

A job that failed or was interrupted gets the condition `Failed`, which is written once and for all: nothing is built
for such a job any more. Then its JobSet is suspended, which deletes the pods that run, with their grace, and leaves
those that have failed. Neither the controllers nor the next start of the cluster run it again.

A job is kept with its objects, its record of failures, its curves and the lines of its pods, until a user deletes it.
Where the lines of all jobs that have ended take more than MOST_BYTES, those of the oldest ones go, a day after `run`
has said so.
"""

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim
from trainwright.api.messages import shortened
from trainwright.api.objects import Document, annotations_of, dig, name_of, namespace_of, owners_of, uid_of
from trainwright.api.times import format_time, moment, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED
from trainwright.controller.cli.local.pods import has_ended, outstaying, still_running
from trainwright.controller.local.node.folders import ended_pods
from trainwright.controller.runtime import Client, Conflict, KubernetesError, NotFound
from trainwright.controller.trainer.failures.record import entries_of, name_of_record
from trainwright.controller.trainer.job.status import OBSTACLES
from trainwright.controller.views import text
from trainwright.controller.views.ended import end_of

REASON_FAILED = "ContainerFailed"
RECORD_SECONDS = 2.0
"""How long to wait for the record of the failure, which is taken from the pods."""
OVER_SECONDS = 20.0
"""How long to wait for the phase of a pod whose program has ended: what it started is killed before."""
GRACE_SECONDS = 40.0
_LOOK_SECONDS = 0.05
MOST_BYTES = 2 << 30
"""Of the lines of all jobs that have ended; those of the latest stay whatever they take."""
NOTICE = timedelta(days=1)
"""From the moment when a user is told that lines will go to the moment when they may."""
ANNOTATION_LINES_UNTIL = "local.trainwright.dev/lines-until"
"""Of a job whose lines take too much: how long they stay at least; RFC 3339."""


async def end(client: Client, namespace: str, name: str, reason: str, message: str) -> bool:
    """End a job, unless it has ended, and wait until none of its pods runs; returns whether that is so."""
    try:
        if await say_failed(client, namespace, name, reason, message):
            if reason == REASON_FAILED:
                await _recorded(client, namespace, name)
                # Until its phase says that it has ended, a pod would go with those that run.
                await outstaying(client, namespace, name, OVER_SECONDS, _is_ending)
            await client.patch(JobSet.RESOURCE, name, namespace, {"spec": {"suspend": True}})
    except NotFound:
        pass  # it was deleted, or had no JobSet yet
    return not await still_running(client, namespace, name, GRACE_SECONDS)


async def say_failed(client: Client, namespace: str, name: str, reason: str, message: str) -> bool:
    """Give the job the condition `Failed`, or that condition of ours the message; False if it has another end.

    Raises NotFound.
    """
    while True:
        job = await client.get(TrainJob.RESOURCE, name, namespace)
        conditions = dig(job, "status.conditions") or []
        ends = [one for one in conditions if one["type"] in ("Complete", CONDITION_FAILED) and one["status"] == "True"]
        if any(one.get("reason") != reason for one in ends):
            return False
        condition = {
            "type": CONDITION_FAILED,
            "status": "True",
            "reason": reason,
            "message": shortened(message),
            "lastTransitionTime": ends[0]["lastTransitionTime"] if ends else format_time(wall_clock()),
        }
        # Nothing that it waited for counts any more.
        others = [one for one in conditions if one["type"] not in (CONDITION_FAILED, *OBSTACLES)]
        patch = {
            "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
            "status": {"conditions": [*others, condition]},
        }
        try:
            await client.patch(TrainJob.RESOURCE, name, namespace, patch, subresource="status")
        except Conflict:
            continue  # progress was written meanwhile
        return True


async def _recorded(client: Client, namespace: str, name: str) -> None:
    """Wait for the record of the failure: it is taken from pods that are about to go."""
    with suppress(TimeoutError, KubernetesError):
        async with asyncio.timeout(RECORD_SECONDS):
            while True:
                with suppress(NotFound):
                    record = await client.get(ConfigMap.RESOURCE, name_of_record(name), namespace)
                    if entries_of(record.get("data")):
                        return
                await asyncio.sleep(_LOOK_SECONDS)


def _is_ending(pod: Document) -> bool:
    """Whether all containers have ended, and the phase does not say so yet."""
    states = [one.get("state") or {} for one in dig(pod, "status.containerStatuses") or ()]
    return not has_ended(pod) and bool(states) and all("terminated" in one for one in states)


@dataclass(frozen=True, slots=True)
class EndedJob:
    job: Document
    ended: str
    """When; RFC 3339."""
    how: str
    """Complete or Failed."""


def ended_jobs(jobs: Iterable[Document]) -> list[EndedJob]:
    """Those that have ended, the latest end first."""
    found = [
        EndedJob(job, end.get("lastTransitionTime") or "", end["type"])
        for job in jobs
        if (end := end_of(job)) is not None
    ]
    return sorted(found, key=lambda one: (one.ended, name_of(one.job)), reverse=True)


async def drop_lines(client: Client, logs: Path, now: datetime) -> list[str]:
    """Make room on the disk; returns what a user is told of it. Raises KubernetesError.

    The lines of the oldest jobs beyond the bound are deleted if that was said a day ago, else it is said now.
    """
    ended = ended_jobs((await client.list(TrainJob.RESOURCE)).items)
    taken = await asyncio.to_thread(bytes_of, logs, [one.job for one in ended])
    old = [one.job for one in beyond(ended, taken) if taken[uid_of(one.job)]]
    told: list[str] = []
    for job in [one.job for one in ended if one.job not in old and lines_until(one.job) is not None]:
        if taken[uid_of(job)]:  # there is room again: withdraw the announcement
            await _announce(client, job, None)
    due = [job for job in old if (until := lines_until(job)) is not None and until <= now]
    for job in due:
        await asyncio.to_thread(_remove_lines, logs, uid_of(job))
        told.append(f"the lines of TrainJob {name_of(job)} are deleted; its curves, parameters and record stay")
    announced = [job for job in old if lines_until(job) is None]
    end = format_time(now + NOTICE)
    for job in announced:
        await _announce(client, job, end)
    if announced:
        names = ", ".join(map(name_of, announced))
        told.append(
            f"warning: the lines of jobs that have ended take {size(sum(taken.values()))}, "
            f"more than {size(MOST_BYTES)}; "
            f"from {end} on, those of {names} will be deleted. To keep some: trainwright local logs JOB > FILE"
        )
    return told


async def _announce(client: Client, job: Document, until: str | None) -> None:
    marks = {"metadata": {"annotations": {ANNOTATION_LINES_UNTIL: until}}}
    with suppress(NotFound):
        await client.patch(TrainJob.RESOURCE, name_of(job), namespace_of(job), marks)


def lines_until(job: Document) -> datetime | None:
    """How long the lines of a job stay at least; None: there is no such limit."""
    return moment(annotations_of(job).get(ANNOTATION_LINES_UNTIL))


def _remove_lines(logs: Path, uid: str) -> None:
    """Remove the lines of a job, and leave what is known of its pods. Blocks."""
    for pod in ended_pods(logs, uid):
        for file in pod.folder.glob("*/*.log*"):
            file.unlink(missing_ok=True)


async def claims_of(client: Client, job: Document) -> list[str]:
    """The names of the claims that are deleted with a job, and their files with them. Raises KubernetesError."""
    listed = await client.list(
        PersistentVolumeClaim.RESOURCE, namespace_of(job), label_selector=f"{LABEL_JOBSET}={name_of(job)}"
    )
    return sorted(name_of(claim) for claim in listed.items if owners_of(claim))


def beyond(ended: Sequence[EndedJob], taken: Mapping[str, int]) -> list[EndedJob]:
    """The jobs whose lines do not fit, of jobs with the latest first."""
    sums = itertools.accumulate(taken[uid_of(one.job)] for one in ended)
    return [one for place, (one, total) in enumerate(zip(ended, sums, strict=True)) if place and total > MOST_BYTES]


def bytes_of(logs: Path, jobs: Sequence[Document]) -> dict[str, int]:
    """What the lines of jobs take, by uid. Blocks."""
    taken = dict.fromkeys(map(uid_of, jobs), 0)
    for pod in ended_pods(logs):
        if pod.top.uid in taken:
            taken[pod.top.uid] += pod.size
    return taken


def table(jobs: Sequence[EndedJob], taken: Mapping[str, int], now: datetime) -> list[str]:
    rows = [["NAME", "STATE", "ENDED", "LINES"]]
    for one in jobs:
        ago = text.duration(max(0.0, (now - parse(one.ended)).total_seconds())) if one.ended else text.NONE
        rows.append([text.printable(name_of(one.job)), one.how, f"{ago} ago", size(taken[uid_of(one.job)])])
    return text.aligned(rows)


def size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
