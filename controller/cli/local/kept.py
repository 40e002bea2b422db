# SPDX-License-Identifier: Apache-2.0
"""The jobs that `trainwright local run` keeps when they have ended: how many, what they take, and how they go.

A job is kept with its objects, its record of failures and the lines of its pods. The last ones are kept; an earlier one
is deleted when a further one has ended. What a job wrote elsewhere, such as its models, is never deleted with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.objects import Document, labels_of, name_of, namespace_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.node.ended import ended_pods
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import NotFound

MOST = 20
LABEL = "local.trainwright.dev/run"
"""Of the jobs that `run` made: those of others are never deleted by a bound."""


def mark(job: Document) -> None:
    """Make it a job of `run`."""
    job["metadata"].setdefault("labels", {})[LABEL] = "true"


@dataclass(frozen=True, slots=True)
class Kept:
    """A job that has ended."""

    job: Document
    ended: str
    """When; RFC 3339."""
    how: str
    """Complete or Failed."""


def ended_jobs(jobs: Iterable[Document]) -> list[Kept]:
    """Those that have ended, the latest end first."""
    found = []
    for job in jobs:
        for one in (job.get("status") or {}).get("conditions") or ():
            if one["type"] in ("Complete", "Failed") and one["status"] == "True":
                found.append(Kept(job, one.get("lastTransitionTime") or "", one["type"]))
                break
    return sorted(found, key=lambda one: (one.ended, name_of(one.job)), reverse=True)


async def drop_old(client: Client) -> None:
    """Delete the jobs of `run` beyond the last ones that have ended. Raises KubernetesError."""
    listed = await client.list(TrainJob.RESOURCE, label_selector=LABEL)
    for one in ended_jobs(listed.items)[MOST:]:
        await delete(client, one.job)


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


def is_of_run(job: Document) -> bool:
    """Whether `run` made it."""
    return LABEL in labels_of(job)
