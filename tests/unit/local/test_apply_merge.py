# SPDX-License-Identifier: Apache-2.0
"""Merging, comparing and taking fields out, one schema and one pair of documents at a time."""

import copy
from typing import Any

import pytest

from tests.unit.local.things import Document, view
from trainwright.controller.local.apiserver.merge import fieldset, typed
from trainwright.controller.local.apiserver.merge.structured import TypedMerge
from trainwright.controller.local.apiserver.merge.typed import compare, remove
from trainwright.controller.local.types.model import Type


def merge(view: Type, live: Document, config: Document) -> Any:
    return TypedMerge().merge(view, live, config)


def spec(**fields: Any) -> Document:
    return {"spec": fields}


def wire(tree: fieldset.Tree) -> Any:
    """The part of a set that lies in the spec."""
    return fieldset.write(tree).get("f:spec", {})


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        # Items of both: those of the document in its order, the others stay ahead of what followed them.
        ("a b c", "d", "a b c d"),
        ("a b c", "c a", "b c a"),
        ("a b c d", "d a", "b c d a"),
        ("a b c d", "b x d", "a b c x d"),
        ("a b", "x a y b z", "x a y b z"),
        ("a b c", "x c", "a b x c"),
        ("c a b", "a b x c", "a b x c"),
        ("x a y", "y z a", "x y z a"),
        # The document's item takes the place of several.
        ("a a b", "a", "a b"),
        ("a b a c", "a d", "a b d c"),
        ("", "b a", "b a"),
        ("b a", "", "b a"),
    ],
)
def test_the_order_of_merged_lists(live: str, config: str, merged: str) -> None:
    found = merge(view(), spec(tags=live.split()), spec(tags=config.split()))
    assert found == spec(tags=merged.split())
    items = [[{"name": name} for name in names.split()] for names in (live, config, merged)]
    assert merge(view(), spec(items=items[0]), spec(items=items[1])) == spec(items=items[2])


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        (spec(text="a", number=1), spec(text="b"), spec(text="b", number=1)),
        (spec(text="a"), spec(text=None), spec(text=None)),
        (spec(table={"a": "1"}), spec(table={"b": "2"}), spec(table={"a": "1", "b": "2"})),
        (spec(table={"a": "1"}), spec(table=None), spec(table={"a": "1"})),
        (spec(table={"a": "1"}), spec(table={}), spec(table={"a": "1"})),
        (spec(table=None), spec(table={}), spec(table={})),
        (spec(table={}), spec(table=None), spec(table=None)),
        (spec(unit={"a": "1"}), spec(unit={"b": "2"}), spec(unit={"b": "2"})),
        (spec(unit={"a": "1"}), spec(unit=None), spec(unit=None)),
        (spec(plain=["a", "b"]), spec(plain=["c"]), spec(plain=["c"])),
        (spec(tags=["a"]), spec(tags=None), spec(tags=["a"])),
        (spec(either={"a": 1}), spec(either=2), spec(either=2)),
        (spec(either=2), spec(either={"a": 1}), spec(either={"a": 1})),
        (spec(either={"a": 1}), spec(either={"b": [1]}), spec(either={"a": 1, "b": [1]})),
        (
            spec(items=[{"name": "n", "x": "1"}, {"name": "m"}]),
            spec(items=[{"name": "n", "y": "2"}]),
            spec(items=[{"name": "n", "x": "1", "y": "2"}, {"name": "m"}]),
        ),
        # Several items of one key are not merged into.
        (spec(items=[{"name": "n", "x": "1"}] * 2), spec(items=[{"name": "n"}]), spec(items=[{"name": "n"}])),
        (
            spec(ports=[{"port": 1, "note": "a"}]),
            spec(ports=[{"port": 1, "protocol": "TCP"}]),
            spec(ports=[{"port": 1, "note": "a", "protocol": "TCP"}]),
        ),
    ],
)  # fmt: skip
def test_merged_values(live: Document, config: Document, merged: Document) -> None:
    before = copy.deepcopy([live, config])
    assert merge(view(), live, config) == merged
    assert [live, config] == before


def test_what_a_merge_leaves_is_the_same_object() -> None:
    live = spec(items=[{"name": "a", "x": "1"}, {"name": "b"}], table={"k": "v"}, text="t")
    assert merge(view(), live, copy.deepcopy(live)) is live
    merged = merge(view(), live, spec(text="other"))
    assert merged["spec"]["items"] is live["spec"]["items"]


@pytest.mark.parametrize(
    ("fields", "owned"),
    [
        ({"text": "a", "number": None}, {"f:text": {}, "f:number": {}}),
        ({"table": {}, "unit": {"a": "1"}, "plain": ["a"]}, {"f:table": {}, "f:unit": {}, "f:plain": {}}),
        ({"table": {"b": "1", "a": "2"}}, {"f:table": {"f:a": {}, "f:b": {}}}),
        ({"inner": {}}, {"f:inner": {}}),
        ({"inner": {"a": "1"}}, {"f:inner": {"f:a": {}}}),
        ({"tags": [], "text": "a"}, {"f:text": {}}),
        ({"tags": None}, {"f:tags": {}}),
        ({"tags": ["b", "a"]}, {"f:tags": {'v:"a"': {}, 'v:"b"': {}}}),
        ({"free": {"a": {"b": 1}}}, {"f:free": {"f:a": {".": {}, "f:b": {}}}}),
        ({"items": [{"name": "n"}]}, {"f:items": {'k:{"name":"n"}': {".": {}, "f:name": {}}}}),
        ({"items": [{"name": "n"}, {"name": "n", "x": "1"}]}, {"f:items": {'k:{"name":"n"}': {}}}),
        ({"ports": [{"port": 1}]}, {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}}}}),
    ],
)
def test_what_an_apply_owns(fields: Document, owned: Any) -> None:
    assert wire(typed.named_fields(view(), {"spec": fields})) == owned


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ({"text": "a"}, {"text": "a"}, {}, {}, {}),
        ({"text": "a"}, {"text": "b"}, {}, {"f:text": {}}, {}),
        ({"text": "a"}, {"number": 1}, {"f:text": {}}, {}, {"f:number": {}}),
        ({"number": 1}, {"number": 1.0}, {}, {}, {}),
        ({"either": 1}, {"either": True}, {}, {"f:either": {}}, {}),
        ({"table": {}}, {"table": None}, {}, {"f:table": {}}, {}),
        ({"table": {}}, {"table": {"a": "1"}}, {}, {}, {"f:table": {"f:a": {}}}),
        ({}, {"inner": {"a": "1"}}, {}, {}, {"f:inner": {".": {}, "f:a": {}}}),
        ({"either": 1}, {"either": {"a": 1}}, {}, {"f:either": {}}, {"f:either": {"f:a": {}}}),
        ({"unit": {"a": "1"}}, {"unit": {"b": "1"}}, {}, {"f:unit": {}}, {}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, {"f:tags": {'v:"a"': {}}}, {}, {"f:tags": {'v:"c"': {}}}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, {}, {}, {}),
        ({"plain": ["a", "b"]}, {"plain": ["b", "a"]}, {}, {"f:plain": {}}, {}),
        # Items of one key are a unit while there are several.
        ({"tags": ["a"]}, {"tags": ["a", "a"]}, {"f:tags": {'v:"a"': {}}}, {}, {"f:tags": {'v:"a"': {}}}),
        ({"tags": ["a", "a"]}, {"tags": ["a"]}, {"f:tags": {'v:"a"': {}}}, {}, {"f:tags": {'v:"a"': {}}}),
        ({"tags": ["a", "a"]}, {"tags": ["a", "a", "a"]}, {}, {"f:tags": {'v:"a"': {}}}, {}),
    ],
)
def test_what_changed(old: Document, new: Document, removed: Any, modified: Any, added: Any) -> None:
    change = compare(view(), {"spec": old}, {"spec": new})
    assert (wire(change.removed), wire(change.modified), wire(change.added)) == (removed, modified, added)


ALL: Document = {"table": {"a": "1"}, "items": [{"name": "n", "x": "1"}], "unit": {"a": "1"}, "tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"f:table": {}}, {key: value for key, value in ALL.items() if key != "table"}),
        ({"f:table": {"f:a": {}}}, {**ALL, "table": None}),
        ({"f:table": {"f:b": {}}}, ALL),
        ({"f:unit": {"f:a": {}}}, {**ALL, "unit": None}),
        ({"f:tags": {'v:"a"': {}}}, {**ALL, "tags": ["b"]}),
        ({"f:tags": {'v:"a"': {}, 'v:"b"': {}}}, {**ALL, "tags": None}),
        ({"f:items": {'k:{"name":"n"}': {"f:x": {}}}}, {**ALL, "items": [{"name": "n"}]}),
    ],
)
def test_fields_that_are_removed(fields: Any, left: Document) -> None:
    before = copy.deepcopy(ALL)
    assert remove(view(), {"spec": ALL}, fieldset.read({"f:spec": fields})) == {"spec": left}
    assert before == ALL
