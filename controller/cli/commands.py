# SPDX-License-Identifier: Apache-2.0
"""The commands, as a table: name, line of the help, arguments, and the function that is loaded when the command runs.

A new command is a function in `arguments` that declares what it takes, a function in a module of its own that takes the
parsed arguments and returns the exit code, and one entry here.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.api.errors import UserError
from trainwright.controller.cli.arguments import general, local, run

Run = Callable[[argparse.Namespace], int]


class WrongUseError(UserError):
    """The arguments do not go together, or ask for what the command cannot do; the text says why."""


class Command(NamedTuple):
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: str = ""
    """`module:function`, below this package."""
    failed: int = 1
    """The exit code for a UserError."""
    settings: Mapping[str, Any] = {}


COMMANDS = {
    "dashboard": Command("show TrainJobs in the browser", general.dashboard, "dashboard:run", 2),
    "doctor": Command("say what is wrong with an installation", general.doctor, "doctor:run", 2),
    "explain": Command("say why a TrainJob does not train", general.explain, "explain:run", 2),
    "generate": Command("compile schemas of your own kinds into models", general.generate, "generate:run", 3),
    "initialize": Command("fetch a model or a data set into a folder", general.initialize, "initialize:run"),
    "kubectl": Command(
        "run the kubectl of this machine on the local cluster",
        general.kubectl,
        "local.status:kubectl",
        # All that follows is kubectl's: with this prefix, nothing looks like an option of ours.
        settings={"prefix_chars": "\0", "add_help": False},
    ),
    "local": Command("a cluster on this machine: train without containers", local.local),
    "manager": Command("run the TrainJob controller", general.manager, "manager:run"),
    "plugins": Command("list the plugins in the order in which they run", general.plugins, "plugins:run"),
    "progress": Command("show how far TrainJobs are", general.progress, "progress.command:run", 2),
    "rbac": Command("print the roles that the manager needs", general.rbac, "rbac:run"),
    "render": Command("print the objects that a TrainJob becomes", general.render, "render:run"),
}
LOCAL = {
    "up": Command("start a cluster in the background", local.up, "local.clusters:up"),
    "down": Command("end a cluster", local.down, "local.clusters:down"),
    "status": Command("say how a cluster is", local.status, "local.status:status"),
    "list": Command("list the clusters of this user", lambda _: None, "local.status:clusters"),
    "run": Command("run a TrainJob here and follow it", run.run, "local.run:run", run.REFUSED),
    "jobs": Command("list the jobs", local.jobs, "local.job_commands:jobs"),
    "show": Command(
        "show a job: its state and why, what it reported, its ranks", local.show, "local.job_commands:show"
    ),
    "compare": Command(
        "compare jobs: the parameters that differ, last and best values", local.compare, "local.job_commands:compare"
    ),
    "logs": Command("show the lines of a job's ranks", local.logs, "local.job_commands:logs"),
    "stop": Command("stop jobs: their pods end, the jobs stay", local.stop, "local.job_commands:stop"),
    "resume": Command("resume jobs that were stopped", local.several, "local.job_commands:resume"),
    "delete": Command("delete jobs with their pods and logs", local.delete, "local.job_commands:delete"),
    "clean": Command("delete jobs that have ended, after a preview", local.clean, "local.job_commands:clean"),
    "wait": Command("wait for a job", local.wait, "local.job_commands:wait"),
    "outputs": Command("list what jobs have left, and delete it", local.outputs, "local.output_commands:run"),
}


def read_option(option: str, file: Path) -> str:
    """The text of a file that an option names. Raises WrongUseError."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongUseError(f"{option}: {file} is not UTF-8 text") from error
    except OSError as error:
        raise WrongUseError(f"{option}: {file}: {error.strerror}") from error


def refused(problems: Iterable[object]) -> int:
    """Print the problems as errors; returns the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1


def add_commands(
    parser: argparse.ArgumentParser, table: Mapping[str, Command], **settings: Any
) -> dict[str, argparse.ArgumentParser]:
    """Declare the commands of a table as sub-commands; returns their parsers. `settings` are those of argparse."""
    parsers = {}
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", **settings)
    for name, command in table.items():
        parsers[name] = one = commands.add_parser(name, help=command.help, **command.settings)
        command.arguments(one)
        one.set_defaults(parser=one, run=command.run, failed=command.failed)
    return parsers


def loaded(run: str) -> Run:
    module, _, name = run.partition(":")
    found: Run = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return found
