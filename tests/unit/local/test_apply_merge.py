# SPDX-License-Identifier: Apache-2.0
"""Merging, comparing and taking fields out, one schema and one pair of documents at a time."""

import copy
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.things import Document, view
from trainwright.controller.local.apiserver.merge import fieldset, typed
from trainwright.controller.local.apiserver.merge.structured import TypedMerge
from trainwright.controller.local.apiserver.merge.typed import compare, remove
from trainwright.controller.local.types.model import Type

CASES = cases(__file__)


def merge(view: Type, live: Document, config: Document) -> Any:
    return TypedMerge().merge(view, live, config)


def spec(**fields: Any) -> Document:
    return {"spec": fields}


def wire(tree: fieldset.Tree) -> Any:
    """The part of a set that lies in the spec."""
    return fieldset.write(tree).get("f:spec", {})


@pytest.mark.parametrize(("live", "config", "merged"), CASES["the_order_of_merged_lists"])
def test_the_order_of_merged_lists(live: str, config: str, merged: str) -> None:
    found = merge(view(), spec(tags=live.split()), spec(tags=config.split()))
    assert found == spec(tags=merged.split())
    items = [[{"name": name} for name in names.split()] for names in (live, config, merged)]
    assert merge(view(), spec(items=items[0]), spec(items=items[1])) == spec(items=items[2])


@pytest.mark.parametrize(("live", "config", "merged"), CASES["merged_values"])
def test_merged_values(live: Document, config: Document, merged: Document) -> None:
    before = copy.deepcopy([live, config])
    assert merge(view(), live, config) == merged
    assert [live, config] == before


def test_what_a_merge_leaves_is_the_same_object() -> None:
    live = spec(items=[{"name": "a", "x": "1"}, {"name": "b"}], table={"k": "v"}, text="t")
    assert merge(view(), live, copy.deepcopy(live)) is live
    merged = merge(view(), live, spec(text="other"))
    assert merged["spec"]["items"] is live["spec"]["items"]


@pytest.mark.parametrize(("fields", "owned"), CASES["what_an_apply_owns"])
def test_what_an_apply_owns(fields: Document, owned: Any) -> None:
    assert wire(typed.named_fields(view(), {"spec": fields})) == owned


@pytest.mark.parametrize(("old", "new", "removed", "modified", "added"), CASES["what_changed"])
def test_what_changed(old: Document, new: Document, removed: Any, modified: Any, added: Any) -> None:
    change = compare(view(), {"spec": old}, {"spec": new})
    assert (wire(change.removed), wire(change.modified), wire(change.added)) == (removed, modified, added)


ALL: Document = {"table": {"a": "1"}, "items": [{"name": "n", "x": "1"}], "unit": {"a": "1"}, "tags": ["a", "b"]}


@pytest.mark.parametrize(("fields", "left"), CASES["fields_that_are_removed"])
def test_fields_that_are_removed(fields: Any, left: Document) -> None:
    before = copy.deepcopy(ALL)
    assert remove(view(), {"spec": ALL}, fieldset.read({"f:spec": fields})) == {"spec": left}
    assert before == ALL
