# SPDX-License-Identifier: Apache-2.0
"""Tables: ages, the status of pods, custom columns, and what a Table holds.

tests/integration/local/test_views_on_the_real_server.py compares the cells of all kinds with the real ones.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.things import custom, resource
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.views.cells import human_duration, since
from trainwright.controller.local.apiserver.views.tables import (
    TableFormat,
    partial_metadata_list,
    table_format,
    table_of,
)

CASES = cases(__file__)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Document = dict[str, Any]


@pytest.mark.parametrize(("seconds", "shown"), CASES["durations"])
def test_durations(seconds: float, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


def test_ages() -> None:
    assert since("2026-01-02T03:00:00Z", NOW) == "4m5s"
    assert since("2026-01-02T03:04:04.123456Z", NOW) == "0s"
    assert since(None, NOW) == since("", NOW) == "<unknown>"


def waiting(reason: str, **more: Any) -> Document:
    return {"name": "c", "state": {"waiting": {"reason": reason}}, **more}


@pytest.mark.parametrize(("status", "shown"), CASES["the_status_of_pods"])
def test_the_status_of_pods(status: Document, shown: str) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        },
        "status": status,
    }
    cells = table_format(resource("v1", "Pod")).cells(pod, NOW)
    assert " ".join(cells[1:4]) == shown
    assert cells[4:] == ["<unknown>", *4 * ["<none>"]]


def test_pods_that_go() -> None:
    def status(**status: Any) -> Any:
        pod = {"metadata": {"deletionTimestamp": "2026-01-02T03:03:05Z"}, "status": status}
        return table_format(resource("v1", "Pod")).cells(pod, NOW)[2]

    assert status(phase="Running") == "Terminating"
    assert status(phase="Failed") == "Failed"
    assert status(phase="Running", reason="NodeLost") == "Unknown"


def test_rows_of_pods_that_are_over() -> None:
    table = table_of(table_format(resource("v1", "Pod")), [{"status": {"phase": "Failed"}}], {}, now=NOW)
    assert table["rows"][0]["conditions"] == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]


COLUMNS: list[Document] = [
    {"name": "Text", "type": "string", "jsonPath": ".spec.text", "description": "a text", "priority": 1},
    {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "format": "int32"},
    {"name": "Share", "type": "number", "jsonPath": ".spec.share"},
    {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    {"name": "State", "type": "string", "jsonPath": '.status.conditions[?(@.status=="True")].type'},
]


def custom_table(columns: list[Document]) -> TableFormat:
    return table_format(custom(additionalPrinterColumns=columns))


@pytest.mark.parametrize(("spec", "cells"), CASES["custom_columns"])
def test_custom_columns(spec: Document, cells: list[Any]) -> None:
    assert custom_table(COLUMNS).cells({"metadata": {"name": "a"}, "spec": spec}, NOW) == ["a", *cells]


def test_custom_columns_with_conditions() -> None:
    status = {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}
    how = custom_table(COLUMNS)
    assert how.cells({"status": status}, NOW)[-1] == "B"
    assert how.cells({"status": {"conditions": "x"}}, NOW)[-1] is None
    definitions = [(one["name"], one["format"], one["priority"]) for one in how.columns]
    assert definitions[:3] == [("Name", "name", 0), ("Text", "", 1), ("Count", "int32", 0)]
    assert [one["description"] for one in how.columns[1:3]] == [
        "a text",
        "Custom resource definition column (in JSONPath format): .spec.count",
    ]
    assert custom_table([{"name": "x", "type": "string", "jsonPath": "..a"}]).cells({}, NOW) == ["", None]


def test_without_columns_the_age_is_one() -> None:
    how = table_format(custom())
    document = {"metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:00:00Z"}}
    assert [one["name"] for one in how.columns] == ["Name", "Age"]
    assert how.cells(document, NOW) == ["a", "4m5s"]


def test_what_a_table_holds() -> None:
    document: Document = {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "5"}, "data": {"x": "1"}}
    metadata = {"resourceVersion": "7", "continue": "", "remainingItemCount": 3, "other": 1}
    how = table_format(resource("v1", "ConfigMap"))
    table = table_of(how, [document], metadata, now=NOW)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "7", "remainingItemCount": 3}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}
    assert table["rows"] == [{"cells": ["a", 1, "<unknown>"], "object": partial}]
    assert table_of(how, [document], metadata, now=NOW, include="Object")["rows"][0]["object"] == document
    about = document["metadata"]
    single = table_of(how, [document], about, now=NOW, include="None", headers=False)
    assert single == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "5"},
        "columnDefinitions": None,
        "rows": [{"cells": ["a", 1, "<unknown>"], "object": None}],
    }
    assert partial_metadata_list([document], metadata)["items"] == [partial]
    with pytest.raises(StatusError, match="use Metadata, Object or None"):
        table_of(how, [document], about, now=NOW, include="Foo")


@pytest.mark.parametrize("kind", ["Pod", "Node", "Namespace", "Event", "Service", "PersistentVolume", "LimitRange"])
def test_an_empty_object_has_a_row(kind: str) -> None:
    how = table_format(resource("v1", kind))
    assert len(how.cells({}, NOW)) == len(how.columns)
