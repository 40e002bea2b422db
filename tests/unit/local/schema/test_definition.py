# SPDX-License-Identifier: Apache-2.0
"""Definitions of custom resources: defaults, names and conditions. What is refused, the real server is asked in
`tests/integration/local/test_definitions_on_the_real_server.py`."""

from typing import Any

import pytest

from tests.integration.local.definitions import CHANGES, good
from trainwright.controller.local.apiserver.schema.definitions import (
    accepted_names,
    set_defaults,
    unrecognized_formats,
    validate_definition,
)


def changed(name: str) -> dict[str, Any]:
    crd = good()
    CHANGES[name](crd)
    set_defaults(crd)
    return crd


def told(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in validate_definition(crd, old)]


def test_defaults() -> None:
    crd = good()
    set_defaults(crd)
    assert crd["spec"]["names"] == {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    "name",
    ["nothing", "second alike", "column", "selectable", "int or string", "key required", "default", "rule"],
)
def test_what_is_accepted(name: str) -> None:
    crd = changed(name)
    assert told(crd) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "metadata name",
            ['metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'],
        ),
        ("other scope", ['spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"']),
        (
            "key not required",
            [
                (
                    "spec.validation.openAPIV3Schema.properties[spec].properties[f].items.properties[name].default: "
                    "Required value: must have a default or be a required property, because it is in "
                    "x-kubernetes-list-map-keys"
                )
            ],
        ),
        (
            "second differs",
            [
                "spec.versions[1].schema.openAPIV3Schema.properties[more].items: Required value: must be specified",
            ],
        ),
        (
            "default too long",
            [
                (
                    "spec.validation.openAPIV3Schema.properties[spec].properties[f].default: Too long: may not be more "
                    "than 1 "
                    "byte"
                )
            ],
        ),
        (
            "rule not bool",
            [
                (
                    "spec.validation.openAPIV3Schema.properties[spec].properties[f].x-kubernetes-validations[0].rule: "
                    "Invalid "
                    'value: {"rule":"size(self)"}: cel expression must evaluate to a bool'
                )
            ],
        ),
    ],
)
def test_what_is_refused(name: str, expected: list[str]) -> None:
    assert told(changed(name)) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rule undefined field", "undefined field 'nope'\n | self.nope == 'a'\n | ....^"),
        ("rule undefined deep", "ERROR: <input>:1:37: undefined field 'nope'"),
        ("rule two undefined", "ERROR: <input>:2:6: undefined field 'other'"),
        ("rule free field", "undefined field 'free'"),
        ("rule of types", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("rule into a number", "type 'int' has no fields"),
        ("rule of either alone", "cel expression must evaluate to a bool"),
        ("self.text.matches('[')", "invalid matches argument"),
        ("self.span > duration('soon')", "invalid duration argument"),
        ("self.countOf['a'] == 'b'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("rule of null", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("rule of messages", ": ERROR: <input>:1:5: undefined field 'nope'"),
    ],
)
def test_rules_that_do_not_fit_their_schema(name: str, text: str) -> None:
    (error,) = told(changed(name))
    assert text in error


@pytest.mark.parametrize(
    "name",
    [
        "rule good",
        "rule good over lists",
        "rule of either",
        "rule of numbers",
        "optional old",
        "self.table[0][0] == 'a'",
    ],
)
def test_rules_that_fit_their_schema(name: str) -> None:
    assert told(changed(name)) == []


def test_names_and_scope_of_an_established_definition_do_not_change() -> None:
    old: dict[str, Any] = changed("nothing") | {
        "metadata": {"name": "things.schema.example.com", "resourceVersion": "1"}
    }
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new: dict[str, Any] = changed("nothing") | {"metadata": old["metadata"], "status": old["status"]}
    assert told(new, old) == []
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Other"
    assert told(new, old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Other": field is immutable',
    ]


def test_stored_versions_stay() -> None:
    crd = changed("nothing")
    crd["status"]["storedVersions"] = ["v1", "v0"]
    (error,) = validate_definition(crd)
    assert error.field == "status.storedVersions[1]"


def established(plural: str, **names: Any) -> dict[str, Any]:
    crd = good(plural)
    crd["spec"]["names"] |= names
    set_defaults(crd)
    accepted = accepted_names(crd, [])
    crd["status"]["acceptedNames"] = accepted.names
    return crd


def test_free_names_are_accepted() -> None:
    crd = good()
    set_defaults(crd)
    accepted = accepted_names(crd, [established("others")])
    assert accepted.names == crd["spec"]["names"]
    assert [(one.type, one.status, one.reason) for one in accepted.conditions] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"singular": "other"}, "SingularConflict", '"other" is already in use'),
        ({"kind": "Other", "listKind": "Free"}, "KindConflict", '"Other" is already in use'),
        ({"kind": "Other"}, "ListKindConflict", '"OtherList" is already in use'),
        (
            {"shortNames": ["ot", "others", "free"]},
            "ShortNamesConflict",
            '["ot" is already in use, "others" is already in use]',
        ),
    ],
)
def test_names_that_are_taken(names: dict[str, Any], reason: str, message: str) -> None:
    crd = good()
    crd["spec"]["names"] |= names
    set_defaults(crd)
    accepted = accepted_names(crd, [established("others", shortNames=["ot"])])
    named, serving = accepted.conditions
    assert (named.status, named.reason, named.message) == ("False", reason, message)
    assert (serving.status, serving.reason, serving.message) == ("False", "NotAccepted", "not all names are accepted")
    assert accepted.names["plural"] == "things"


def test_names_of_other_groups_do_not_count() -> None:
    crd, other = good(), established("things")
    other["spec"]["group"] = "other.example.com"
    set_defaults(crd)
    assert accepted_names(crd, [other]).conditions[0].status == "True"


def test_formats_that_are_not_checked() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "format": "weird"},
            "b": {"type": "integer", "format": "int32"},
            "c": {"type": "array", "items": {"type": "number", "format": "int32"}},
        },
    }
    assert list(unrecognized_formats(schema)) == ["weird", "int32"]
