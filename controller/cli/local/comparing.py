# SPDX-License-Identifier: Apache-2.0
"""Jobs of a local cluster beside each other, for `trainwright local compare`."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, uid_of
from trainwright.api.times import wall_clock
from trainwright.controller.cli.comparing.comparison import ComparedRun, JobComparison, compare
from trainwright.controller.cli.comparing.tables import as_csv, as_text
from trainwright.controller.cli.dashboard.reports import FILE, KeptReport, KeptReports
from trainwright.controller.cli.local.managing import LocalJobs
from trainwright.controller.runtime import NotFound


async def compared(jobs: LocalJobs, names: Sequence[str], folder: Path) -> JobComparison:
    """The jobs with their whole runs. Raises RefusedError if one does not exist, KubernetesError."""
    found = [await jobs.get(name) for name in dict.fromkeys(names)]
    runs = await _reports(folder / FILE, [uid_of(job) for job in found])
    made = [
        ComparedRun(job=job, reports=reports, jobset=await _jobset(jobs, job))
        for job, reports in zip(found, runs, strict=True)
    ]
    return compare(made, wall_clock())


def show(comparison: JobComparison, form: str) -> None:
    """Print a comparison as `text`, `json` or `csv`."""
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(comparison), indent=2).decode())
    elif form == "csv":
        sys.stdout.write(as_csv(comparison))
    else:
        print(*as_text(comparison), sep="\n")


async def _reports(file: Path, uids: Sequence[str]) -> list[list[KeptReport]]:
    """The runs of jobs; empty ones where the cluster has kept none."""
    if not await asyncio.to_thread(file.is_file):
        return [[] for _ in uids]
    reports = await asyncio.to_thread(KeptReports, file)
    try:
        return [await reports.read(uid) for uid in uids]
    finally:
        reports.close()


async def _jobset(jobs: LocalJobs, job: Document) -> Document | None:
    try:
        return await jobs.client.get(JobSet.RESOURCE, job["metadata"]["name"], jobs.namespace)
    except NotFound:
        return None
