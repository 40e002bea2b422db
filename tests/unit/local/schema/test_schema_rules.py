# SPDX-License-Identifier: Apache-2.0
"""CEL rules in schemas: when they are evaluated, and what is said of a value that breaks one."""

import sys
from typing import Any

import pytest

from tests.unit.local.schema.tables import errors, root
from trainwright.controller.local.apiserver.schema import compile_schema

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def ruled(field: dict[str, Any], rule: str, **words: Any) -> dict[str, Any]:
    return {**field, "x-kubernetes-validations": [{"rule": rule, **words}]}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (ruled(NUMBER, "self < 5"), 4, []),
        (ruled(NUMBER, "self < 5"), 6, ["Invalid x: Invalid value: 6: failed rule: self < 5"]),
        (ruled(NUMBER, "self < 5", message=" less! "), 6, ["Invalid x: Invalid value: 6: less!"]),
        (
            ruled(NUMBER, "self < 5", messageExpression="'not ' + string(self)"),
            6,
            ["Invalid x: Invalid value: 6: not 6"],
        ),
        (
            ruled(NUMBER, "self < 5", messageExpression="string(1 / (self - 6))", message="m"),
            6,
            ["Invalid x: Invalid value: 6: m"],
        ),
        (
            ruled(NUMBER, "self < 5", reason="FieldValueForbidden", message="m"),
            6,
            ["Forbidden x: Forbidden: m"],
        ),
        (ruled(NUMBER, "self < 5", reason="FieldValueDuplicate"), 6, ["Duplicate x: Duplicate value: 6"]),
        (
            ruled(
                {"type": "object", "properties": {"a": NUMBER}},
                "has(self.a)",
                reason="FieldValueRequired",
                fieldPath=".a",
                message="m",
            ),
            {},
            ["Required x.a: Required value: m"],
        ),
        (
            {"type": "array", "items": ruled(NUMBER, "self > 0")},
            [1, 0],
            ["Invalid x[1]: Invalid value: 0: failed rule: self > 0"],
        ),
        (
            {"type": "object", "additionalProperties": ruled(NUMBER, "self > 0")},
            {"k": 0},
            ["Invalid x[k]: Invalid value: 0: failed rule: self > 0"],
        ),
        (
            ruled({"type": "object", "properties": {"a": NUMBER}}, "self.a > 0", message="m"),
            {},
            ['Invalid x: Invalid value: "object": no such key: a evaluating rule: m'],
        ),
        (
            ruled({"x-kubernetes-int-or-string": True}, "self < 5"),
            "a",
            [
                (
                    "Invalid x: Invalid value: \"\": 'no such overload': call arguments did not match a supported "
                    "operator, "
                    "function or macro signature for rule: self < 5"
                )
            ],
        ),
        (ruled({**TEXT, "format": "date-time"}, "self.getFullYear() > 2000"), "2001-01-01T00:00:00Z", []),
        (
            ruled(
                {"type": "object", "properties": {"for": {**TEXT, "format": "duration"}, "a-b": NUMBER}},
                "self.__for__ < duration('1h') && self.a__dash__b == 1",
            ),
            {"for": "5m", "a-b": 1},
            [],
        ),
        (ruled({"type": "number"}, "self / 2.0 == 0.5"), 1, []),
        (ruled(TEXT, "quantity(self).isLessThan(quantity('1Gi'))"), "1Mi", []),
        (
            ruled({"type": "object", "properties": {"a": {**TEXT, "nullable": True}}}, "!has(self.a)"),
            {"a": None},
            [],
        ),
    ],
)
def test_rules(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


FIXED = ruled(TEXT, "self == oldSelf", message="fixed")
ONCE = ruled(TEXT, "oldSelf.hasValue() ? oldSelf.value() == self : self == 'a'", optionalOldSelf=True, message="once")
ITEM = {"type": "object", "properties": {"name": TEXT, "value": FIXED}}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": ITEM,
}
SET = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}


@pytest.mark.parametrize(
    ("field", "old", "new", "expected"),
    [
        (FIXED, None, "a", []),
        (FIXED, "a", "b", ['Invalid x: Invalid value: "b": fixed']),
        (ONCE, None, "b", ['Invalid x: Invalid value: "b": once']),
        (ONCE, "b", "b", []),
        (ONCE, "a", "b", ['Invalid x: Invalid value: "b": once']),
        (
            KEYED,
            [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
            [{"name": "b", "value": "3"}, {"name": "c", "value": "1"}],
            ['Invalid x[0].value: Invalid value: "3": fixed'],
        ),
        (ruled(SET, "self == oldSelf"), ["a", "b"], ["b", "a"], []),
        (ruled(TEXT, "self == 'x'"), "y", "y", []),
        (ruled(TEXT, "self == 'x'"), "y", "z", ["Invalid x: Invalid value: \"z\": failed rule: self == 'x'"]),
    ],
)
def test_rules_at_updates(field: dict[str, Any], old: Any, new: Any, expected: list[str]) -> None:
    assert errors(field, new, old) == expected


def test_rules_are_not_evaluated_on_objects_of_a_wrong_form() -> None:
    schema = compile_schema(root({**TEXT, "maxLength": 1}, **{"x-kubernetes-validations": [{"rule": "false"}]}))
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
    schema = compile_schema({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name != 'a'"}]})
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
