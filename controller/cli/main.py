# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `trainwright` command: parses the command line and calls the module of the sub-command.

The module of a sub-command has a function `add_parser(subparsers)`, which sets the default `run`: a function that takes
the parsed arguments and returns the exit code. It imports large modules only when it runs, so that help texts are fast.
Exit codes: 0 success, 1 failure, 2 wrong command line. The installed command begins in `entry`.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` puts the current folder first: a `queue.py` there is not ours.
    del sys.path[0]

from trainwright.controller.cli import early  # isort: split

if __name__ == "__main__":
    early.take_signals()  # before the other imports

import argparse
import io
from collections.abc import Sequence

import trainwright
from trainwright.controller.cli import doctor, explain, generate, initialize, kubectl, manager, plugins, rbac, render
from trainwright.controller.cli.dashboard import commands as dashboard
from trainwright.controller.cli.local import commands as local
from trainwright.controller.cli.progress import commands as progress

COMMANDS = (dashboard, doctor, explain, generate, initialize, kubectl, local, manager, plugins, progress, rbac, render)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, for `main` and for the tests of the help texts."""
    parser = argparse.ArgumentParser(
        prog="trainwright",
        description="Distributed training on Kubernetes: the manager of TrainJobs and the tools around it.",
    )
    parser.add_argument("--version", action="version", version=f"trainwright {trainwright.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    _write_any_text()
    parser = build_parser()
    given = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` is for a program that the command starts; argparse would only drop the dashes.
    own, rest = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, None)
    arguments, unknown = parser.parse_known_args(own)
    if unknown:
        command = " ".join(filter(None, (parser.prog, arguments.command, getattr(arguments, "local_command", None))))
        parser.print_usage(sys.stderr)
        advice = getattr(arguments, "advice", f"see `{command} --help`")
        parser.exit(
            getattr(arguments, "wrong_use", 2), f"{command}: error: unknown arguments: {' '.join(unknown)}; {advice}\n"
        )
    if rest is not None:
        if not hasattr(arguments, "passed_on"):
            parser.error("nothing is started that could take what follows --")
        arguments.passed_on = rest
    if not hasattr(arguments, "run"):
        parser.print_help(sys.stderr)
        return 2
    if not getattr(arguments, "takes_signals", False):
        early.release_signals()
    code: int = arguments.run(arguments)
    return code


def _write_any_text() -> None:
    """Escape letters that the encoding of the output lacks, as in the lines of a training; stderr does so by itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    raise SystemExit(main())
