# SPDX-License-Identifier: Apache-2.0
"""The lines of a job's ranks: of its pods, also of those that are gone, else those that the record of failures kept."""

import asyncio
import sys
from dataclasses import dataclass
from typing import TextIO

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document, name_of
from trainwright.controller.cli.local.jobs import Follower, failed_runs, rank_of, runs_with_logs
from trainwright.controller.cli.local.managing import LocalJobs, RefusedError
from trainwright.controller.cli.local.outputs import JobOutput
from trainwright.controller.cli.reading import if_there
from trainwright.controller.runtime import ApiError, Request
from trainwright.controller.trainer.failures.record import Entry, entries_of, name_of_record
from trainwright.controller.trainer.job.pods import attempt_of, container_statuses

START_SECONDS = 3600.0
"""How long `logs --follow` waits for the first container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLines:
    ranks: frozenset[str] = frozenset()
    """Such as `node-0`, or `0` for a rank of any step; empty: all."""
    since_seconds: int | None = None
    tail: int | None = None
    """So many of each container."""
    attempt: int | None = None
    """From 1 on; None: the latest."""

    def takes(self, pod: Document) -> bool:
        rank = rank_of(pod)
        return not self.ranks or rank in self.ranks or rank.rpartition("-")[2] in self.ranks


async def follow(jobs: LocalJobs, name: str, wanted: WantedLines) -> int:
    """Show the lines as they come until the job ends; returns the exit code of the job. Raises RefusedError."""
    job = await jobs.get(name)
    follower = Follower(jobs.transport, jobs.namespace, name, stop_at_failure=False, takes=wanted.takes)
    ended = await follower.follow(start_seconds=START_SECONDS)
    print(ended.message, file=sys.stderr)
    JobOutput.of(job).tell(sys.stderr)
    return ended.code


async def show(jobs: LocalJobs, name: str, wanted: WantedLines, out: TextIO | None = None) -> int:
    """Show the lines there are; returns the exit code. Raises RefusedError where there is nothing to show."""
    there: TextIO = sys.stdout if out is None else out
    pods = await jobs.all_pods(await jobs.get(name))
    present = max((attempt_of(pod) + 1 for pod in pods), default=0)
    attempt = wanted.attempt or present
    shown = [pod for pod in pods if attempt_of(pod) + 1 == attempt and wanted.takes(pod)]
    if shown:
        logs = await asyncio.gather(*(_log(jobs, pod, container, wanted) for pod in shown for container in _names(pod)))
        for lines in logs:
            print(*lines, sep="\n", end="\n" if lines else "", file=there)
        return 0
    if pods and attempt == present:
        known = ", ".join(rank_of(pod) for pod in pods)
        raise RefusedError(f"TrainJob {name} has no rank {', '.join(sorted(wanted.ranks))}: it has {known}")
    _show_recorded(await _entries(jobs, name), name, wanted, there)
    return 0


async def _log(jobs: LocalJobs, pod: Document, container: str, wanted: WantedLines) -> list[str]:
    runs = {run for name, run in (*failed_runs(pod), *runs_with_logs(pod)) if name == container}
    # By the number of the run: without it, the server may answer with the log of the next run.
    logs = [await _log_of_run(jobs, pod, container, run, wanted) for run in sorted(runs)]
    several = len(_names(pod)) > 1
    prefix = f"[{rank_of(pod)}{f'/{container}' if several else ''}]"
    found = [f"{prefix} {line}" for log in logs for line in log.decode(errors="replace").splitlines()]
    return found if wanted.tail is None else found[max(0, len(found) - wanted.tail) :]


async def _log_of_run(jobs: LocalJobs, pod: Document, container: str, run: int, wanted: WantedLines) -> bytes:
    query = {"container": container, "run": str(run)}
    if wanted.tail is not None:
        query["tailLines"] = str(wanted.tail)
    if wanted.since_seconds is not None:
        query["sinceSeconds"] = str(wanted.since_seconds)
    path = f"/api/v1/namespaces/{jobs.namespace}/pods/{name_of(pod)}/log"
    try:
        return (await jobs.client.send(Request("GET", path, query, timeout=None))).body
    except ApiError:
        return b""  # a container that has not started


def _names(pod: Document) -> list[str]:
    return [status["name"] for status in container_statuses(pod)]


async def _entries(jobs: LocalJobs, name: str) -> dict[int, Entry]:
    """What the record of failures holds, by attempt from 1 on."""
    record = await if_there(jobs.client.get(ConfigMap.RESOURCE, name_of_record(name), jobs.namespace)) or {}
    return {attempt + 1: entry for attempt, entry in entries_of(record.get("data")).items()}


def _show_recorded(entries: dict[int, Entry], name: str, wanted: WantedLines, out: TextIO) -> None:
    """Show the last lines of the container that failed first. Raises RefusedError if none were kept."""
    attempt = wanted.attempt or max(entries, default=0)
    entry = entries.get(attempt)
    if entry is None or not entry.log:
        which = f" of attempt {wanted.attempt}" if wanted.attempt else ""
        others = f"; the record of failures has attempt {', '.join(map(str, entries))}" if entries else ""
        raise RefusedError(
            f"there are no lines{which} of TrainJob {name}: neither pods nor a record of its failure{others}"
        )
    step = entry.replicated_job or "pod"
    print(
        f"the pods of attempt {attempt} are gone; the last lines of {step}-{entry.rank}, which failed first:",
        file=sys.stderr,
    )
    lines = entry.log.splitlines()
    for line in lines if wanted.tail is None else lines[len(lines) - wanted.tail :]:
        print(f"[{step}-{entry.rank}] {line}", file=out)
