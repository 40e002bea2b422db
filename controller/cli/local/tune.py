# SPDX-License-Identifier: Apache-2.0
"""`trainwright local tune`: search the parameters of a script with an OptimizationJob, and show its trials."""

import argparse
import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from trainwright.api import extras
from trainwright.api.errors import UserError
from trainwright.api.objects import Document, annotations_of, name_of, namespace_of
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local.options import LocalOptions, disk_errors, options_of
from trainwright.controller.cli.local.run import check_system
from trainwright.controller.optimization import names, sampler
from trainwright.controller.runtime import AlreadyExists, Client, ConfigurationError, KubernetesError, NotFound
from trainwright.controller.views import search, text
from trainwright.controller.views.comparison import direction_of
from trainwright.controller.views.search import SearchView, TrialView

TRAINJOB = TrainJob.RESOURCE
COMMAND = "trainwright.io/run-command"
"""On an OptimizationJob of this command: the words of `local run` that train once, as a JSON list."""
_LOOK_SECONDS = 0.5
_DEFAULTS = {"trials": 20, "parallel": 1, "sampler": "random", "warmup_steps": 0}
_OF_A_NEW_SEARCH = (
    *("param", "objective", "direction", "trials", "parallel", "sampler", "seed", "pruner", "warmup_steps"),
    *("module", "runtime", "nodes", "job_name", "workdir", "python", "requirements", "env", "env_file"),
)
"""Options that say what a search is, which `--resume` takes from the search."""
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_][A-Za-z0-9_.-]*)\}")


def run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    _check(arguments)
    with disk_errors(options):
        check_system()
        # Imported here: they need Linux.
        from trainwright.controller.cli.local import environments, scripts, submission  # noqa: PLC0415

        documents: list[Document] = []
        if not arguments.resume:
            documents = scripts.documents_of(arguments)
            arguments.environment = environments.chosen(arguments, os.environ, lambda line: print(f"| {line}"))
        try:
            return asyncio.run(_tune(options, documents, arguments))
        except submission.LOST as error:
            if isinstance(error, ConfigurationError):
                raise
            print(f"error: {error}", file=sys.stderr)
            return 1


def _check(arguments: argparse.Namespace) -> None:
    """Raises WrongUseError, UserError."""
    if arguments.resume:
        given = [f"--{one.replace('_', '-')}" for one in _OF_A_NEW_SEARCH if vars(arguments)[one] not in (None, "", [])]
        given += [arguments.script] if arguments.script is not None else []
        given += ["the arguments of the script"] if _passed(arguments) else []
        if given:
            raise WrongUseError(f"--resume goes on with a search as it was begun: leave out {', '.join(given)}")
        return
    for option, default in _DEFAULTS.items():
        if vars(arguments)[option] is None:
            setattr(arguments, option, default)
    _check_search(arguments)
    names_given = [one["name"] for one in arguments.param]
    for name in dict.fromkeys(_PLACEHOLDER.findall(" ".join(_passed(arguments)))):
        if name not in names_given:
            stays = f"warning: the script gets {{{name}}} as it is written: there is no --param {name}, only"
            print(stays, ", ".join(names_given), file=sys.stderr)


def _check_search(arguments: argparse.Namespace) -> None:
    """Raises WrongUseError, UserError."""
    if not arguments.param:
        raise WrongUseError("say what to search with --param, such as --param lr=loguniform:1e-5:1e-1")
    if not arguments.objective:
        raise WrongUseError("name the metric to compare trials by with --objective, such as --objective loss")
    given = [one["name"] for one in arguments.param]
    if twice := {name for name in given if given.count(name) > 1}:
        raise WrongUseError(f"--param: {', '.join(sorted(twice))} is given twice")
    if arguments.parallel > arguments.trials:
        raise WrongUseError(f"--parallel={arguments.parallel} is more than --trials={arguments.trials}")
    if arguments.sampler == "grid" and not all("categorical" in one["searchSpace"] for one in arguments.param):
        raise WrongUseError("--sampler=grid needs choices for every parameter, such as --param batch=16,32,64")
    if arguments.warmup_steps and not arguments.pruner:
        raise WrongUseError("--warmup-steps goes with --pruner")
    if found := sampler.problems(arguments.sampler, arguments.param):
        raise WrongUseError(found[0])
    try:
        sampler.libraries(arguments.sampler)
    except sampler.SamplerError as error:
        raise UserError(str(error)) from error


def _passed(arguments: argparse.Namespace) -> list[str]:
    """The arguments of the script, in which `{lr}` stands for a value."""
    return [*arguments.arguments, *arguments.passed_on]


def _command(arguments: argparse.Namespace) -> list[str]:
    """The words of `trainwright local run` that train once; `_again` adds the parameters."""
    single = {option: getattr(arguments, option) for option in ("runtime", "nodes", "workdir", "python")}
    words = [f"--{option}={value}" for option, value in single.items() if value is not None]
    for option in ("requirements", "env_file", "env"):
        words += [f"--{option.replace('_', '-')}={value}" for value in getattr(arguments, option)]
    words += [f"--module={arguments.module}"] if arguments.module is not None else []
    passed = _passed(arguments)
    script = [arguments.script] if arguments.script is not None else []
    return [*words, *script, *(["--", *passed] if passed else [])]


def _again(options: LocalOptions, search_job: OptimizationJob, parameters: Mapping[str, str]) -> str:
    """The command that trains with these parameters again; empty: the search was not made by this command."""
    words = json.loads(annotations_of(search_job).get(COMMAND, "[]"))
    if not words:
        return ""
    first = words.index("--") if "--" in words else len(words)
    words = [*words[:first], *(_filled(word, parameters) for word in words[first:])]
    given = [f"--env={names.variable(name)}={value}" for name, value in parameters.items()]
    return f"{options.command('run')} {shlex.join([*given, *words])}"


def _filled(word: str, parameters: Mapping[str, str]) -> str:
    """The word of the script's arguments with values in place of `{lr}`, for the parameter lr."""
    return _PLACEHOLDER.sub(lambda found: parameters.get(found[1], found[0]), word)


# ---------------------------------------------------------------------- the search


async def _tune(options: LocalOptions, documents: list[Document], arguments: argparse.Namespace) -> int:
    from trainwright.controller.cli.local import searches, submission  # noqa: PLC0415 - they need Linux

    interrupted = submission.Interrupted()
    try:
        async with submission.cluster_of(options, detach=False) as (transport, dashboard):
            client = Client(transport, user_agent="trainwright-local-tune").with_defaults(field_validation="Strict")
            if arguments.resume:
                job = await _resume(client, arguments.resume)
            else:
                job = await _create(options, client, await _search_job(options, client, documents, arguments))
            resume = f"{options.command('tune')} --resume={job.name}"
            if dashboard and sys.stdout.isatty():
                print(f"| dashboard: {dashboard}#/searches/{job.namespace}/{job.name}", flush=True)
            print(f"| search {job.name}; Ctrl-C stops it, and {resume} goes on", flush=True)
            following = asyncio.ensure_future(_follow(client, job))
            found = await interrupted.may_end(following, "stopping the trials that run")
            if found is None:
                resting = asyncio.ensure_future(searches.pause(client, job))
                await interrupted.may_end(resting, "leaving them as they are")
                found = await search.read_search(client, job.namespace, job.name, wall_clock())
                interrupted.ends_the_command()
                print(f"interrupted: {search.summary(found)}; go on with: {resume}", file=sys.stderr)
                return interrupted.code
            return await _conclude(options, client, job, found)
    except asyncio.CancelledError:
        return interrupted.code


async def _search_job(
    options: LocalOptions, client: Client, documents: list[Document], arguments: argparse.Namespace
) -> Document:
    """The OptimizationJob, around the TrainJob that `local run` would make. Raises WrongUseError."""
    from trainwright.controller.cli.local import feasibility, submission  # noqa: PLC0415 - needs Linux

    train_job = submission.train_job_of(documents)
    runtime = await feasibility.runtime_of(train_job, documents, client)
    if runtime is not None:
        await submission.prepare(options, runtime, client, train_job, arguments)
    # Kubernetes fills the variables in.
    values = {one["name"]: f"$({names.variable(one['name'])})" for one in arguments.param}
    trainer = train_job["spec"]["trainer"]
    first = len(trainer["command"]) - len(_passed(arguments))  # the script and what starts it stay
    trainer["command"] = [*trainer["command"][:first], *(_filled(one, values) for one in trainer["command"][first:])]
    metadata = train_job["metadata"]
    annotations = {COMMAND: json.dumps(_command(arguments))}
    if arguments.sampler in names.SAMPLERS:
        annotations[names.ANNOTATION_SAMPLER] = arguments.sampler
    if arguments.pruner:
        annotations[names.ANNOTATION_PRUNER] = arguments.pruner
        annotations[names.ANNOTATION_WARMUP] = str(arguments.warmup_steps)
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    direction = arguments.direction or ("maximize" if direction_of(arguments.objective) == "high" else "minimize")
    named = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
    return {
        "apiVersion": OptimizationJob.RESOURCE.api_version,
        "kind": OptimizationJob.RESOURCE.kind,
        "metadata": {**named, "namespace": namespace_of(train_job), "annotations": annotations},
        "spec": {
            "objectives": [{"metric": arguments.objective, "direction": direction.capitalize()}],
            "searchAlgorithm": {"grid": {}} if arguments.sampler == "grid" else {"random": seed},
            "parameters": arguments.param,
            "numTrials": arguments.trials,
            "parallelTrials": arguments.parallel,
            "trainJobTemplate": {
                "metadata": {"annotations": metadata.get("annotations") or {}},
                "spec": train_job["spec"],
            },
        },
    }


async def _create(options: LocalOptions, client: Client, document: Document) -> OptimizationJob:
    try:
        created = await client.create(document, kind=OptimizationJob.RESOURCE)
    except AlreadyExists as error:
        resume = f"{options.command('tune')} --resume={name_of(document)}"
        raise WrongUseError(f"{error.message}; go on with `{resume}`, or choose another --job-name") from error
    except NotFound as error:
        raise WrongUseError(
            "the cluster does not serve OptimizationJobs: end it and start it again with this version"
        ) from error
    except KubernetesError as error:
        raise WrongUseError(error.message) from error
    return await client.get(OptimizationJob, name_of(created), namespace_of(created))


async def _resume(client: Client, name: str) -> OptimizationJob:
    """Let the search that Ctrl-C stopped go on, with its trials."""
    from trainwright.controller.cli.local import searches  # noqa: PLC0415 - needs Linux

    try:
        job = await client.get(OptimizationJob, name, "default")
    except NotFound as error:
        found = (await client.list(OptimizationJob, "default")).items
        known = f"; there are {', '.join(one.name for one in found)}" if found else ""
        raise WrongUseError(f"--resume: there is no search {name}{known}") from error
    await searches.go_on(client, job)
    return job


async def _follow(client: Client, job: OptimizationJob) -> SearchView:
    """Show the search until it has ended."""
    display = _display()
    with display.begin():
        while True:
            found = await search.read_search(client, job.namespace, job.name, wall_clock())
            display.show(found)
            if found.ended:
                return found
            await asyncio.sleep(_LOOK_SECONDS)


async def _conclude(options: LocalOptions, client: Client, job: OptimizationJob, found: SearchView) -> int:
    """Say what came out; returns the exit code."""
    from trainwright.controller.cli.local import outputs  # noqa: PLC0415 - needs Linux

    if found.best is None:
        print(f"error: search {job.name}: {found.message}", file=sys.stderr)
        return 1
    print(f"search {job.name}: {search.summary(found)}")
    best = found.best
    print(*(f"  {line}" for line in text.aligned([list(one) for one in best.trial.parameters.items()])), sep="\n")
    if best.job is not None:
        train_job = await client.get(TRAINJOB, best.train_job, job.namespace)
        if (folder := outputs.folder_of_job(train_job)) is not None:
            print(f"its output: {folder}")
    if again := _again(options, job, best.trial.parameters):
        print(f"to train it again: {again}")
    return 0


# ---------------------------------------------------------------------- what is shown


class _Display:
    """Shows nothing but a line for each trial that has ended, as into a file."""

    def __init__(self) -> None:
        self._said: set[int] = set()
        self._trouble = ""

    def begin(self) -> AbstractContextManager[object]:
        return nullcontext()

    def show(self, found: SearchView) -> None:
        for one in found.trials:
            if one.trial.is_over and one.trial.number not in self._said:
                self._said.add(one.trial.number)
                print(_line(found, one), flush=True)
        if found.message and not found.ended and found.message != self._trouble:
            self._trouble = found.message
            print(f"| {found.message}", flush=True)


def _line(found: SearchView, one: TrialView) -> str:
    trial = one.trial
    said = f"{text.printable(found.metric)} {search.number(trial.value)}" if trial.value is not None else trial.message
    is_best = found.best is not None and found.best.trial.number == trial.number
    given = " ".join(f"{name}={search.parameter(value)}" for name, value in trial.parameters.items())
    return f"trial {trial.number}: {one.state}{f', {said}' if said else ''}{' (best)' if is_best else ''}, {given}"


class _Table(_Display):
    """A table that is drawn in place, with the best trial and as many of the last ones as fit."""

    def begin(self) -> AbstractContextManager[object]:
        from trainwright.controller.cli.progress.screen import Screen  # noqa: PLC0415 - needs the extra `progress`

        self._screen = Screen()
        return self._screen

    def show(self, found: SearchView) -> None:
        room = max(3, self._screen.console.height - 5)
        best = [found.best] if found.best is not None else []
        last = list(found.trials)[-room:]
        shown = [*(one for one in best if one not in last), *last]
        lines = text.aligned([search.columns(found), *(search.row(found, one) for one in shown)])
        note = "" if found.ended else found.message
        self._screen.draw_lines([search.summary(found), *lines, *([note] if note else [])])


def _display() -> _Display:
    if sys.stdout.isatty() and not extras.missing("progress"):
        from trainwright.controller.cli.progress.screen import is_steerable  # noqa: PLC0415 - needs the extra

        if is_steerable():
            return _Table()
    return _Display()
