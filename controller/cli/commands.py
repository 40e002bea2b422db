# SPDX-License-Identifier: Apache-2.0
"""How a command is declared: its line of the help, its arguments, and the function that is loaded when it runs.

A new command is an entry in `arguments.general` or `arguments.local`, and a function that takes the parsed arguments
and returns the exit code. `declare` makes parsers of the tables.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from trainwright.api.errors import UserError

Run = Callable[[argparse.Namespace], int]
WRONG_USE = 2


class WrongUseError(UserError):
    """The arguments do not go together, or ask for what the command cannot do; the text says why."""


class Declared(Protocol):
    def add(self, parser: Any) -> None: ...


class Argument(NamedTuple):
    names: Sequence[str]
    settings: Mapping[str, Any]
    """Those of argparse."""

    def add(self, parser: Any) -> None:
        parser.add_argument(*self.names, **self.settings)


def argument(names: str, help: str, **settings: Any) -> Argument:  # noqa: A002 - as argparse calls it
    """An argument, such as `--file, -f FILE` or `script SCRIPT`: its names, and what its value is called."""
    *known, last = names.split(", ")
    name, _, metavar = last.partition(" ")
    return Argument([*known, name], {"help": help, **({"metavar": metavar} if metavar else {}), **settings})


def flag(names: str, help: str, **settings: Any) -> Argument:  # noqa: A002
    return argument(names, help, action="store_true", **settings)


def several(names: str, help: str, **settings: Any) -> Argument:  # noqa: A002
    """An option that may be given again and again."""
    return argument(names, help, action="append", default=[], **settings)


def output(*forms: str) -> Argument:
    """The format of what a command prints; the first one is the default."""
    return argument("-o, --output", "format (default: %(default)s)", choices=forms, default=forms[0])


class OneOf(NamedTuple):
    """Arguments of which at most one is given."""

    arguments: Sequence[Argument]

    def add(self, parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for one in self.arguments:
            one.add(group)


class Group(NamedTuple):
    """Arguments below a heading of the help."""

    title: str
    arguments: Sequence[Argument]

    def add(self, parser: Any) -> None:
        group = parser.add_argument_group(self.title)
        for one in self.arguments:
            one.add(group)


class Command(NamedTuple):
    help: str
    run: str = ""
    """`module:function`, below this package."""
    description: str = ""
    arguments: Sequence[Declared] = ()
    failed: int = 1
    """The exit code for a UserError."""
    wrong_use: int = WRONG_USE
    """The exit code for a wrong command line."""
    defaults: Mapping[str, Any] = {}
    commands: Mapping[str, "Command"] = {}
    below: Mapping[str, Any] = {}
    """Settings of argparse for these."""
    settings: Mapping[str, Any] = {}


class CommandParser(argparse.ArgumentParser):
    wrong_use = WRONG_USE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.wrong_use, f"{self.prog}: error: {message}\n")


def declare(parser: argparse.ArgumentParser, table: Mapping[str, Command], **below: Any) -> None:
    """Declare the commands of a table as sub-commands, and theirs."""
    commands = parser.add_subparsers(**{"title": "commands", "metavar": "COMMAND", **below})
    for name, command in table.items():
        described = {"help": command.help, "description": command.description or None}
        one: CommandParser = commands.add_parser(name, **{**described, **command.settings})
        one.wrong_use = command.wrong_use
        for argument in command.arguments:
            argument.add(one)
        known = {"parser": one, "run": command.run, "failed": command.failed, "wrong_use": command.wrong_use}
        one.set_defaults(**known, **command.defaults)
        if command.commands:
            declare(one, command.commands, **command.below)


def loaded(run: str) -> Run:
    module, _, name = run.partition(":")
    found: Run = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return found


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
