# SPDX-License-Identifier: Apache-2.0
"""Definitions of custom resources: names, conditions, and what may not change. What is refused when one is created are
rows of `tests/integration/local/writes.json`."""

import copy
from typing import Any

import pytest

from tests.cases import cases
from tests.integration.local.random_writes import groups
from trainwright.controller.local.apiserver.kinds.definition_strategy import (
    accepted_names,
    set_defaults,
    validate_definition,
)

CASES = cases(__file__)


def good(plural: str = "things", **names: Any) -> dict[str, Any]:
    crd: dict[str, Any] = copy.deepcopy(groups()["definitions"]["object"])
    crd["metadata"]["name"] = f"{plural}.{crd['spec']['group']}"
    crd["spec"]["names"] = {"plural": plural, "kind": plural[:-1].title(), **names}
    set_defaults(crd)
    return crd


def told(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    return [(error.reason, error.field) for error in validate_definition(crd, old)]


def test_names_and_scope_of_an_established_definition_do_not_change() -> None:
    old = good()
    old["metadata"]["resourceVersion"] = "1"
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new = copy.deepcopy(old)
    assert told(new, old) == []
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Other"
    assert told(new, old) == [("FieldValueInvalid", "spec.scope"), ("FieldValueInvalid", "spec.names.kind")]


def test_stored_versions_stay() -> None:
    crd = good()
    crd["status"]["storedVersions"] = ["v1", "v0"]
    assert told(crd) == [("FieldValueInvalid", "status.storedVersions[1]")]


def established(plural: str, **names: Any) -> dict[str, Any]:
    crd = good(plural, **names)
    crd["status"]["acceptedNames"], _ = accepted_names(crd, [])
    return crd


def test_free_names_are_accepted() -> None:
    crd = good()
    names, conditions = accepted_names(crd, [established("others")])
    assert names == crd["spec"]["names"]
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


@pytest.mark.parametrize(("names", "reason", "message"), CASES["names_that_are_taken"])
def test_names_that_are_taken(names: dict[str, Any], reason: str, message: str) -> None:
    crd = good(**names)
    made, (named, serving) = accepted_names(crd, [established("others", shortNames=["ot"])])
    assert (named["status"], named["reason"], named["message"]) == ("False", reason, message)
    assert (serving["status"], serving["reason"]) == ("False", "NotAccepted")
    assert made["plural"] == "things"


def test_names_of_other_groups_do_not_count() -> None:
    crd, other = good(), established("things")
    other["spec"]["group"] = "other.example.com"
    assert accepted_names(crd, [other])[1][0]["status"] == "True"
