# SPDX-License-Identifier: Apache-2.0
"""What the schema engine says of values, in the words of the real server (from which the texts are)."""

from typing import Any

import pytest

from tests.unit.local.schema.tables import errors
from trainwright.controller.local.apiserver.schema import compile_schema

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
INT32 = {"type": "integer", "format": "int32"}


def wrong_type(wanted: str, found: str) -> str:
    return f'TypeInvalid x: Invalid value: "{found}": must be of type {wanted}: "{found}"'


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (TEXT, 1, wrong_type("string", "integer")),
        (TEXT, 1.5, wrong_type("string", "number")),
        (TEXT, None, wrong_type("string", "null")),
        (TEXT, {}, wrong_type("string", "object")),
        (NUMBER, "1", wrong_type("integer", "string")),
        (NUMBER, True, wrong_type("integer", "boolean")),
        (INT32, True, wrong_type("integer", "boolean")),
        (INT32, "1", wrong_type("integer", "string")),
        ({"type": "string", "format": "date-time"}, 5, wrong_type("string", "integer")),
        ({"type": "boolean"}, [], wrong_type("boolean", "array")),
        ({"x-kubernetes-int-or-string": True}, True, wrong_type("integer,string", "boolean")),
        ({"type": "array", "items": TEXT}, {}, wrong_type("array", "object")),
    ],
)
def test_types(field: dict[str, Any], value: Any, expected: str) -> None:
    assert errors(field, value) == [expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (NUMBER, 1.0),
        ({"type": "number"}, 1),
        ({"x-kubernetes-int-or-string": True}, 1),
        ({"x-kubernetes-int-or-string": True}, "a"),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, {}]),
        ({"type": "string", "format": "unknown"}, "a"),
        ({"type": "string", "format": "date-time"}, ["not looked at"]),
        ({"x-kubernetes-int-or-string": True, "enum": ["a"]}, 97),
        ({"type": "number", "maximum": 1, "minimum": 1}, 1),
        ({"type": "string", "pattern": "b"}, "abc"),
        ({"type": "string", "maxLength": 1}, "\N{GRINNING FACE}"),
    ],
)
def test_what_is_accepted(field: dict[str, Any], value: Any) -> None:
    assert errors(field, value) == []


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({"type": "string", "maxLength": 2}, "abc", ["TooLong x: Too long: may not be more than 2 bytes"]),
        (
            {"type": "string", "minLength": 2},
            "a",
            ['Invalid x: Invalid value: "a": should be at least 2 chars long'],
        ),
        (
            {"type": "string", "pattern": "^a$"},
            "a\n",
            ["Invalid x: Invalid value: \"a\\n\": should match '^a$'"],
        ),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            ['NotSupported x: Unsupported value: "c": supported values: "a", "b"'],
        ),
        ({"type": "integer", "enum": [1]}, 2, ['NotSupported x: Unsupported value: 2: supported values: "1"']),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            None,
            ['NotSupported x: Unsupported value: null: supported values: "a"'],
        ),
        (
            {"type": "integer", "minimum": 1},
            0,
            ["Invalid x: Invalid value: 0: should be greater than or equal to 1"],
        ),
        (
            {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
            1.5,
            ["Invalid x: Invalid value: 1.5: should be less than 1.5"],
        ),
        (
            {"type": "integer", "multipleOf": 2},
            3,
            ["Invalid x: Invalid value: 3: should be a multiple of 2"],
        ),
        (
            INT32,
            2**31,
            ['Invalid <nil>: Invalid value: "": "x" must be of type integer with format int32'],
        ),
        (
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a", "b"],
            ["TooMany x: Too many: 2: must have at most 1 item"],
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            [],
            ["Invalid x: Invalid value: 0: should have at least 1 items"],
        ),
        (
            {"type": "object", "additionalProperties": NUMBER, "maxProperties": 0},
            {"a": 1},
            ["TooMany x: Too many: 1: must have at most 0 items"],
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"a": 1},
            ['Invalid x: Invalid value: "a": is a forbidden property'],
        ),
        ({"type": "object", "required": ["a", "b"]}, {"b": 1}, ["Required x.a: Required value"]),
        (
            {"type": "string", "format": "ipv4"},
            "a",
            ['TypeInvalid x: Invalid value: "a": must be of type ipv4'],
        ),
    ],
)
def test_values(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


LISTED = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "port": NUMBER}}}
SET = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
MAP = {**LISTED, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
PORTS = {**MAP, "x-kubernetes-list-map-keys": ["port", "name"]}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (SET, ["a", "b", "a", "a"], ['Duplicate x[2]: Duplicate value: "a"']),
        (MAP, [{"name": "a"}, {"name": "a"}], ['Duplicate x[1]: Duplicate value: {"name":"a"}']),
        (MAP, [{}, {}], ["Duplicate x[1]: Duplicate value: {}"]),
        (PORTS, [{"port": 1}, {"port": 1}], ['Duplicate x[1]: Duplicate value: {"port":1}']),
        (PORTS, [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}], []),
    ],
)
def test_lists(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


ANY = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}
ONE = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
ALL = {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (ANY, {"a": 1}, []),
        (
            ANY,
            {},
            [
                'Invalid <nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
                "Required x.a: Required value",
            ],
        ),
        (ONE, {"a": 1}, []),
        (
            ONE,
            {"a": 1, "b": 1},
            [
                (
                    'Invalid <nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
                    "Found 2 valid alternatives"
                )
            ],
        ),
        (
            ALL,
            "a",
            [
                'Invalid x: Invalid value: "a": should be at least 2 chars long',
                'Invalid <nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
            ],
        ),
        (
            {"type": "object", "not": {"required": ["a"]}},
            {"a": 1},
            ['Invalid <nil>: Invalid value: "": "x" must not validate the schema (not)'],
        ),
    ],
)
def test_alternatives(field: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert errors(field, value) == expected


def test_paths_reach_into_maps_and_lists() -> None:
    inner = {"type": "object", "additionalProperties": {"type": "array", "items": NUMBER}}
    field = {"type": "object", "properties": {"y": inner}}
    assert errors(field, {"y": {"k.l": [1, "a"]}}) == [
        'TypeInvalid x.y.k.l[1]: Invalid value: "string": must be of type integer: "string"'
    ]


LIMITED = {"type": "string", "maxLength": 1}
ITEMS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": TEXT, "value": LIMITED}},
}
TOO_LONG = "Too long: may not be more than 1 byte"


@pytest.mark.parametrize(
    ("field", "old", "new", "expected"),
    [
        (LIMITED, "ab", "ab", []),
        (LIMITED, "ab", "cd", [f"TooLong x: {TOO_LONG}"]),
        (ITEMS, [{"name": "a", "value": "ab"}], [{"name": "b"}, {"name": "a", "value": "ab"}], []),
        (
            ITEMS,
            [{"name": "a", "value": "ab"}],
            [{"name": "b", "value": "ab"}],
            [f"TooLong x[0].value: {TOO_LONG}"],
        ),
        ({"type": "array", "items": LIMITED}, ["ab"], ["ab"], []),
        ({"type": "array", "items": LIMITED}, ["ab"], ["ab", "c"], [f"TooLong x[0]: {TOO_LONG}"]),
        (
            {
                "type": "object",
                "properties": {"a": TEXT, "b": TEXT},
                "allOf": [{"properties": {"a": {"maxLength": 1}}}],
            },
            {"a": "ab"},
            {"a": "ab", "b": "new"},
            [
                f"TooLong x.a: {TOO_LONG}",
                'Invalid <nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
            ],
        ),
        (SET, ["a", "a"], ["b", "b"], []),
    ],
)
def test_unchanged_values_are_excused(field: dict[str, Any], old: Any, new: Any, expected: list[str]) -> None:
    assert errors(field, new, old) == expected


def test_a_status_is_checked_by_its_own_schema() -> None:
    schema = compile_schema(
        {"type": "object", "properties": {"status": {"type": "object", "properties": {"n": NUMBER}}}}
    )
    (error,) = schema.validate_status({"status": {"n": "a"}}, {})
    assert error.field == "status.n"
    assert error.message == 'Invalid value: "string": must be of type integer: "string"'
    assert schema.validate_status({"status": {"n": "a"}}, {"status": {"n": "a"}}) == []


def test_no_string_holds_up_the_server() -> None:
    field = {"type": "string", "pattern": "^(a+)+$"}
    value = "a" * 100 + "b"
    [said] = errors(field, value)
    assert said == f"Invalid x: Invalid value: \"{value}\": should match '^(a+)+$'"
