# SPDX-License-Identifier: Apache-2.0
"""What a check found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How much a finding asks of the admin."""

    PROBLEM = "problem"
    """Jobs cannot run, or some of them cannot."""
    WARNING = "warning"
    """Jobs run, and something will go wrong with some of them."""
    NOTE = "note"
    """Worth knowing."""
    UNKNOWN = "unknown"
    """It could not be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, and what to do about it."""

    level: Level
    message: str
    """What is wrong, with which object."""
    remedy: str
    """What to do."""
    check: str = ""
    """The check that found it; filled in by the one who runs the checks."""


def first_of(names: Sequence[str], limit: int = 3) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def problem(message: str, remedy: str) -> Finding:
    """Jobs cannot run."""
    return Finding(level=Level.PROBLEM, message=message, remedy=remedy)


def warning(message: str, remedy: str) -> Finding:
    """Something will go wrong."""
    return Finding(level=Level.WARNING, message=message, remedy=remedy)


def note(message: str, remedy: str) -> Finding:
    """Worth knowing."""
    return Finding(level=Level.NOTE, message=message, remedy=remedy)
