# SPDX-License-Identifier: Apache-2.0
"""`trainwright local jobs | show | compare | logs | stop | resume | delete | clean | wait`."""

import argparse
import asyncio
import functools
import math
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import msgspec

from trainwright.api.errors import UserError
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.messages import counted
from trainwright.api.objects import Document, labels_of, name_of, uid_of
from trainwright.api.times import parse, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob
from trainwright.controller.cli import state
from trainwright.controller.cli.access import meant
from trainwright.controller.cli.commands import Run, WrongUseError
from trainwright.controller.cli.local import ends, local_jobs, searches
from trainwright.controller.cli.local import export as curves
from trainwright.controller.cli.local.folding import Folding
from trainwright.controller.cli.local.follower import Follower
from trainwright.controller.cli.local.lines import lines_of, prefix_of
from trainwright.controller.cli.local.local_jobs import LocalJobs, RefusedError, typed
from trainwright.controller.cli.local.options import options_of
from trainwright.controller.cli.local.outputs import JobOutput, folder_of_job
from trainwright.controller.cli.local.pods import failed_runs, runs_with_logs
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import ApiError, TransportError
from trainwright.controller.trainer.failures.record import Entry, entries_of, name_of_record
from trainwright.controller.trainer.job.pods import attempt_of, container_statuses, rank_of
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.views import actions, comparison
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.comparison import ComparedRun, JobComparison, as_csv, as_text
from trainwright.controller.views.reports import FOLDER, KeptReports
from trainwright.plugins.contract.picture import index_of

_JobsCommand = Callable[[LocalJobs, argparse.Namespace], Coroutine[Any, Any, int]]
_Act = Callable[[str], Coroutine[Any, Any, str]]
_SearchAct = Callable[[Client, OptimizationJob], Coroutine[Any, Any, str]]
START_SECONDS = 3600.0
"""How long `logs --follow` waits for the first container."""


def _with_jobs(command: _JobsCommand) -> Run:
    @functools.wraps(command)
    def run(arguments: argparse.Namespace) -> int:
        options = options_of(arguments)
        if state.running(options.folder) is None:
            raise UserError(f"cluster {options.name} does not run; start it with: {options.command('up')}")

        async def connected() -> int:
            everywhere = vars(arguments).get("all_namespaces", False)
            async with local_jobs.jobs_of(options.folder, "" if everywhere else arguments.namespace) as jobs:
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
    """Replace `latest` and names of scripts by those of jobs. Raises UserError where that is not clear."""
    given: dict[str, Any] = vars(arguments)
    if (name := given.get("job")) is not None:
        arguments.job = await meant(jobs.client, jobs.namespace, name)
    elif "jobs" in given:
        found = []
        for name in [one for given in arguments.jobs for one in await jobs.matching(given)]:
            is_search = await searches.found(jobs.client, jobs.namespace, name) is not None
            found.append(name if is_search else await meant(jobs.client, jobs.namespace, name, only=True))
        arguments.jobs = [*dict.fromkeys(found)]


@_with_jobs
async def jobs(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    found = await jobs.all()
    if arguments.output != "text":
        local_jobs.show_objects(found, arguments.output)
    elif found:
        ended = await jobs.ended(found)
        print(*local_jobs.table(found, wall_clock(), namespaces=arguments.all_namespaces, ended=ended), sep="\n")
    else:
        where = "" if arguments.all_namespaces else f" in namespace {arguments.namespace}"
        print(f"no jobs{where}; run one with: {options_of(arguments).command('run')} SCRIPT", file=sys.stderr)
    return 0


@_with_jobs
async def show(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    # Imported here: the other commands explain nothing.
    from trainwright.controller.trainer.why import Reader  # noqa: PLC0415
    from trainwright.controller.views.explanation import explaining_plugins, lines_of  # noqa: PLC0415

    job = await jobs.get(arguments.job)
    if arguments.output != "text":
        local_jobs.show_objects(job, arguments.output)
        return 0
    explanation = await Reader(jobs.client, explaining_plugins()).explain(jobs.namespace, arguments.job)
    pods = await jobs.all_pods(job)
    # The last pod of each rank: after stop and resume, an attempt has several.
    latest = max(map(attempt_of, pods), default=0)
    ranks = {rank_of(pod): pod for pod in pods if attempt_of(pod) == latest}
    print(*local_jobs.details(job, list(ranks.values()), wall_clock()), sep="\n")
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
async def export(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    return await curves.export(jobs, arguments, options_of(arguments).folder)


@_with_jobs
async def logs(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    wanted = WantedLines(
        ranks=frozenset(arguments.rank),
        since=arguments.since,
        tail=arguments.tail,
        attempt=arguments.attempt,
        unfolded=arguments.unfolded,
    )
    if not arguments.follow:
        return await show_lines(jobs, arguments.job, wanted)
    if wanted.attempt or wanted.tail or wanted.since:
        raise WrongUseError("--follow shows all lines from now to the end: leave out --attempt, --tail and --since")
    return await follow_lines(jobs, arguments.job, wanted)


@_with_jobs
async def stop(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    code = await _each(arguments.jobs, _of_either(jobs, jobs.stop, searches.stop))
    if code == 0:
        command = options_of(arguments).command_on("resume", " ".join(arguments.jobs), arguments.namespace)
        print(f"resume with: {command}")
    return code


@_with_jobs
async def resume(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    return await _each(arguments.jobs, _of_either(jobs, jobs.resume, searches.resume))


@_with_jobs
async def delete(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    if bool(arguments.jobs) == arguments.everything:
        raise WrongUseError("name the jobs to delete, or use --all")
    names = arguments.jobs
    if arguments.everything:
        tuned = await jobs.searches()
        # Searches first: they would make trials in place of those that are deleted.
        names = [one.name for one in tuned] + [*map(name_of, searches.without_trials(await jobs.all(), tuned))]
    if not names:
        print(f"no jobs in namespace {arguments.namespace}")
    return await _each(names, _of_either(jobs, jobs.delete, searches.delete))


@_with_jobs
async def clean(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    found = await jobs.all()
    ended = ends.ended_jobs(found)[arguments.keep :]
    tuned = [*searches.deletable(await jobs.searches(), found, [one.job for one in ended])]
    if not ended and not tuned:
        print("no jobs to delete: none has ended" + (f" but the last {arguments.keep}" if arguments.keep else ""))
        return 0
    folder = options_of(arguments).folder
    taken = await asyncio.to_thread(ends.bytes_of, folder / "logs", [one.job for one in ended])
    number = counted(len(ended), "job")
    print(*ends.table(ended, taken, wall_clock()), sep="\n")
    what = "with all objects that they made, their records of failures, their curves and their lines"
    claims = [claim for one in ended for claim in await ends.claims_of(jobs.client, one.job)]
    if claims:
        print(f"\nvolumes that are deleted with them, and what jobs wrote into these: {', '.join(claims)}")
    if tuned:
        print(f"\nsearches that are deleted with them: {', '.join(one.name for one in tuned)}")
    if not arguments.yes:
        print(f"\n--yes deletes {number} {what} ({ends.size(sum(taken.values()))}).")
        print("Nothing is deleted yet. What jobs wrote into outputs and other folders stays.")
        return 0
    deleted = [await actions.delete(jobs.client, one.job, pods_first=False) for one in ended]
    for one in tuned:
        await searches.remove(jobs.client, one)
    print(f"\n{sum(deleted)} of {number} deleted {what}. What they wrote into outputs and other folders stays.")
    return 0


@_with_jobs
async def wait(jobs: LocalJobs, arguments: argparse.Namespace) -> int:
    names = await jobs.matching(arguments.job)
    ends = await asyncio.gather(*(jobs.wait(name, arguments.until, arguments.timeout) for name in names))
    for code, said in ends:
        print(said, file=sys.stderr if code else sys.stdout)
    return next((code for code, _ in ends if code), 0)


def _of_either(jobs: LocalJobs, act: _Act, act_on_search: _SearchAct) -> _Act:
    """The act on a job of that name, or on a search."""

    async def act_on(name: str) -> str:
        job = await searches.found(jobs.client, jobs.namespace, name)
        return await (act(name) if job is None else act_on_search(jobs.client, job))

    return act_on


async def _each(names: list[str], act: _Act) -> int:
    """Do it with each job, whatever becomes of the others; returns the exit code."""
    code = 0
    for name in names:
        try:
            print(await act(name), flush=True)
        except local_jobs.RefusedError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
    return code


async def _compared(jobs: LocalJobs, names: Sequence[str], folder: Path) -> JobComparison:
    """The jobs with their whole runs. Raises RefusedError if one does not exist, KubernetesError."""
    # Imported here: the other commands build no objects.
    from trainwright.controller.views.rendered import RenderedObjects  # noqa: PLC0415

    found = [await jobs.get(name) for name in dict.fromkeys(names)]
    runs = await _reports(folder / FOLDER, found)
    made = []
    for job, reports in zip(found, runs, strict=True):
        jobset = await if_there(jobs.client.get(JobSet.RESOURCE, name_of(job), jobs.namespace))
        if jobset is None:
            jobset = await RenderedObjects(jobs.client).jobset(typed(job))
        made.append(ComparedRun(job=job, reports=reports, jobset=jobset))
    return comparison.compare(made, wall_clock())


async def _reports(folder: Path, jobs: Sequence[Document]) -> list[list[Sample]]:
    """The runs of jobs; empty ones where nothing was kept."""
    reports = KeptReports(folder)
    for job in jobs:
        if (output := folder_of_job(job)) is not None:
            reports.has_output(uid_of(job), output, parse(job["metadata"]["creationTimestamp"]).timestamp())
    return [(await reports.read(uid_of(job)))[0] for job in jobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLines:
    ranks: frozenset[str] = frozenset()
    """Numbers, and names of steps; empty: all."""
    since: float | None = None
    """In seconds."""
    tail: int | None = None
    """So many of each container."""
    attempt: int | None = None
    """From 1 on; None: the latest."""
    unfolded: bool = False
    """Also what torchrun itself writes about a failure."""

    def takes(self, pod: Document) -> bool:
        return not self.ranks or bool(self.ranks & {str(index_of(pod)), labels_of(pod).get(LABEL_REPLICATED_JOB, "")})

    def parameters(self) -> dict[str, str]:
        """For the request of a log."""
        asked = {"tailLines": self.tail, "sinceSeconds": None if self.since is None else math.ceil(self.since)}
        return {name: str(value) for name, value in asked.items() if value is not None}


async def follow_lines(jobs: LocalJobs, name: str, wanted: WantedLines) -> int:
    """Show the lines as they come until the job ends; returns the exit code of the job. Raises RefusedError."""
    job = await jobs.get(name)
    follower = Follower(
        jobs.client, jobs.namespace, name, stop_at_failure=False, takes=wanted.takes, unfolded=wanted.unfolded
    )
    ended = await follower.follow(start_seconds=START_SECONDS)
    print(ended.message, file=sys.stderr)
    JobOutput.of(job).tell(sys.stderr)
    return ended.code


async def show_lines(jobs: LocalJobs, name: str, wanted: WantedLines, out: TextIO | None = None) -> int:
    """Show the lines there are; returns the exit code. Raises RefusedError where there is nothing to show."""
    there: TextIO = sys.stdout if out is None else out
    job = await jobs.get(name)
    pods = await jobs.all_pods(job)
    present = max((attempt_of(pod) + 1 for pod in pods), default=0)
    attempt = wanted.attempt or present
    shown = [pod for pod in pods if attempt_of(pod) + 1 == attempt and wanted.takes(pod)]
    if shown:
        logs = await asyncio.gather(
            *(_log(jobs, pod, status["name"], wanted) for pod in shown for status in container_statuses(pod))
        )
        if not any(logs) and (until := ends.lines_until(job)) is not None and until <= wall_clock():
            print(f"the lines of TrainJob {name} are deleted: those of all jobs took too much", file=sys.stderr)
        for lines in logs:
            print(*lines, sep="\n", end="\n" if lines else "", file=there)
        return 0
    if pods and attempt == present:
        known = ", ".join(dict.fromkeys(rank_of(pod) for pod in pods if attempt_of(pod) + 1 == attempt))
        raise RefusedError(f"TrainJob {name} has no rank {', '.join(sorted(wanted.ranks))}: it has {known}")
    record = await if_there(jobs.client.get(ConfigMap.RESOURCE, name_of_record(name), jobs.namespace)) or {}
    entries = {number + 1: entry for number, entry in entries_of(record.get("data")).items()}
    _show_recorded(entries, name, wanted, there)
    return 0


async def _log(jobs: LocalJobs, pod: Document, container: str, wanted: WantedLines) -> list[str]:
    prefix, found = prefix_of(pod, container), list[str]()
    runs = sorted({run for name, run in (*failed_runs(pod), *runs_with_logs(pod)) if name == container})
    if jobs.logs is None:
        runs = runs[-1:]  # another API server knows no numbers of runs, and would tell the last one again and again
    for run in runs:
        with suppress(ApiError):  # a container that has not started
            async with aclosing(lines_of(jobs.client, pod, container, run, **wanted.parameters())) as lines:
                own = [line async for line, is_whole in lines if is_whole]
            if not wanted.unfolded:
                folding = Folding("--unfolded shows them")
                own = [*(shown for line in own for shown in folding.take(line)), *folding.end()]
            found += [f"{prefix} {line}" for line in own]
    return found if wanted.tail is None else found[max(0, len(found) - wanted.tail) :]


def _show_recorded(entries: dict[int, Entry], name: str, wanted: WantedLines, out: TextIO) -> None:
    """Show the last lines of the container that failed first. Raises RefusedError if none were kept.

    `entries` are those of the record of failures, by attempt from 1 on.
    """
    attempt = wanted.attempt or max(entries, default=0)
    entry = entries.get(attempt)
    if entry is None or not entry.log:
        which = f" of attempt {wanted.attempt}" if wanted.attempt else ""
        others = f"; the record of failures has attempt {', '.join(map(str, entries))}" if entries else ""
        raise RefusedError(
            f"there are no lines{which} of TrainJob {name}: neither pods nor a record of its failure{others}"
        )
    print(
        f"the pods of attempt {attempt} are gone; the last lines of {entry.where}, which failed first:", file=sys.stderr
    )
    lines = entry.log.splitlines()
    for line in lines if wanted.tail is None else lines[len(lines) - wanted.tail :]:
        print(f"[{entry.where}] {line}", file=out)
