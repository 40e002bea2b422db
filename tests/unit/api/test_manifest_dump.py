# SPDX-License-Identifier: Apache-2.0
"""What is written as YAML is read back as the same data, also by rules that take `y` for true."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.api.manifest import dump, load

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


@given(st.dictionaries(TEXT, DATA, max_size=4))
def test_it_is_read_back_as_it_was(data: dict[str, Any]) -> None:
    assert load(dump(data)) == data


@pytest.mark.parametrize(
    "text", ["y", "n", "yes", "Off", "1:30", "2026-11-20", "1e3", "0755", "0o7", "~", "null", "", "1_000"]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert load(dump({"value": text, text or "-": 1})) == {"value": text, text or "-": 1}


def test_single_letters_that_mean_true_are_quoted_and_lines_are_kept() -> None:
    assert dump({"n": "o", "y": "no", "script": "a\nb\n"}) == "'n': o\nscript: |\n  a\n  b\n'y': 'no'\n"


@given(st.dictionaries(TEXT, DATA, max_size=4))
def test_the_order_of_keys_is_kept_when_asked(data: dict[str, Any]) -> None:
    found = load(dump(data, sort_keys=False))
    assert found == data
    assert list(found) == list(data)


def test_equal_parts_are_written_twice() -> None:
    part = {"a": 1}
    assert dump({"one": part, "two": part}) == "one:\n  a: 1\ntwo:\n  a: 1\n"
