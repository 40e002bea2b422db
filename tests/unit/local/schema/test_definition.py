# SPDX-License-Identifier: Apache-2.0
"""Definitions of custom resources: defaults, names and conditions. What is refused, the real server is asked in
`tests/integration/local/test_definitions_on_the_real_server.py`."""

from typing import Any

import pytest

from tests.cases import cases
from tests.integration.local.definitions import CHANGES, good
from trainwright.controller.local.apiserver.schema.definitions import (
    accepted_names,
    set_defaults,
    unrecognized_formats,
    validate_definition,
)

CASES = cases(__file__)


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


@pytest.mark.parametrize(("name", "expected"), CASES["what_is_refused"])
def test_what_is_refused(name: str, expected: list[str]) -> None:
    assert told(changed(name)) == expected


@pytest.mark.parametrize(("name", "text"), CASES["rules_that_do_not_fit_their_schema"])
def test_rules_that_do_not_fit_their_schema(name: str, text: str) -> None:
    (error,) = told(changed(name))
    assert text in error


@pytest.mark.parametrize("name", CASES["rules_that_fit_their_schema"])
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


@pytest.mark.parametrize(("names", "reason", "message"), CASES["names_that_are_taken"])
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
