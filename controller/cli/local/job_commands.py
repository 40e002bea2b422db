# SPDX-License-Identifier: Apache-2.0
"""`trainwright local jobs | show | compare | logs | stop | resume | delete | clean | wait`."""

import argparse
import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.errors import UserError
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, uid_of
from trainwright.api.times import wall_clock
from trainwright.controller.cli import state
from trainwright.controller.cli.commands import Run, WrongUseError
from trainwright.controller.cli.comparing import comparison
from trainwright.controller.cli.comparing.comparison import ComparedRun, JobComparison
from trainwright.controller.cli.comparing.tables import as_csv, as_text
from trainwright.controller.cli.local import kept, lines, managing
from trainwright.controller.cli.local.managing import LocalJobs
from trainwright.controller.cli.local.options import options_of
from trainwright.controller.cli.progress.reports import FILE, KeptReport, KeptReports
from trainwright.controller.cli.reading import if_there
from trainwright.controller.runtime import TransportError

_JobsCommand = Callable[[LocalJobs, argparse.Namespace], Coroutine[Any, Any, int]]


def _with_jobs(command: _JobsCommand) -> Run:
    @functools.wraps(command)
    def run(arguments: argparse.Namespace) -> int:
        options = options_of(arguments)
        if state.running(options.folder) is None:
            raise UserError(f"cluster {options.name} does not run; start it with: {options.command('up')}")

        async def connected() -> int:
            everywhere = vars(arguments).get("all_namespaces", False)
            async with managing.jobs_of(options.folder, "" if everywhere else arguments.namespace) as jobs:
                await _find(jobs, arguments)
                return await command(jobs, arguments)

        try:
            return asyncio.run(connected())
        except TransportError as error:
            if not (why := options.why_lost()):
                raise
            raise UserError(why) from error

    return run


async def _find(jobs: LocalJobs, arguments: argparse.Namespace) -> None:
    """Replace `latest` and names of scripts by those of jobs. Raises RefusedError where that is not clear."""
    given: dict[str, Any] = vars(arguments)
    if (name := given.get("job")) is not None:
        arguments.job = await managing.meant(jobs, name)
        found = {name: arguments.job}
    else:
        found = {name: await managing.meant(jobs, name, only=True) for name in given.get("jobs", ())}
        arguments.jobs = [*dict.fromkeys(found.values())]
    for name, meant in found.items():
        if name != meant:
            print(f"{name} is TrainJob {meant}", file=sys.stderr)


@_with_jobs
async def jobs(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    found = await jobs.all()
    if arguments.output != "text":
        managing.show_objects(found, arguments.output)
    elif found:
        ended = await jobs.ended(found)
        print(*managing.table(found, wall_clock(), namespaces=arguments.all_namespaces, ended=ended), sep="\n")
    else:
        where = "" if arguments.all_namespaces else f" in namespace {arguments.namespace}"
        print(f"no jobs{where}; run one with: {options_of(arguments).command('run')} SCRIPT", file=sys.stderr)
    return 0


@_with_jobs
async def show(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    # Imported here: the other commands explain nothing.
    from trainwright.controller.cli.explain import explaining_plugins, lines_of  # noqa: PLC0415
    from trainwright.controller.trainer.why import Reader  # noqa: PLC0415

    job = await jobs.get(arguments.job)
    if arguments.output != "text":
        managing.show_objects(job, arguments.output)
        return 0
    explanation = await Reader(jobs.client, explaining_plugins()).explain(jobs.namespace, arguments.job)
    pods = managing.latest_attempt(await jobs.all_pods(job))
    print(*managing.details(job, pods, wall_clock()), sep="\n")
    print("", *lines_of(explanation), sep="\n")
    return 0


@_with_jobs
async def compare(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    if len(set(arguments.jobs)) < 2:
        raise WrongUseError("name two jobs or more to compare")
    found = await _compared(jobs, arguments.jobs, options_of(arguments).folder)
    if arguments.output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif arguments.output == "csv":
        sys.stdout.write(as_csv(found))
    else:
        print(*as_text(found), sep="\n")
    return 0


@_with_jobs
async def logs(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    wanted = lines.WantedLines(
        ranks=frozenset(arguments.rank), since_seconds=arguments.since, tail=arguments.tail, attempt=arguments.attempt
    )
    if not arguments.follow:
        return await lines.show(jobs, arguments.job, wanted)
    if wanted.attempt or wanted.tail or wanted.since_seconds:
        raise WrongUseError("--follow shows all lines from now to the end: leave out --attempt, --tail and --since")
    return await lines.follow(jobs, arguments.job, wanted)


@_with_jobs
async def stop(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    code = await _each(arguments.jobs, jobs.stop)
    if code == 0:
        command = options_of(arguments).command_on("resume", " ".join(arguments.jobs), arguments.namespace)
        print(f"resume with: {command}")
    return code


@_with_jobs
async def resume(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    return await _each(arguments.jobs, jobs.resume)


@_with_jobs
async def delete(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    if bool(arguments.jobs) == arguments.everything:
        raise WrongUseError("name the jobs to delete, or use --all")
    names = arguments.jobs or [job["metadata"]["name"] for job in await jobs.all()]
    if not names:
        print(f"no jobs in namespace {arguments.namespace}")
    return await _each(names, jobs.delete)


@_with_jobs
async def clean(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    ended = kept.ended_jobs(await jobs.all())[arguments.keep :]
    if not ended:
        print("no jobs to delete: none has ended" + (f" but the last {arguments.keep}" if arguments.keep else ""))
        return 0
    folder = options_of(arguments).folder
    taken = await asyncio.to_thread(kept.bytes_of, folder / "logs", [one.job for one in ended])
    number = f"{len(ended)} job{'s' if len(ended) > 1 else ''}"
    print(*kept.table(ended, taken, wall_clock()), sep="\n")
    what = "with all objects that they made, their records of failures and their lines"
    claims = [claim for one in ended for claim in await kept.claims_of(jobs.client, one.job)]
    if claims:
        print(f"\nvolumes that are deleted with them, and what jobs wrote into these: {', '.join(claims)}")
    if not arguments.yes:
        print(f"\n--yes deletes {number} {what} ({kept.size(sum(taken.values()))}).")
        print("Nothing is deleted yet. What jobs wrote into outputs and other folders stays.")
        return 0
    deleted = [await kept.delete(jobs.client, one.job) for one in ended]
    print(f"\n{sum(deleted)} of {number} deleted {what}. What they wrote into outputs and other folders stays.")
    return 0


@_with_jobs
async def wait(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    code, said = await jobs.wait(arguments.job, arguments.until, arguments.timeout)
    print(said, file=sys.stderr if code else sys.stdout)
    return code


async def _each(names: list[str], act: Callable[[str], Coroutine[Any, Any, str]]) -> int:
    """Do it with each job, whatever becomes of the others; returns the exit code."""
    code = 0
    for name in names:
        try:
            print(await act(name), flush=True)
        except managing.RefusedError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
    return code


async def _compared(jobs: LocalJobs, names: Sequence[str], folder: Path) -> JobComparison:
    """The jobs with their whole runs. Raises RefusedError if one does not exist, KubernetesError."""
    found = [await jobs.get(name) for name in dict.fromkeys(names)]
    runs = await _reports(folder / FILE, [uid_of(job) for job in found])
    made = [
        ComparedRun(job=job, reports=reports, jobset=await _jobset(jobs, job))
        for job, reports in zip(found, runs, strict=True)
    ]
    return comparison.compare(made, wall_clock())


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
    return await if_there(jobs.client.get(JobSet.RESOURCE, job["metadata"]["name"], jobs.namespace))
