# SPDX-License-Identifier: Apache-2.0
"""Compares resource versions.

A resource version is opaque. Two versions of one resource can be ordered if both are positive decimal numbers without
leading zeros. Others cannot be compared; callers then choose the safe way.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 if `a` is older than, equal to or newer than `b`; None if they cannot be compared."""
    canonical = (a.isascii() and a.isdigit() and a[0] != "0") and (b.isascii() and b.isdigit() and b[0] != "0")
    if not canonical:
        return 0 if a and a == b else None
    if len(a) != len(b):
        return 1 if len(a) > len(b) else -1
    return (a > b) - (a < b)


def at_least(a: str, b: str) -> bool:
    """Whether `a` is known to be `b` or newer."""
    order = compare(a, b)
    return order is not None and order >= 0
