# SPDX-License-Identifier: Apache-2.0
"""The jobs that `trainwright local run` keeps when they have ended: how many, what they take, and how they go.

A job is kept with its objects, its record of failures and the lines of its pods. The last ones are kept; an earlier one
is deleted when a further one has ended. What a job wrote elsewhere, such as its models, is never deleted with it. The
claims of its JobSet are, and may hold a model, so only users delete such a job.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import PersistentVolumeClaim
from trainwright.api.objects import Document, name_of, namespace_of, owners_of, uid_of
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.ended import end_of
from trainwright.controller.cli.progress import text
from trainwright.controller.local.node.pod.ended import ended_pods
from trainwright.controller.runtime import Client, NotFound

MOST = 20
MOST_BYTES = 1 << 30
"""Of the lines of all jobs that are kept; the latest stays whatever it takes."""
LABEL = "local.trainwright.dev/run"
"""Of the jobs that `run` made: those of others are never deleted by a bound."""


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
