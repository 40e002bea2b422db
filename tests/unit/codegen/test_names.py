# SPDX-License-Identifier: Apache-2.0
"""Attribute names keep acronyms whole and are safe in Python."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from trainwright.codegen.structs import attribute

CASES = cases(__file__)


@pytest.mark.parametrize(("wire", "name"), CASES["names"])
def test_names(wire: str, name: str) -> None:
    assert attribute(wire) == name


@given(st.from_regex(r"\A[A-Za-z$][A-Za-z0-9.-]{0,20}\Z"))
def test_every_name_is_an_attribute(wire: str) -> None:
    name = attribute(wire)
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert name == name.lower()
