# SPDX-License-Identifier: Apache-2.0
"""The values of arguments, read from text. Each raises ArgumentTypeError with what to write instead."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainwright.api.quantity import Quantity
from trainwright.controller.cli import state

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
LEVELS = ("debug", "info", "warning", "error")
_VERBOSE = 5
"""From this verbosity on Kubeflow Trainer logs each reconcile, which is `debug` here."""


def seconds(text: str) -> float:
    """A time, such as `30`, `0.5s` or `10m`."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)", text)
    if found is None or not float(found[1]):
        raise ArgumentTypeError(f"{text!r} is not a time: write a number and s, m, h or d, such as 10m")
    return float(found[1]) * _UNITS[found[2]]


def limit(text: str) -> float | None:
    """A time, or `never`."""
    try:
        return None if text == "never" else seconds(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or never") from error


def whole(what: str, least: int, most: int = 10**9 - 1) -> Callable[[str], int]:
    """Reads a whole number. `what` goes on after "is not": what is wanted, and maybe what to write instead."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


number = whole("a number above 0", 1)


_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_RANGE = re.compile(f"(loguniform|uniform|int|logint):({_NUMBER}):({_NUMBER})")
_PARAMETER_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PARAMETER = "write NAME=loguniform:1e-5:1e-1, NAME=uniform:0:1, NAME=int:1:8, NAME=logint:16:1024 or NAME=16,32,64"


def parameter(text: str) -> dict[str, Any]:
    """Read a parameter of a search, as the spec of an OptimizationJob has it."""
    name, _, space = text.partition("=")
    if not 1 <= len(name) <= 64 or not space or not text.isprintable():
        raise ArgumentTypeError(f"{text!r} is not a parameter: {_PARAMETER}")
    if not _PARAMETER_NAME.fullmatch(name):
        raise ArgumentTypeError(
            f"{text!r}: {name!r} cannot become a variable; name it with the letters a to z, digits, '_', '-' and '.'"
        )
    if (found := _RANGE.fullmatch(space)) is not None:
        kind, low, high = found.groups()
        if float(low) >= float(high):
            raise ArgumentTypeError(f"{text!r}: {low} is not below {high}")
        if not isfinite(float(high) - float(low)):
            raise ArgumentTypeError(f"{text!r}: the bounds are too far apart; use numbers within 1e300 of 0")
        log = kind.startswith("log")
        if log and float(low) <= 0:
            raise ArgumentTypeError(f"{text!r}: a range on a logarithmic scale begins above 0")
        bounds = {"min": low, "max": high, "type": "Int" if kind.endswith("int") else "Float"}
        return {"name": name, "searchSpace": {"logUniform" if log else "uniform": bounds}}
    choices = space.split(",")
    if len(choices) < 2 or not all(choices):
        raise ArgumentTypeError(f"{text!r} names neither a range nor choices: {_PARAMETER}")
    if len(set(choices)) < len(choices):
        raise ArgumentTypeError(f"{text!r} names a choice twice")
    return {"name": name, "searchSpace": {"categorical": {"choices": choices}}}


def path(text: str) -> Path:
    return Path(text).expanduser()


def absolute_path(text: str) -> Path:
    return path(text).absolute()


def gates(text: str) -> dict[str, bool]:
    """Read `Name=true,Other=false`."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if value.lower() not in {"true", "false"}:
            raise ArgumentTypeError(f"{part!r} must have the form NAME=true or NAME=false")
        found[name.strip()] = value.lower() == "true"
    return found


def capacity(text: str) -> dict[str, str]:
    """Read `cpu=4,memory=8Gi`."""
    made: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        try:
            Quantity.parse(value)
            is_good = bool(name and equals)
        except ValueError:
            is_good = False
        if not is_good:
            raise ArgumentTypeError(f"{part!r}: write resource=quantity, such as cpu=4 or memory=8Gi")
        made[name] = value
    return made


def cluster_name(text: str) -> str:
    if not state.NAME.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a name: use lower case letters, digits and dashes, at most 32")
    return text


def job_name(text: str) -> str:
    # The longest pod name of a job is 15 longer, as in NAME-node-0-0-abcde, and may have 63.
    if len(text) > 48 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        raise ArgumentTypeError(
            f"{text!r} is not a name for a TrainJob: use lower case letters, digits and dashes, "
            "a letter first, no dash last, at most 48"
        )
    return text


def webhook_url(text: str) -> str:
    """An https URL with a host and a port, and without a path."""
    url = urlsplit(text)
    try:
        complete = url.scheme == "https" and url.hostname and url.port and url.path in {"", "/"}
    except ValueError:  # the port is not a number
        complete = False
    if not complete:
        raise ArgumentTypeError(f"{text!r} must have the form https://HOST:PORT")
    return text.rstrip("/")


def zap_level(text: str) -> str:
    """A level by zap's name or verbosity."""
    if text.isdecimal():
        return "debug" if int(text) >= _VERBOSE else "info"
    if text == "panic":
        return "error"
    if text not in LEVELS:
        raise ArgumentTypeError(f"{text!r} is not a level; use debug, info, error, panic or a verbosity such as 2")
    return text


def zap_encoder(text: str) -> str:
    formats = {"json": "json", "console": "text"}
    if text not in formats:
        raise ArgumentTypeError(f"{text!r} is not an encoder; use json or console")
    return formats[text]
