# SPDX-License-Identifier: Apache-2.0
"""What the schema engine says of values, in the words of the real server (from which the texts are)."""

from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.schema.tables import errors
from trainwright.controller.local.apiserver.kinds.custom import Schema

CASES = cases(__file__)

NUMBER = {"type": "integer"}


@pytest.mark.parametrize(("field", "value", "expected"), CASES["errors"])
def test_errors(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


@pytest.mark.parametrize(("field", "old", "new", "expected"), CASES["unchanged_values_are_excused"])
def test_unchanged_values_are_excused(field: dict[str, Any], old: Any, new: Any, expected: list[str]) -> None:
    assert errors(field, new, old) == expected


def test_a_status_is_checked_by_its_own_schema() -> None:
    schema = Schema({"type": "object", "properties": {"status": {"type": "object", "properties": {"n": NUMBER}}}})
    (error,) = schema.validate({"status": {"n": "a"}}, {}, status=True)
    assert error.field == "status.n"
    assert error.message == 'Invalid value: "string": must be of type integer: "string"'
    assert schema.validate({"status": {"n": "a"}}, {"status": {"n": "a"}}, status=True) == []


def test_no_string_holds_up_the_server() -> None:
    field = {"type": "string", "pattern": "^(a+)+$"}
    value = "a" * 100 + "b"
    [said] = errors(field, value)
    assert said == f"Invalid x: Invalid value: \"{value}\": should match '^(a+)+$'"
