# SPDX-License-Identifier: Apache-2.0
"""Times and durations in wire form.

Models keep them as text, so that the text of a server is written back unchanged: a MicroTime has six digits of a second
and a Time has none, which a datetime would lose.
"""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from trainwright.api.surroundings import present

Now: TypeAlias = Callable[[], datetime]
"""The source of wall-clock time that is written into objects; tests pass their own."""

_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST_SECONDS = 2**63 / 1e9
"""Go counts nanoseconds in 64 bits."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


LOOK_SECONDS = 30.0
"""Upper bound of one wait for a moment that comes whether the machine sleeps or not: timers stand still meanwhile."""
_RUNNING_ON = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops its monotonic clock while the machine sleeps; macOS does not."""


def wall_clock() -> datetime:
    """The current time, in UTC. Durations inside the process use the event loop's clock instead."""
    return present().now()


def running_on() -> float:
    """Seconds on a clock that goes on while the machine sleeps, and that nobody sets."""
    return time.clock_gettime(_RUNNING_ON)


def parse(text: str) -> datetime:
    """Read a Time or MicroTime (RFC 3339). The result knows its zone. Raises `ValueError`."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is not a time; write it like 2026-11-20T08:30:00Z")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range in UTC; use a year from 2 to 9998") from error


def moment(text: object) -> datetime | None:
    """The same for a time of an object; None if it is not set or is no time, which no API server stores."""
    try:
        return parse(text) if isinstance(text, str) and text else None
    except ValueError:
        return None


def format_time(moment: datetime) -> str:
    """A Time: UTC, in whole seconds, truncated."""
    return _utc(moment).isoformat(timespec="seconds") + "Z"


def format_micro_time(moment: datetime) -> str:
    """A MicroTime: UTC, always six digits."""
    return _utc(moment).isoformat(timespec="microseconds") + "Z"


def parse_duration(text: str) -> timedelta:
    """Read a duration as Go writes it: `15s`, `1h30m`, `1.5h`, `0`. Raises `ValueError`."""
    if text in ("0", "+0", "-0"):
        return timedelta(0)
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write numbers with units, such as 15s, 2m or 1h30m")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    if seconds > _LONGEST_SECONDS:
        raise ValueError("durations of more than 292 years are not supported")
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be written; give it one, such as UTC")
    # Without the zone, which isoformat would write as +00:00. strftime writes years before 1000 with fewer digits.
    return moment.astimezone(UTC).replace(tzinfo=None)
