# SPDX-License-Identifier: Apache-2.0
"""The variables of `trainwright local run --env` and `--env-file`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainwright.controller.cli.commands import WrongUseError, read_option

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
"""In double quotes; any other letter behind a backslash stands for itself."""


def variables_of(given: Sequence[str], files: Sequence[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by name. Those that are given go before those of files, later ones before earlier ones.

    `NAME` without a value has that of `environ`. Raises WrongUseError: a file cannot be read, a name is none, or a
    variable is not set.
    """
    found: dict[str, str] = {}
    for file in files:
        for place, line in _lines(file):
            name, value = _variable(line.removeprefix("export ").lstrip(), environ, place)
            found[name] = _unquoted(value, place) if "=" in line else value
    for text in given:
        name, value = _variable(text, environ, f"--env {text}")
        found[name] = value
    for name, value in found.items():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WrongUseError(f"the value of the variable {name} is not UTF-8 text") from error
    return found


def literal(text: str) -> str:
    """The text as the field of a container, in which `$(NAME)` stands for a variable and `$$` for `$`."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _lines(file: Path) -> list[tuple[str, str]]:
    lines = read_option("--env-file", file).splitlines()
    numbered = ((f"{file}, line {number}", line.strip()) for number, line in enumerate(lines, 1))
    return [(place, line) for place, line in numbered if line and not line.startswith("#")]


def _variable(text: str, environ: Mapping[str, str], place: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.rstrip()
    if not _NAME.fullmatch(name):
        raise WrongUseError(f"{place}: {name!r} is not the name of a variable; write NAME=VALUE or NAME")
    if equals:
        return name, value
    if name not in environ:
        raise WrongUseError(f"{place}: {name} is not set in this shell; set it, or write {name}=VALUE")
    return name, environ[name]


def _unquoted(value: str, place: str) -> str:
    """The value of a line of a file: as it stands, or what is in quotes."""
    value = value.strip()
    quote = value[:1]
    if quote not in ("'", '"'):
        return value
    if len(value) < 2 or value[-1] != quote:
        raise WrongUseError(f"{place}: the value begins with {quote} and does not end with it")
    inside = value[1:-1]
    return inside if quote == "'" else _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inside)
