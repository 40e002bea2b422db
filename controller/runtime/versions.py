# SPDX-License-Identifier: Apache-2.0
"""Comparing resource versions (R-34).

A resource version is opaque, but two versions of one resource may be ordered if both are positive decimals in
canonical form. Anything else is not comparable, and callers must then take the safe way.
"""


def _canonical(version: str) -> bool:
    return version.isascii() and version.isdigit() and version[0] != "0"


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 as `a` is older than, equal to or newer than `b`; None if they cannot be compared."""
    if not (_canonical(a) and _canonical(b)):
        return 0 if a and a == b else None
    if len(a) != len(b):
        return 1 if len(a) > len(b) else -1
    return (a > b) - (a < b)


def at_least(a: str, b: str) -> bool:
    """True only if `a` is known to be equal to or newer than `b`."""
    order = compare(a, b)
    return order is not None and order >= 0
