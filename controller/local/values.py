# SPDX-License-Identifier: Apache-2.0
"""JSON values as Go sees them: equality, copies, depth, and the texts of values in messages and field sets.

Values are what a JSON decoder makes: dict, list, str, int, float, bool and None.

kube-apiserver takes documents of ten thousand levels. Most code here is recursive; Python's recursion limit is a few
hundred levels. So the depth is limited where documents are read, as that of YAML is.
"""

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

from trainwright.api.manifest import DEEPEST

Value = Any
"""A JSON value."""

SCALARS = frozenset({str, int, float, bool})
"""The types of strings, numbers and truth values; null is none of them."""
Step = str | int
"""The name of a field or the index of an item."""
TOO_DEEP = f"exceeded max depth of {DEEPEST} levels"
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
text_in_json = quoted = json.JSONEncoder(ensure_ascii=False).encode
"""`json.dumps` makes a new encoder for each text."""


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same JSON: 1 equals 1.0 but not true, and the order of keys does not matter."""
    # The same bytes are the common case, and made faster than both are walked through.
    return left is right or (left == right and (_encode(left) == _encode(right) or _same_truth_values(left, right)))


def _same_truth_values(left: Value, right: Value) -> bool:
    """For values that Python holds equal, which takes True for 1."""
    kind = type(left)
    if kind is str or left is None:
        return True
    if kind is dict:
        return all(left[key] is value or _same_truth_values(left[key], value) for key, value in right.items())
    if kind is list:
        return all(map(_same_truth_values, left, right))
    return (kind is bool) == (type(right) is bool)


def number_text(number: float) -> str:
    """A number as Go's JSON encoder writes it."""
    if type(number) is int:
        return str(number)
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    return repr(number).replace("e-0", "e-")


def json_text(value: Value) -> str:
    """A value as Go's JSON encoder writes it: keys sorted, no spaces, `<`, `>` and `&` escaped."""
    kind = type(value)
    if kind is str:
        return escaped(text_in_json(value))
    if kind is dict:
        return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
    if kind is list:
        return "[" + ",".join(map(json_text, value)) + "]"
    if kind is int or kind is float:
        return number_text(value)
    return {None: "null", True: "true", False: "false"}[value]


def escaped(text: str) -> str:
    """JSON with what HTML gives a meaning escaped, as Go writes it. These signs occur only inside of strings."""
    if text.isascii() and "<" not in text and ">" not in text and "&" not in text:
        return text
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def shown(value: Value) -> str:
    """A value for people: a text as it is, anything else as JSON."""
    return value if type(value) is str else json_text(value)


def copied(value: Any) -> Any:
    """A copy that shares no object and no list with the value. A walk in Python takes three times as long."""
    return _decode(_encode(value))


def is_too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a document is nested more deeply than is supported."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    if levels == 0:
        return True
    return any(is_too_deep(inner, levels - 1) for inner in value if type(inner) is dict or type(inner) is list)


def read_json(body: bytes) -> Any:
    """Decode JSON as Go does: integers beyond 64 bits become floats, broken UTF-8 is replaced. Raises ValueError."""
    try:
        value = _read_slowly(body) if _LONG_NUMBER.search(body) else _decode(body)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _read_slowly(body)
    # Most bodies have too few brackets for that.
    if body.count(b"{") + body.count(b"[") > DEEPEST and is_too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def _read_slowly(body: bytes) -> Any:
    """Decode what is well-formed for Go and not for msgspec: broken UTF-8, halves of surrogate pairs, long numbers."""
    try:
        text = body.decode(errors="replace")
        value = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_no_constant)
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    return _decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _integer(text: str) -> float:
    if len(text) > 20:
        return _float(text)
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(number)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def path_text(steps: Iterable[Step]) -> str:
    made = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps)
    return made.removeprefix(".")


def join(base: str, name: str) -> str:
    return f"{base}.{name}" if base and name else base or name
