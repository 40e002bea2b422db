# SPDX-License-Identifier: Apache-2.0
"""`trainwright local jobs | show | compare | logs | stop | resume | delete | clean | wait`."""

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from trainwright.controller.cli import state
from trainwright.controller.cli.local.options import add_place, options_of

if TYPE_CHECKING:
    from trainwright.controller.cli.local.managing import Jobs

_SUCCESS, _FAILURE = 0, 1
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_JOB = "name of a TrainJob, `latest` for the newest, or the name of a script without .py for its newest job"
_JobsCommand = Callable[["Jobs", argparse.Namespace], Coroutine[Any, Any, int]]


class Declare(Protocol):
    """Declares a command: its name, its line in the list, and the function that returns its exit code."""

    def __call__(
        self, commands: Any, name: str, text: str, run: Callable[[argparse.Namespace], int], **more: Any
    ) -> argparse.ArgumentParser: ...


def add_to(commands: Any, declare: Declare) -> None:
    """Declare the commands about the jobs of a cluster that runs."""
    _add_looking(commands, declare)
    _add_logs(commands, declare)
    _add_changing(commands, declare)
    _add_clean(commands, declare)
    _add_wait(commands, declare)


def _add_looking(commands: Any, declare: Declare) -> None:
    parser = declare(commands, "jobs", "list the jobs", _with_jobs(_jobs))
    add_place(parser)
    where = parser.add_mutually_exclusive_group()
    _add_namespace(where)
    where.add_argument("--all-namespaces", "-A", action="store_true", help="jobs of all namespaces")
    _add_output(parser)

    parser = declare(
        commands,
        "show",
        "show a job: its state and why, what it reported, its ranks",
        _with_jobs(_show),
        description="Show a job: its state and why, what it reported, and its ranks. `--output` prints the "
        "TrainJob as the cluster holds it.",
    )
    _add_job(parser)
    _add_output(parser)

    parser = declare(
        commands,
        "compare",
        "compare jobs: the parameters that differ, last and best values",
        _with_jobs(_compare),
        description="Show jobs beside each other: the parameters that differ (arguments, environment, image, nodes, "
        "git commit), and the last and the best value of each metric. Best is the lowest loss or error, "
        "and the highest accuracy or score; of other metrics both are shown. Secrets are hidden.",
    )
    _add_several(parser)
    parser.add_argument(
        "--output", "-o", choices=("text", "json", "csv"), default="text", help="format (default: %(default)s)"
    )


def _add_logs(commands: Any, declare: Declare) -> None:
    parser = declare(
        commands,
        "logs",
        "show the lines of a job's ranks",
        _with_jobs(_logs),
        description="Show the lines of a job's ranks, also of pods that are gone. If the logs are gone too, show the "
        "lines that the record of failures holds. With --follow, the exit code is that of `run`.",
    )
    _add_job(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="follow the log until the job ends")
    parser.add_argument(
        "--rank",
        action="append",
        default=[],
        metavar="RANK",
        help="only this rank, such as 0 or node-0; may be given several times",
    )
    parser.add_argument("--since", type=age, metavar="TIME", help="only lines of the last 30s, 10m, 2h or 1d")
    parser.add_argument("--tail", type=_number, metavar="N", help="only the last N lines of each container")
    parser.add_argument(
        "--attempt", type=_number, metavar="N", help="the lines of this attempt, from 1 on (default: the latest)"
    )


def _add_changing(commands: Any, declare: Declare) -> None:
    parser = declare(
        commands,
        "stop",
        "stop jobs: their pods end, the jobs stay",
        _with_jobs(_stop),
        description="Suspend jobs and wait until their pods have ended. `resume` starts them again, from their "
        "checkpoints if they write any.",
    )
    _add_several(parser)
    parser = declare(commands, "resume", "resume jobs that were stopped", _with_jobs(_resume))
    _add_several(parser)
    parser = declare(
        commands,
        "delete",
        "delete jobs with their pods and logs",
        _with_jobs(_delete),
        description="Delete jobs and wait until their pods have ended. Their logs and records go with them; files that "
        "the trainings wrote elsewhere stay.",
    )
    _add_several(parser, everything="--all")


def _add_wait(commands: Any, declare: Declare) -> None:
    parser = declare(
        commands,
        "wait",
        "wait for a job",
        _with_jobs(_wait),
        description="Wait until a job has ended, runs or is suspended. Exit code for the end, as of `run`: 0 if the "
        "job is Complete, else that of the container that failed first, or 1. For the others: 0. 1 if the job was "
        "deleted or has ended before, 124 if it took longer than --timeout.",
    )
    _add_job(parser)
    parser.add_argument(
        "--for",
        dest="until",
        choices=("end", "running", "suspended"),
        default="end",
        help="what to wait for (default: %(default)s)",
    )
    parser.add_argument("--timeout", type=age, metavar="TIME", help="how long, such as 30s or 10m (default: no limit)")


def _add_clean(commands: Any, declare: Declare) -> None:
    parser = declare(
        commands,
        "clean",
        "delete jobs that have ended, after a preview",
        _with_jobs(_clean),
        description="List the jobs that have ended, and the size of the lines of their ranks. With --yes, delete them: "
        "the TrainJobs with all objects that they made, their records of failures and their lines. What jobs wrote "
        "into outputs and other folders stays.",
    )
    add_place(parser)
    where = parser.add_mutually_exclusive_group()
    _add_namespace(where)
    where.add_argument("--all-namespaces", "-A", action="store_true", help="jobs of all namespaces")
    parser.add_argument("--keep", type=_count, default=0, metavar="N", help="leave the last N (default: %(default)s)")
    parser.add_argument("--yes", "-y", action="store_true", help="delete them; without it nothing is deleted")


# ---------------------------------------------------------------------- options


def _add_namespace(parser: Any) -> None:
    parser.add_argument("--namespace", "-n", default="default", help="namespace of the job (default: %(default)s)")


def _add_job(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("job", metavar="JOB", help=_JOB)
    _add_namespace(parser)


def _add_several(parser: argparse.ArgumentParser, *, everything: str = "") -> None:
    add_place(parser)
    parser.add_argument("jobs", nargs="*" if everything else "+", metavar="JOB", help=_JOB)
    _add_namespace(parser)
    if everything:
        parser.add_argument(everything, dest="everything", action="store_true", help="all jobs of the namespace")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", "-o", choices=("text", "json", "yaml"), default="text", help="format (default: %(default)s)"
    )


def age(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write a number and s, m, h or d, such as 10m")
    return int(found[1]) * _UNITS[found[2]]


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _number(text)


# ---------------------------------------------------------------------- what they do


def _with_jobs(command: _JobsCommand) -> Callable[[argparse.Namespace], int]:
    """The command with a connection to the cluster, which must run."""

    def run(arguments: argparse.Namespace) -> int:
        options = options_of(arguments)
        if state.running(options.folder) is None:
            return _fail(f"cluster {options.name} does not run; start it with: {options.command('up')}")
        from trainwright.controller.cli.local import managing  # noqa: PLC0415 - the help needs none of it
        from trainwright.controller.runtime import TransportError  # noqa: PLC0415 - as above

        async def connected() -> int:
            everywhere = vars(arguments).get("all_namespaces", False)
            async with managing.jobs_of(options.folder, "" if everywhere else arguments.namespace) as jobs:
                await _find(jobs, arguments)
                return await command(jobs, arguments)

        try:
            return asyncio.run(connected())
        except managing.RefusedError as error:
            return _fail(error)
        except TransportError:
            if state.running(options.folder) is not None:
                raise
            return _fail(
                f"cluster {options.name} has ended, and its pods with it; start it with: {options.command('up')}"
            )

    return run


async def _find(jobs: "Jobs", arguments: argparse.Namespace) -> None:
    """Replace `latest` and names of scripts by those of jobs. Raises RefusedError where that is not clear."""
    from trainwright.controller.cli.local import names  # noqa: PLC0415 - the help needs none of it

    given: dict[str, Any] = vars(arguments)
    if (name := given.get("job")) is not None:
        arguments.job = await names.meant(jobs, name)
        found = {name: arguments.job}
    else:
        found = {name: await names.meant(jobs, name, only=True) for name in given.get("jobs", ())}
        arguments.jobs = [*dict.fromkeys(found.values())]
    for name, meant in found.items():
        if name != meant:
            print(f"{name} is TrainJob {meant}", file=sys.stderr)


async def _jobs(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    from trainwright.api.times import wall_clock  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.cli.local import managing  # noqa: PLC0415 - as above

    found = await jobs.all()
    if arguments.output != "text":
        managing.show_objects(found, arguments.output)
    elif found:
        ended = await jobs.ended(found)
        print(*managing.table(found, wall_clock(), namespaces=arguments.all_namespaces, ended=ended), sep="\n")
    else:
        where = "" if arguments.all_namespaces else f" in namespace {arguments.namespace}"
        print(f"no jobs{where}; run one with: {options_of(arguments).command('run')} SCRIPT", file=sys.stderr)
    return _SUCCESS


async def _show(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    from trainwright.api.times import wall_clock  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.cli.explain import explaining_plugins, lines_of  # noqa: PLC0415 - as above
    from trainwright.controller.cli.local import managing  # noqa: PLC0415 - as above
    from trainwright.controller.trainer.explain import Reader  # noqa: PLC0415 - as above

    job = await jobs.get(arguments.job)
    if arguments.output != "text":
        managing.show_objects(job, arguments.output)
        return _SUCCESS
    explanation = await Reader(jobs.client, explaining_plugins()).explain(jobs.namespace, arguments.job)
    pods = managing.latest_attempt(await jobs.all_pods(job))
    print(*managing.details(job, pods, wall_clock()), sep="\n")
    print("", *lines_of(explanation), sep="\n")
    return _SUCCESS


async def _compare(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.local import comparing  # noqa: PLC0415 - the help needs none of it

    if len(set(arguments.jobs)) < 2:
        return _fail("name two jobs or more to compare", 2)
    found = await comparing.compared(jobs, arguments.jobs, options_of(arguments).folder)
    comparing.show(found, arguments.output)
    return _SUCCESS


async def _logs(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.local import lines  # noqa: PLC0415 - the help needs none of it

    wanted = lines.Wanted(
        ranks=frozenset(arguments.rank),
        since_seconds=arguments.since,
        tail=arguments.tail,
        attempt=arguments.attempt,
    )
    if not arguments.follow:
        return await lines.show(jobs, arguments.job, wanted)
    if wanted.attempt or wanted.tail or wanted.since_seconds:
        return _fail("--follow shows all lines from now to the end: leave out --attempt, --tail and --since", 2)
    return await lines.follow(jobs, arguments.job, wanted)


async def _stop(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    code = await _each(arguments.jobs, jobs.stop)
    if code == _SUCCESS:
        print(f"resume with: {_command(arguments, 'resume')}")
    return code


async def _resume(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    return await _each(arguments.jobs, jobs.resume)


async def _delete(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    if bool(arguments.jobs) == arguments.everything:
        return _fail("name the jobs to delete, or use --all", 2)
    names = arguments.jobs or [job["metadata"]["name"] for job in await jobs.all()]
    if not names:
        print(f"no jobs in namespace {arguments.namespace}")
    return await _each(names, jobs.delete)


async def _clean(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    from trainwright.api.times import wall_clock  # noqa: PLC0415 - the help needs none of it
    from trainwright.controller.cli.local import kept  # noqa: PLC0415 - as above

    ended = kept.ended_jobs(await jobs.all())[arguments.keep :]
    if not ended:
        print("no jobs to delete: none has ended" + (f" but the last {arguments.keep}" if arguments.keep else ""))
        return _SUCCESS
    folder = options_of(arguments).folder
    taken = await asyncio.to_thread(kept.bytes_of, folder / "logs", [one.job for one in ended])
    number = f"{len(ended)} job{'s' if len(ended) > 1 else ''}"
    print(*kept.table(ended, taken, wall_clock()), sep="\n")
    what = "with all objects that they made, their records of failures and their lines"
    if not arguments.yes:
        print(f"\n--yes deletes {number} {what} ({kept.size(sum(taken.values()))}).")
        print("Nothing is deleted yet. What jobs wrote into outputs and other folders stays.")
        return _SUCCESS
    deleted = [await kept.delete(jobs.client, one.job) for one in ended]
    print(f"\n{sum(deleted)} of {number} deleted {what}. What they wrote into outputs and other folders stays.")
    return _SUCCESS


async def _wait(jobs: "Jobs", arguments: argparse.Namespace) -> int:
    code, said = await jobs.wait(arguments.job, arguments.until, arguments.timeout)
    print(said, file=sys.stderr if code else sys.stdout)
    return code


async def _each(names: "list[str]", act: Callable[[str], Coroutine[Any, Any, str]]) -> int:
    """Do it with each job, whatever becomes of the others; returns the exit code."""
    from trainwright.controller.cli.local import managing  # noqa: PLC0415 - the help needs none of it

    code = _SUCCESS
    for name in names:
        try:
            print(await act(name), flush=True)
        except managing.RefusedError as error:
            code = _fail(error)
    return code


def _command(arguments: argparse.Namespace, name: str) -> str:
    namespace = "" if arguments.namespace == "default" else f" --namespace={arguments.namespace}"
    return f"{options_of(arguments).command(name)} {' '.join(arguments.jobs)}{namespace}"


def _fail(error: object, code: int = _FAILURE) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
