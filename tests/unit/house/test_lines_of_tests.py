# SPDX-License-Identifier: Apache-2.0
"""The soak that tells which lines each test runs: whom a line is counted for, and which tests are equal."""

import pytest

from tests.soak.coverage import counted_for, equals, lines_of


@pytest.mark.parametrize(
    ("context", "test"),
    [
        ("", ""),
        ("tests/a.py::test_b", "tests/a.py::test_b"),
        ("tests/a.py::test_b (call)", "tests/a.py::test_b"),
        ("tests/a.py::test_b[x|y (z)\n] (setup)", "tests/a.py::test_b"),
        ("tests/a.py::test_b[|] (call)|", "tests/a.py::test_b"),
        ("tests/a.py::test_b (teardown)|test_c.py::test_d", "test_c.py::test_d"),
    ],
)
def test_a_line_is_counted_for_the_function_that_ran_it(context: str, test: str) -> None:
    assert counted_for(context) == test


def test_lines_that_one_test_alone_runs_are_its_own() -> None:
    found = lines_of(
        [("a.py", {1: ["", "t::x"], 2: ["t::x", "t::y"]}), ("b.py", {1: ["t::y (call)", "t::y"], 3: [""]})]
    )
    assert {name: (lines.number, lines.alone) for name, lines in found.items()} == {
        "t::x": (2, ["a.py:1"]),
        "t::y": (2, ["b.py:1"]),
    }


def test_equal_tests_of_one_module_are_no_twins() -> None:
    one, two = ["m::a", "m::b", "n::c"], ["m::d", "m::e"]
    found = lines_of([("a.py", {1: one, 2: one, 3: two}), ("b.py", {1: ["n::f"], 2: ["o::g", "p::h"]})])
    assert equals(found) == [["m::a", "m::b", "n::c"], ["o::g", "p::h"]]
