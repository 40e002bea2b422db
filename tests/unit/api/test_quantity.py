# SPDX-License-Identifier: Apache-2.0
"""Quantities are read, compared, added and written as Kubernetes does it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from trainwright.api.quantity import Quantity, Style, canonical, equal

CASES = cases(__file__)


@pytest.mark.parametrize(("wire", "text"), CASES["canonical"])
def test_canonical(wire: str | float, text: str) -> None:
    assert canonical(wire) == text
    assert canonical(text) == text


@pytest.mark.parametrize(
    "wire", ["", "a", "1 Gi", " 1", "1\n", "1gi", "1.5.2", ".", "e3", "Ki", "1e1.5", "--1", "1kk", "1e9999", True]
)
def test_refused(wire: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.parse(wire)


def test_comparison_ignores_style() -> None:
    assert Quantity.parse("1") == Quantity.parse("1000m")
    assert hash(Quantity.parse("1Ki")) == hash(Quantity.parse("1024"))
    assert Quantity.parse("1500m") < Quantity.parse("2") <= Quantity.parse("2000m")
    assert equal("1", "1000m")
    assert equal(2, "2")
    assert not equal("1Gi", "1G")
    assert Quantity.parse("1") != "1"


def test_sums_keep_the_first_style() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("512Mi")) == "1536Mi"
    assert str(Quantity.parse("1G") + Quantity.parse("1Mi")) == "1001048576"
    assert (Quantity.parse("0") + Quantity.parse("1Gi")).style is Style.BINARY
    assert str(Quantity.parse("2") - Quantity.parse("500m")) == "1500m"
    assert str(Quantity.parse("500m") * 3) == "1500m"
    assert not Quantity.parse("1") - Quantity.parse("1")


@pytest.mark.parametrize(
    ("wire", "whole", "milli"),
    [("1", 1, 1000), ("1m", 1, 1), ("1500m", 2, 1500), ("0", 0, 0), ("1u", 1, 1), ("2.0001", 3, 2001)],
)
def test_rounding_up(wire: str, whole: int, milli: int) -> None:
    assert Quantity.parse(wire).rounded_up() == whole
    assert Quantity.parse(wire).milli() == milli


@given(st.integers(0, 10**12), st.sampled_from(["n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]))
def test_canonical_is_exact(number: int, suffix: str) -> None:
    made = Quantity.parse(f"{number}{suffix}")
    again = Quantity.parse(made.canonical())
    assert again == made
    tens = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "e3": 3, "E-2": -2}
    twos = {"Ki": 10, "Mi": 20, "Gi": 30}
    factor = Fraction(2) ** twos[suffix] if suffix in twos else Fraction(10) ** tens[suffix]
    largest = 2**63 - 1 if suffix.endswith("i") else 10**99
    assert Fraction(made.nanos, 10**9) == min(number * factor, largest)


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_order_is_that_of_the_numbers(one: int, other: int) -> None:
    assert (Quantity(one) < Quantity(other)) == (one < other)
    assert (Quantity(one) + Quantity(other)).nanos == one + other
