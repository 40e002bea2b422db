# SPDX-License-Identifier: Apache-2.0
"""Options of lists: numbers, and tokens to continue with."""

import pytest

from trainwright.controller.local.apiserver.requests import go_integer


@pytest.mark.parametrize(
    ("text", "signed", "number"),
    [("5", True, 5), ("+5", True, 5), ("-5", True, -5), ("005", False, 5), (str(2**64 - 1), False, 2**64 - 1)],
)
def test_numbers(text: str, signed: bool, number: int) -> None:
    assert go_integer(text, signed=signed) == number


@pytest.mark.parametrize(
    ("text", "signed", "problem"),
    [
        ("1_0", True, "invalid syntax"),
        (" 1", True, "invalid syntax"),
        ("1.0", True, "invalid syntax"),
        ("\u0661", True, "invalid syntax"),
        ("+5", False, "invalid syntax"),
        ("-5", False, "invalid syntax"),
        (str(2**63), True, "value out of range"),
        (str(2**64), False, "value out of range"),
        ("9" * 5000, True, "value out of range"),
    ],
)
def test_what_is_no_number(text: str, signed: bool, problem: str) -> None:
    with pytest.raises(ValueError, match=rf"strconv\.Parse(Ui|I)nt: parsing .*: {problem}$"):
        go_integer(text, signed=signed)
