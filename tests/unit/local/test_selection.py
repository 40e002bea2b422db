# SPDX-License-Identifier: Apache-2.0
"""What selectors tell of themselves, and what is read. Scenarios 240 and 241 say what they select and refuse."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.unit.local.things import custom, resource
from trainwright.api.selectors import SelectorError, label_selector_of, parse_label_selector
from trainwright.controller.local.apiserver.views.selection import (
    parse_field_selector,
    selectable_fields,
)

CASES = cases(__file__)


@pytest.mark.parametrize(
    ("selector", "labels"), [("", ""), (" ", ""), ("!a", "a"), ("a=,b/c", "a b/c"), ("in in (in,notin)", "in")]
)
def test_the_labels_that_a_selector_reads(selector: str, labels: str) -> None:
    compiled = parse_label_selector(selector)
    assert compiled.labels == set(labels.split())
    assert bool(compiled) == bool(labels)


def test_objects_without_labels() -> None:
    assert parse_label_selector("!a").matches_document({})
    assert not parse_label_selector("a").matches_document({"metadata": {"labels": None}})
    with pytest.raises(SelectorError):
        parse_label_selector(f"a={64 * 'x'}")


def test_selectors_of_specs() -> None:
    assert label_selector_of(None) is None
    everything = label_selector_of({})
    assert everything is not None
    assert everything.matches({})
    expressions = [
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"key": "b", "operator": "NotIn", "values": ["x"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    found = label_selector_of({"matchLabels": {"e": "5"}, "matchExpressions": expressions})
    assert found is not None
    assert found.labels == set("abcde")
    labels = {"a": "1", "c": "", "e": "5"}
    assert found.matches(labels)
    for change in ({"a": "3"}, {"b": "x"}, {"d": ""}, {"e": "6"}):
        assert not found.matches(labels | change)
    for wrong in ({"operator": "In"}, {"operator": "Exists", "values": ["x"]}, {"operator": "Like", "values": ["x"]}):
        with pytest.raises(SelectorError):
            label_selector_of({"matchExpressions": [{"key": "a", **wrong}]})
    for labels in ({"-": "1"}, {"a": "-"}):
        with pytest.raises(SelectorError):
            label_selector_of({"matchLabels": labels})


@pytest.mark.parametrize(("kind", "document", "selector", "matches"), CASES["fields_that_are_no_plain_path"])
def test_fields_that_are_no_plain_path(kind: Any, document: dict[str, Any], selector: str, matches: bool) -> None:
    assert parse_field_selector(selector, selectable_fields(resource(*kind))).matches(document) == matches


SELECTABLE = [("v1", "Event"), ("v1", "Pod"), ("v1", "Node"), ("v1", "Secret"), ("batch/v1", "Job")]
PLACES = {"source": "source.component", "spec.host": "spec.nodeName", "status.successful": "status.succeeded"}
VALUES = st.one_of(st.text(), st.text("aZ09._/:-"), st.sampled_from(["true", "false", "0", "1e5"]), st.booleans())


@given(data=st.data(), kind=st.sampled_from(SELECTABLE))
def test_no_object_that_matches_is_passed_over_for_its_bytes(data: st.DataObject, kind: tuple[str, str]) -> None:
    fields = selectable_fields(resource(*kind))
    label = data.draw(st.sampled_from(sorted(set(fields) - {"status.podIP", "status.podIPs"})))
    document: dict[str, Any] = {"metadata": {}}
    if data.draw(st.booleans()):
        *path, last = PLACES.get(label, label).split(".")
        home = document
        for key in path:
            home = home.setdefault(key, {})
        home[last] = data.draw(st.one_of(VALUES, st.integers()))
    value = data.draw(st.one_of(st.just(fields[label](document)), VALUES.map(str)))
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    selector = parse_field_selector(f"{label}={escaped}", fields)
    assert selector.may_match(msgspec.json.encode(document)) or not selector.matches(document)


def test_an_object_without_the_bytes_of_a_value_is_passed_over() -> None:
    selector = parse_field_selector(
        "involvedObject.uid=0f3a-b,type=Warning", selectable_fields(resource("v1", "Event"))
    )
    assert selector.may_match(b'{"type":"Warning","involvedObject":{"uid":"0f3a-b"}}')
    assert not selector.may_match(b'{"type":"Warning","involvedObject":{"uid":"0f3a-c"}}')


def test_what_a_field_selector_tells() -> None:
    found = parse_field_selector("metadata.name=p,status.phase!=Running", selectable_fields(resource("v1", "Pod")))
    assert found.fields == {"metadata.name", "status.phase"}
    assert (found.exact("metadata.name"), found.exact("status.phase")) == ("p", None)
    assert found
    assert not parse_field_selector(",,", selectable_fields(resource("v1", "Pod")))


def test_fields_of_custom_resources() -> None:
    fields = selectable_fields(
        custom(scope="Cluster", selectableFields=[{"jsonPath": f".spec.{one}"} for one in ("color", "size", "on")])
    )
    for document, selector, matches in (
        ({"spec": {"color": "red", "size": 3, "on": True}}, "spec.color=red,spec.size=3,spec.on=true", True),
        ({}, "spec.color=,spec.size!=3", True),
        ({"spec": {"color": None}}, "spec.color!=", False),
    ):
        assert parse_field_selector(selector, fields).matches(document) == matches
    with pytest.raises(SelectorError, match=r"^field label not supported: metadata\.namespace;"):
        parse_field_selector("metadata.namespace=x", fields)
