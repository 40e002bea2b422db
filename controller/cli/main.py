# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `trainwright` command: parses the command line and calls the function that `commands` names.

Exit codes: 0 success, 1 failure, 2 wrong command line. The installed command begins in `entry`.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` puts the current folder first: a `queue.py` there is not ours.
    del sys.path[0]

from trainwright.controller.cli import early  # isort: split

if __name__ == "__main__":
    early.begin()  # before the other imports

import argparse
import io
import os
from collections.abc import Sequence

import trainwright
from trainwright.api.errors import UserError
from trainwright.controller.cli.arguments.general import COMMANDS
from trainwright.controller.cli.commands import CommandParser, WrongUseError, declare, loaded

INTERRUPTED, BROKEN_PIPE = 130, 141


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, for `main` and for the tests of the help texts."""
    parser = CommandParser(
        prog="trainwright",
        description="Distributed training on Kubernetes: the manager of TrainJobs and the tools around it.",
    )
    parser.add_argument("--version", action="version", version=f"trainwright {trainwright.__version__}")
    parser.set_defaults(parser=parser, run="", wrong_use=2)
    declare(parser, COMMANDS, dest="command")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Escape letters that its encoding lacks, as in the lines of a training; stderr does so by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = build_parser()
    given = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` is for a program that the command starts; argparse would only drop the dashes.
    own, rest = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, None)
    arguments, unknown = parser.parse_known_args(own)
    if unknown:
        command = " ".join(filter(None, (parser.prog, arguments.command, getattr(arguments, "local_command", None))))
        parser.print_usage(sys.stderr)
        advice = getattr(arguments, "advice", f"see `{command} --help`")
        parser.exit(arguments.wrong_use, f"{command}: error: unknown arguments: {' '.join(unknown)}; {advice}\n")
    if rest is not None:
        if not hasattr(arguments, "passed_on"):
            parser.error("nothing is started that could take what follows --")
        arguments.passed_on = rest
    if not arguments.run:
        arguments.parser.print_help(sys.stderr)
        return 2
    if not getattr(arguments, "takes_signals", False):
        early.release_signals()
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    """Run a command. Ctrl-C, a reader who has gone, such as `head`, and errors for users end it without a traceback."""
    try:
        return loaded(arguments.run)(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python writes what is left at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code: int = arguments.wrong_use if isinstance(error, WrongUseError) else arguments.failed
        return code


if __name__ == "__main__":
    raise SystemExit(main())
