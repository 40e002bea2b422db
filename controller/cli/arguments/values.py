# SPDX-License-Identifier: Apache-2.0
"""What several commands take: options with the same meaning, and texts that become values."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig (default: as for kubectl, and where there is none the local cluster)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")


def add_config(parser: argparse.ArgumentParser, text: str) -> None:
    """The Configuration of a manager. `text` goes on after "file with the Configuration of the manager"."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"file with the Configuration of the manager{text}")


def add_namespaces(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="namespace (default: the one of the kubeconfig's context)")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="TrainJobs of all namespaces")


def add_output(parser: argparse.ArgumentParser, *forms: str) -> None:
    """The format of what a command prints; the first one is the default."""
    parser.add_argument("-o", "--output", choices=forms, default=forms[0], help="format (default: %(default)s)")


def add_list(parser: Any, *names: str, **more: Any) -> None:
    parser.add_argument(*names, action="append", default=[], **more)


def add_flag(parser: Any, *names: str, **more: Any) -> None:
    parser.add_argument(*names, action="store_true", **more)


def age(text: str) -> int:
    """A time as seconds."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write a number and s, m, h or d, such as 10m")
    return int(found[1]) * _UNITS[found[2]]


def whole(what: str, least: int, most: int = 10**9 - 1) -> Callable[[str], int]:
    """Reads a whole number. `what` goes on after "is not": what is wanted, and maybe what to write instead."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


number = whole("a number above 0", 1)


def gates(text: str) -> dict[str, bool]:
    """Read `Name=true,Other=false`. Raises ValueError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if value.lower() not in {"true", "false"}:
            raise ValueError(f"{part!r} must have the form NAME=true or NAME=false")
        found[name.strip()] = value.lower() == "true"
    return found
