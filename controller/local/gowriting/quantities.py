# SPDX-License-Identifier: Apache-2.0
"""Quantities as Go writes them back: canonically, except for some texts that it keeps although they are not canonical.

Go's parser keeps the text of a number that looks canonical to it, and overlooks a sign, a point at the end, and a
capital E: `+1`, `5.` and `2E3` come back as they are (apimachinery, `resource.ParseQuantity`).
"""

import re

from trainwright.api.quantity import Wire, canonical

_TEXT = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE])i|([numkMGTPE])|[eE]([+-]?[0-9]+))?")
_BINARY = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DIGITS = 18
"""Digits that always fit into 64 bits."""
_BINARY_DIGITS = 15
_LEAST_SCALE = -9


def written(wire: Wire) -> str:
    """A quantity as kube-apiserver answers it. Raises `ValueError` for what is no quantity."""
    made = canonical(wire)
    return wire if isinstance(wire, str) and _is_kept(wire) else made


def _is_kept(text: str) -> bool:
    found = _TEXT.fullmatch(text)
    if found is None:
        return False
    whole, fraction = found[1] or "0", found[2] or ""
    digits = whole + fraction
    if found[3]:
        power = _BINARY[found[3]]
        fits = _BINARY_DIGITS - len(whole) - power * 3 // 10 - 1 >= 0
        return fits and not fraction and int(whole) % 8 != 0
    exponent = int(found[5]) if found[5] else _DECIMAL.get(found[4], 0)
    scale = exponent - len(fraction)
    fits = len(digits) <= _DIGITS and scale >= _LEAST_SCALE
    return fits and scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
