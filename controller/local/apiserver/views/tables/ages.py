# SPDX-License-Identifier: Apache-2.0
"""Durations as `kubectl get` shows them: two or three digits are enough."""

from datetime import datetime, timedelta
from typing import Any

from trainwright.api.times import parse

UNKNOWN = "<unknown>"


def human_duration(duration: timedelta) -> str:
    """A duration such as `45s`, `5m12s`, `3h`, `2d4h` or `1y30d`; a negative one is `<invalid>`."""
    # Towards zero: a clock that is less than two seconds behind counts as now.
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 180:
        return _two(minutes, "m", seconds % 60 if minutes < 10 else 0, "s")
    if hours < 48:
        return _two(hours, "h", minutes % 60 if hours < 8 else 0, "m")
    if days < 365 * 2:
        return _two(days, "d", hours % 24 if days < 8 else 0, "h")
    return _two(days // 365, "y", days % 365 if days < 365 * 8 else 0, "d")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def since(timestamp: Any, now: datetime) -> str:
    """The age of a Time or MicroTime; `<unknown>` where there is none."""
    return human_duration(now - parse(timestamp)) if timestamp else UNKNOWN
