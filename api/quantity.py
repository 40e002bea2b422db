# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources, as Kubernetes reads, compares, adds and writes them.

On the wire a quantity is text such as `1.5Gi`, `100m` or `2e3`, or a number; models keep that form. Here it is an exact
number of billionths, the smallest unit of Kubernetes, together with the style in which it is written.
"""

import re
from enum import Enum
from functools import total_ordering

_NANO = 10**9
_LARGEST_BINARY = (2**63 - 1) * _NANO
_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(|[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {power: suffix for suffix, power in _BINARY.items()}
_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_LARGEST_EXPONENT = 1_000
"""Larger exponents are refused: they are mistakes, and a number with a billion digits would exhaust the memory."""

Wire = str | int | float
"""A quantity as models hold it."""


class Style(Enum):
    """How a quantity is written."""

    DECIMAL = "decimal"
    """`100m`, `2k`."""
    BINARY = "binary"
    """`1536Mi`."""
    EXPONENT = "exponent"
    """`2e3`."""


@total_ordering
class Quantity:
    """An exact amount. Equal amounts are equal, however they are written."""

    __slots__ = ("nanos", "style")

    def __init__(self, nanos: int, style: Style = Style.DECIMAL) -> None:
        self.nanos = nanos
        """The amount in billionths."""
        self.style = style

    @classmethod
    def parse(cls, wire: Wire) -> "Quantity":
        """Read a value of the wire. Raises `ValueError` for what Kubernetes would refuse."""
        if isinstance(wire, bool):
            raise ValueError(f"{wire!r} is not a quantity")  # noqa: TRY004  a wrong value of the wire, not a wrong call
        text = repr(wire) if isinstance(wire, float) else str(wire)
        found = _TEXT.fullmatch(text)
        if found is None or not (found[2] or found[3]):
            raise ValueError(f"{text!r} is not a quantity; write a number and a suffix, such as 100m, 2, 1.5Gi or 2e3")
        sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
        digits = int(whole + fraction or "0")
        if suffix in _BINARY:
            style, nanos = _binary(digits, len(fraction), _BINARY[suffix])
        else:
            style, power = _decimal(suffix, text)
            nanos = _scaled(digits, power - len(fraction) + 9)
        return cls(-nanos if sign == "-" else nanos, style)

    def canonical(self) -> str:
        """The canonical text of this amount in its style: without a fraction, with the largest suffix that allows
        this."""
        if self.nanos == 0:
            return "0"
        if self.style is Style.BINARY and abs(self.nanos) >= 1024 * _NANO and self.nanos % _NANO == 0:
            number, power = _without(self.nanos // _NANO, 1024, max(_BINARY_SUFFIXES))
            return f"{number}{_BINARY_SUFFIXES[power]}" if power else str(number)
        number, power = _without(self.nanos, 1000, None if self.style is Style.EXPONENT else 9)
        exponent = 3 * power - 9
        if self.style is Style.EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIXES[exponent]}"

    def rounded_up(self) -> int:
        """Whole units, such as CPUs, bytes or devices, rounded up."""
        return -(-self.nanos // _NANO)

    def milli(self) -> int:
        """Whole thousandths, as schedulers count CPUs, rounded up."""
        return -(-self.nanos // (_NANO // 1000))

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self._style_with(other))

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self._style_with(other))

    def __mul__(self, count: int) -> "Quantity":
        return Quantity(self.nanos * count, self.style)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        return self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({self.canonical()})"

    def _style_with(self, other: "Quantity") -> Style:
        return self.style if self else other.style


def canonical(wire: Wire) -> str:
    """The canonical form of a value of the wire."""
    return Quantity.parse(wire).canonical()


def equal(one: Wire, other: Wire) -> bool:
    """Whether two values of the wire are the same amount: `1` and `1000m` are."""
    return one == other or Quantity.parse(one) == Quantity.parse(other)


def _binary(digits: int, fraction: int, power: int) -> tuple[Style, int]:
    nanos = min(_scaled(digits * 1024**power, 9 - fraction), _LARGEST_BINARY)
    return (Style.DECIMAL if 0 < nanos < _NANO else Style.BINARY), nanos


def _decimal(suffix: str, text: str) -> tuple[Style, int]:
    if suffix in _DECIMAL:
        return Style.DECIMAL, _DECIMAL[suffix]
    exponent = int(suffix[1:])
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(f"{text!r} is not a quantity; its exponent is beyond {_LARGEST_EXPONENT}")
    return Style.EXPONENT, exponent


def _scaled(number: int, power: int) -> int:
    """The number times ten to a power, rounded up, so that an amount above zero stays above zero."""
    factor: int = 10 ** abs(power)
    return number * factor if power >= 0 else -(-number // factor)


def _without(number: int, factor: int, most: int | None) -> tuple[int, int]:
    power = 0
    while number % factor == 0 and (most is None or power < most):
        number //= factor
        power += 1
    return number, power
