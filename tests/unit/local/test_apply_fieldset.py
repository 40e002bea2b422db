# SPDX-License-Identifier: Apache-2.0
"""Path elements and sets of fields: their texts, their order, their algebra."""

import json
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local import values
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldset import EntryError

CASES = cases(__file__)

A, B, C = "f:a", "f:b", "f:c"


@pytest.mark.parametrize(("text", "canonical"), CASES["the_canonical_form_of_an_element"])
def test_the_canonical_form_of_an_element(text: str, canonical: str | None) -> None:
    assert fieldset.canonical(text) == canonical


@pytest.mark.parametrize("text", ["", "a", "field", "i:x", "k:[1]", "k:{", "v:nothing"])
def test_what_is_no_element(text: str) -> None:
    with pytest.raises(EntryError):
        fieldset.canonical(text)


def test_the_order_of_elements() -> None:
    ordered = [
        *(".", "f:", "f:B", "f:a", "f:ü"),
        *('k:{"name":"a"}', 'k:{"name":"a","port":1}', 'k:{"name":"b"}', 'k:{"port":9}', 'k:{"port":10}'),
        *("v:2", "v:10", 'v:"a"', "v:false", "v:true", "v:null", "i:2", "i:10"),
    ]
    assert fieldset.in_order(reversed(ordered)) == ordered


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((A, B), ".a.b"),
        ((A, 'k:{"name":"x","on":true}'), '.a[name="x",on=true]'),
        ((A, 'v:"x\\ty"'), '.a[="x\\ty"]'),
        ((A, "i:3"), ".a[3]"),
        ((A, 'k:{"port":1000000}'), ".a[port=1000000]"),
        ((A, "v:1.5"), ".a[=1.5]"),
    ],
)
def test_a_path_in_a_message(path: tuple[str, ...], text: str) -> None:
    assert fieldset.text(path) == text


@pytest.mark.parametrize(
    ("wire", "paths"),
    [
        ({}, []),
        ({"f:a": {}}, [(A,)]),
        ({"f:a": {"f:b": {}}}, [(A, B)]),
        ({"f:a": {".": {}, "f:b": {}}}, [(A,), (A, B)]),
        ({".": {}, "f:a": {}}, [(A,)]),
        ({"f:a": None}, [(A,)]),
        ({"f:b": {"f:c": {}}, "f:a": {"f:c": {}}, "f:c": {}}, [(C,), (A, C), (B, C)]),
        # Nothing of what is unknown is left, so the field itself is owned.
        ({"f:a": {"z:later": {}}}, [(A,)]),
        ({"v:1": {}, "v:1.0": {".": {}}}, [("v:1",)]),
    ],
)
def test_the_members_of_a_set(wire: Any, paths: list[tuple[str, ...]]) -> None:
    tree = fieldset.read(wire)
    assert list(fieldset.paths(tree)) == paths
    assert fieldset.of(*paths) == tree
    assert fieldset.read(fieldset.write(tree)) == tree
    assert all(fieldset.has(tree, path) for path in paths)
    assert not fieldset.has(tree, ("f:other",))
    assert not fieldset.has(tree, ())


@pytest.mark.parametrize("wire", [[], "f:a", {"f:a": 1}, {"a": {}}])
def test_what_is_no_set(wire: Any) -> None:
    with pytest.raises(EntryError):
        fieldset.read(wire)


def test_a_set_is_written_in_order() -> None:
    tree = fieldset.of((B,), (A, 'k:{"port":10}'), (A, 'k:{"port":9}', C), (A,))
    assert json.dumps(fieldset.write(tree)) == json.dumps(
        {"f:a": {".": {}, 'k:{"port":9}': {"f:c": {}}, 'k:{"port":10}': {}}, "f:b": {}}
    )


LEFT = fieldset.of((A,), (A, B), (B,), (C, A))
RIGHT = fieldset.of((A,), (B, C), (C,), (C, B))


@pytest.mark.parametrize(
    ("operation", "paths"),
    [
        (fieldset.union, [(A,), (B,), (C,), (A, B), (B, C), (C, A), (C, B)]),
        (fieldset.intersection, [(A,)]),
        # A member of the other takes away nothing below it ...
        (fieldset.difference, [(B,), (A, B), (C, A)]),
        # ... unless it is said so.
        (fieldset.recursive_difference, [(B,)]),
    ],
)
def test_the_algebra(operation: Any, paths: list[tuple[str, ...]]) -> None:
    before = json.dumps([LEFT, RIGHT])
    assert list(fieldset.paths(operation(LEFT, RIGHT))) == paths
    assert json.dumps([LEFT, RIGHT]) == before


@pytest.mark.parametrize(("left", "right", "same"), CASES["equality_of_values"])
def test_equality_of_values(left: Any, right: Any, same: bool) -> None:
    assert values.equal(left, right) is same


@pytest.mark.parametrize(("value", "text"), CASES["values_as_go_encodes_them"])
def test_values_as_go_encodes_them(value: Any, text: str) -> None:
    assert values.json_text(value) == text
