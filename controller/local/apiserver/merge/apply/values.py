# SPDX-License-Identifier: Apache-2.0
"""JSON values as Go sees them: equality, and the texts of a value in error messages and field sets.

Clients match on the texts of server-side apply, and those are what Go's `fmt` and JSON encoders print. Values are what
a JSON decoder makes: dict, list, str, int, float, bool and None.
"""

import json
from decimal import Decimal
from typing import Any

import msgspec

Value = Any
"""A JSON value."""

SCALARS = frozenset({str, int, float, bool})
"""The types of strings, numbers and truth values; null is none of them."""
_encode = msgspec.json.Encoder().encode
text_in_json = json.JSONEncoder(ensure_ascii=False).encode
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
    return _with_exponent(number).replace("e-0", "e-")


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


def quoted(text: str) -> str:
    """A string as Go's `%q` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted_character, text)) + '"'


_NAMED = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}


def _quoted_character(character: str) -> str:
    if character in _NAMED:
        return "\\" + _NAMED[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def float_text(number: float) -> str:
    """A float64 as Go's `%v` prints it."""
    if number == 0 or 1e-4 <= abs(number) < 1e6:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    return _with_exponent(number)


def _with_exponent(number: float) -> str:
    """The shortest form with an exponent of at least two digits, such as 1.5e+21."""
    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    whole, rest = str(digits[0]), "".join(map(str, digits[1:]))
    mantissa = f"{whole}.{rest}" if rest else whole
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def shown(value: Value) -> str:
    """A value as Go's `%v` prints it."""
    kind = type(value)
    if value is None:
        return "<nil>"
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return float_text(value)
    if kind is dict:
        return "map[" + " ".join(f"{key}:{shown(value[key])}" for key in sorted(value)) + "]"
    if kind is list:
        return "[" + " ".join(map(shown, value)) + "]"
    return str(value)


def literal(value: Value) -> str:
    """A value as Go's `%#v` prints it."""
    kind = type(value)
    if value is None:
        return "interface {}(nil)"
    if kind is str:
        return quoted(value)
    if kind is dict:
        inner = ", ".join(f"{quoted(key)}:{literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if kind is list:
        return f"[]interface {{}}{{{', '.join(map(literal, value))}}}"
    return shown(value)


def type_name(value: Value) -> str:
    """The type of a value as Go's `%T` prints it."""
    names = {
        str: "string",
        int: "int64",
        float: "float64",
        bool: "bool",
        dict: "map[string]interface {}",
        list: "[]interface {}",
    }
    return names.get(type(value), "<nil>")
