# SPDX-License-Identifier: Apache-2.0
"""Durations as Go writes them, such as `1h30m` (https://pkg.go.dev/time#ParseDuration)."""

import re

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
"""Nanoseconds."""
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = 2**63
_DIGITS = 19
"""Of 2**63."""


def nanoseconds(text: str) -> int:
    """How long a duration is. Raises ValueError."""
    negative, rest = text[:1] == "-", text[1:] if text[:1] in ("-", "+") else text
    total, at = 0, 0
    while at < len(rest) and rest != "0":
        found = _PART.match(rest, at)
        whole, fraction, unit = found.groups(default="") if found is not None else ("", "", "")
        if found is None or not whole + fraction or len(whole.lstrip("0")) > _DIGITS:
            raise ValueError(f"{text!r} is not a duration such as 1h30m")
        fraction = fraction[:_DIGITS]  # the rest is less than a nanosecond
        total += int(whole or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
        at = found.end()
    if not rest or total >= _LONGEST + negative:
        raise ValueError(f"{text!r} is not a duration such as 1h30m, or too long")
    return -total if negative else total
