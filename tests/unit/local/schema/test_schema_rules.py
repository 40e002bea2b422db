# SPDX-License-Identifier: Apache-2.0
"""CEL rules in schemas: when they are evaluated, and what is said of a value that breaks one."""

import sys
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.schema.tables import errors, root
from trainwright.controller.local.apiserver.kinds.custom import Schema

CASES = cases(__file__)

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def ruled(field: dict[str, Any], rule: str, **words: Any) -> dict[str, Any]:
    return {**field, "x-kubernetes-validations": [{"rule": rule, **words}]}


@pytest.mark.parametrize(("field", "value", "expected"), CASES["rules"])
def test_rules(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


@pytest.mark.parametrize(("field", "old", "new", "expected"), CASES["rules_at_updates"])
def test_rules_at_updates(field: dict[str, Any], old: Any, new: Any, expected: list[str]) -> None:
    assert errors(field, new, old) == expected


def test_rules_are_not_evaluated_on_objects_of_a_wrong_form() -> None:
    schema = Schema(root({**TEXT, "maxLength": 1}, **{"x-kubernetes-validations": [{"rule": "false"}]}))
    told = [str(error) for error in schema.validate({"x": "ab"})]
    assert told == [
        "x: Too long: may not be more than 1 byte",
        (
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct "
            "the existing errors to complete validation"
        ),
    ]


def test_rules_of_the_object_have_no_field() -> None:
    schema = Schema({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name != 'a'"}]})
    (error,) = schema.validate({"metadata": {"name": "a"}})
    assert str(error) == "<nil>: Invalid value: failed rule: self.metadata.name != 'a'"


def test_the_evaluator_is_only_needed_for_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)
    assert errors(TEXT, "a") == []


NUMBERS = {"type": "array", "items": NUMBER}


def test_a_rule_with_too_many_iterations_is_answered_with_a_sentence() -> None:
    long = ruled(NUMBERS, "self.all(x, self.all(y, x + y >= 0))", message="m")
    assert errors(long, list(range(90))) == []
    (refused,) = errors(long, list(range(120)))
    assert refused.endswith(
        "more than 10,000 iterations, which are not evaluated here (give the lists maxItems), evaluating rule: m"
    )


@pytest.mark.parametrize("stored", [5, ["a"], {"a": 5}, {"a": [5]}, {"b": "no number"}])
def test_rules_are_evaluated_over_a_stored_value_that_does_not_fit(stored: Any) -> None:
    """As after a change of the definition: its errors are excused, and an update may leave it."""
    items = {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "number"}}}}
    inside = {"a": items, "b": {"type": "number"}}
    assert errors(ruled({"type": "object", "properties": inside}, "true"), stored, stored) == []
