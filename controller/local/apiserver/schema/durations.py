# SPDX-License-Identifier: Apache-2.0
"""Durations as Go writes them, such as `1h30m` (https://pkg.go.dev/time#ParseDuration)."""

import re

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
"""Nanoseconds."""
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LONGEST = 2**63
_DIGITS = 19
"""Of 2**63."""


def nanoseconds(text: str) -> int:
    """How long a duration is. Raises ValueError with the words of Go."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    invalid = ValueError(f"time: invalid duration {_quoted(text)}")
    if not rest:
        raise invalid
    total, at = 0, 0
    while at < len(rest):
        found = _PART.match(rest, at)
        assert found is not None
        whole, fraction, unit = found[1], found[2] or "", found[3]
        if not whole and not fraction:
            raise invalid
        whole = whole.lstrip("0")
        if len(whole) > _DIGITS or int(whole or 0) > _LONGEST:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        fraction = fraction[:_DIGITS]  # the rest is less than a nanosecond
        total += int(whole or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
        at = found.end()
    if total > _LONGEST or (total == _LONGEST and text[0] != "-"):
        raise invalid
    return -total if text[0] == "-" else total


def _quoted(text: str) -> str:
    """As Go's package `time` quotes: everything beyond ASCII by its bytes."""
    made = ""
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if byte >= 0x80 or byte < 0x20:
            made += f"\\x{byte:02x}"
        else:
            made += "\\" + character if character in '"\\' else character
    return f'"{made}"'
