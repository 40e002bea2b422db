# SPDX-License-Identifier: Apache-2.0
"""Ends a job of `trainwright local run` so that it stays as it is, and says how many jobs stay, and how they go.

A job that failed or was interrupted gets the condition `Failed`, which is written once and for all: nothing is built
for such a job any more. Then its JobSet is suspended, which deletes the pods that run, with their grace, and leaves
those that have failed. Neither the controllers nor the next start of the cluster run it again.

A job is kept with its objects, its record of failures and the lines of its pods. The last ones are kept; an earlier one
is deleted when a further one has ended. What a job wrote elsewhere, such as its models, is never deleted with it. The
claims of its JobSet are, and may hold a model, so only users delete such a job.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Pod
from trainwright.api.messages import shortened
from trainwright.api.objects import Document, dig, name_of, namespace_of, owners_of, uid_of
from trainwright.api.times import format_time, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED
from trainwright.controller.cli.ended import end_of
from trainwright.controller.cli.local.jobs import has_ended
from trainwright.controller.cli.progress import text
from trainwright.controller.local.node.pod.ended import ended_pods
from trainwright.controller.runtime import Client, Conflict, KubernetesError, NotFound
from trainwright.controller.trainer.failures.record import entries_of, name_of_record
from trainwright.controller.trainer.job.status import OBSTACLES

REASON_FAILED = "ContainerFailed"
RECORD_SECONDS = 2.0
"""How long to wait for the record of the failure, which is taken from the pods."""
GRACE_SECONDS = 40.0
_LOOK_SECONDS = 0.05
MOST = 20
"""Jobs of `run` that are kept when they have ended."""
MOST_BYTES = 1 << 30
"""Of the lines of all jobs that are kept; the latest stays whatever it takes."""
LABEL = "local.trainwright.dev/run"
"""Of the jobs that `run` made: those of others are never deleted by a bound."""


async def end(client: Client, namespace: str, name: str, reason: str, message: str) -> bool:
    """End a job, unless it has ended, and wait until none of its pods runs; returns whether that is so."""
    try:
        if await say_failed(client, namespace, name, reason, message):
            if reason == REASON_FAILED:
                await _recorded(client, namespace, name)
            await client.patch(JobSet.RESOURCE, name, namespace, {"spec": {"suspend": True}})
    except NotFound:
        pass  # it was deleted, or had no JobSet yet
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            return await stopped(client, namespace, name)
    return False


async def stopped(client: Client, namespace: str, name: str) -> bool:
    """Wait until no pod of the job runs. Returns True."""
    while True:
        pods = await client.list(Pod.RESOURCE, namespace, label_selector=f"{LABEL_JOBSET}={name}")
        if all(map(has_ended, pods.items)):
            return True
        await asyncio.sleep(_LOOK_SECONDS)


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


def mark(job: Document) -> None:
    """Make it a job of `run`."""
    job["metadata"].setdefault("labels", {})[LABEL] = "true"


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


async def drop_old(client: Client, logs: Path) -> list[str]:
    """Delete the jobs of `run` beyond the last ones that have ended; returns their names. Raises KubernetesError."""
    listed = await client.list(TrainJob.RESOURCE, label_selector=LABEL)
    ended = ended_jobs(listed.items)
    taken = await asyncio.to_thread(bytes_of, logs, [one.job for one in ended])
    old = beyond([taken[uid_of(one.job)] for one in ended])
    return [
        name_of(one.job)
        for one in ended[old:]
        if not await claims_of(client, one.job) and await delete(client, one.job)
    ]


async def claims_of(client: Client, job: Document) -> list[str]:
    """The names of the claims that are deleted with a job, and their files with them. Raises KubernetesError."""
    listed = await client.list(
        PersistentVolumeClaim.RESOURCE, namespace_of(job), label_selector=f"{LABEL_JOBSET}={name_of(job)}"
    )
    return sorted(name_of(claim) for claim in listed.items if owners_of(claim))


def beyond(sizes: Sequence[int]) -> int:
    """How many are kept of those that take so many bytes, the latest first."""
    kept, total = 0, 0
    for size in sizes[:MOST]:
        total += size
        if kept and total > MOST_BYTES:
            break
        kept += 1
    return kept


async def delete(client: Client, job: Document) -> bool:
    """Delete this very job; returns whether it was there. What it made goes with it, in the background."""
    try:
        await client.delete(
            TrainJob.RESOURCE, name_of(job), namespace_of(job), uid=uid_of(job), propagation="Background"
        )
    except NotFound:
        return False
    return True


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
