# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches: each directive, and what is said of patches that do not fit.

The same are sent to the real API server in tests/integration/local/test_local_patches.py.
"""

import copy
from typing import Any

import pytest

from trainwright.controller.local.apiserver.merge.errors import PatchError
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.types.model import Types

Document = dict[str, Any]

TEXT = {"type": "string"}
NAMED = {
    "type": "array",
    "items": {"allOf": [{"$ref": "#/components/schemas/x.Item"}], "default": {}},
    "x-kubernetes-patch-strategy": "merge,retainKeys",
    "x-kubernetes-patch-merge-key": "name",
}
MODELS: dict[str, Document] = {
    "x.Thing": {
        "type": "object",
        "properties": {
            "items": NAMED,
            "tags": {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
            "atoms": {"type": "array", "items": TEXT},
            "atomicItems": {"type": "array", "items": {"$ref": "#/components/schemas/x.Item"}},
            "unkeyed": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge"},
            "inner": {"$ref": "#/components/schemas/x.Item"},
            "whole": {"allOf": [{"$ref": "#/components/schemas/x.Item"}], "x-kubernetes-patch-strategy": "replace"},
            "labels": {"type": "object", "additionalProperties": TEXT},
        },
    },
    "x.Item": {
        "type": "object",
        "properties": {
            "name": TEXT,
            "value": TEXT,
            "more": NAMED,
            "labels": {"type": "object", "additionalProperties": TEXT},
        },
    },
}


def named(text: str) -> list[Document]:
    """Items by letters: `a1` is the item a with the value 1, `-a` the directive that deletes it."""
    made: list[Document] = []
    for word in text.split():
        if word.startswith("-"):
            made.append({"name": word[1:], "$patch": "delete"})
        elif word == "!":
            made.append({"$patch": "replace"})
        else:
            made.append({"name": word[0]} | ({"value": word[1:]} if word[1:] else {}))
    return made


def patched(document: Document, patch: Document) -> Document:
    inputs = copy.deepcopy((document, patch))
    try:
        return strategic_merge_patch(document, patch, Types(MODELS).named("x.Thing"))
    finally:
        assert (document, patch) == inputs


@pytest.mark.parametrize(
    ("live", "patch", "order", "made"),
    [
        ("a1 b2", "b3", None, "a1 b3"),
        ("a1 b2", "c3", None, "c3 a1 b2"),
        ("a1 b2", "c3 a", None, "c3 a1 b2"),
        ("a1 b2", "b3 a4", None, "b3 a4"),
        ("a1 b2 c3", "-b", None, "a1 c3"),
        ("a1 b2 c3", "-b c d", None, "a1 c3 d"),
        ("a1 a2", "-a", None, ""),
        ("a1 a2", "a3", None, "a3 a2"),
        ("a1 b2", "! c3", None, "c3"),
        ("a1 b2", "! -c", None, ""),
        ("", "a1", None, "a1"),
        ("a1 b2 c3", "", "c b a", "c3 b2 a1"),
        ("a1 b2 c3", "", "c a", "b2 c3 a1"),
        ("a1 b2 c3", "d4", "d a", "d4 a1 b2 c3"),
        ("a1 b2 c3", "d4 -b", "d a c", "d4 a1 c3"),
        ("b1 a2", "c3", "c a", "c3 b1 a2"),
        ("", "b1 a2", "b a", "b1 a2"),
    ],
)
def test_lists_by_key(live: str, patch: str, order: str | None, made: str) -> None:
    change: Document = {"items": named(patch)} if patch else {}
    if order is not None:
        change["$setElementOrder/items"] = named(order)
    found = patched({"items": named(live)}, change)
    assert found == {"items": named(made)}
    assert patched(
        {"inner": {"more": named(live)}},
        {"inner": {key.replace("items", "more"): value for key, value in change.items()}},
    ) == {"inner": {"more": named(made)}}


@pytest.mark.parametrize(
    ("live", "patch", "made"),
    [
        ("a b", {"tags": ["c"]}, "c a b"),
        ("a b", {"tags": ["b", "c", "b"]}, "a b c"),
        ("a b a", {"tags": []}, "a b"),
        ("a b c", {"$deleteFromPrimitiveList/tags": ["a", "x"]}, "b c"),
        ("a b c", {"$deleteFromPrimitiveList/tags": 1}, "a b c"),
        ("a b", {"$setElementOrder/tags": ["c", "a"], "tags": ["c"]}, "c a b"),
        (
            "a b c",
            {"$setElementOrder/tags": ["c", "d"], "$deleteFromPrimitiveList/tags": ["a"], "tags": ["d"]},
            "b c d",
        ),
    ],
)
def test_lists_of_scalars(live: str, patch: Document, made: str) -> None:
    assert patched({"tags": live.split()}, patch) == {"tags": made.split()}


@pytest.mark.parametrize(
    ("document", "patch", "made"),
    [
        ({"atoms": ["a"]}, {"atoms": ["b"]}, {"atoms": ["b"]}),
        ({"atomicItems": named("a1")}, {"atomicItems": named("b2")}, {"atomicItems": named("b2")}),
        ({"labels": {"a": "1"}}, {"labels": {"b": "2", "a": None}}, {"labels": {"b": "2"}}),
        ({}, {"labels": {"a": None, "b": "1"}}, {"labels": {"b": "1"}}),
        ({"labels": {"a": "1"}}, {"labels": None}, {}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
        ({}, {"labels": {"$patch": "delete"}}, {}),
        ({"inner": 1}, {"inner": {"$patch": "delete"}}, {}),
        ({}, {"inner": {"more": [*named("-a b1")], "x": {"$patch": "replace"}}}, {"inner": {"more": named("b1")}}),
        ({"whole": {"name": "a"}}, {"whole": {"value": "1"}}, {"whole": {"value": "1"}}),
        ({"inner": {"name": "a", "value": "1"}}, {"inner": {"$retainKeys": ["name"]}}, {"inner": {"name": "a"}}),
        ({"inner": {"name": "a"}}, {"inner": {"$retainKeys": ["value"], "value": "2"}}, {"inner": {"value": "2"}}),
        (
            {"items": named("a1")},
            {"items": [{"name": "a", "$retainKeys": ["name"], "value": None}]},
            {"items": named("a")},
        ),
        ({"items": named("a1")}, {"items": None, "unknown": {"x": [1]}}, {"unknown": {"x": [1]}}),
        ({"items": [{"name": 1}]}, {"items": [{"name": 1.0}]}, {"items": [{"name": 1}, {"name": 1.0}]}),
        ({"labels": {"a": "1"}}, {"labels": []}, {"labels": []}),
        ({"labels": {"a": "1"}}, {"$patch": "delete", "labels": {}}, {}),
        ({"$setElementOrder/none": 1}, {"$setElementOrder/tags": []}, {"$setElementOrder/none": 1}),
        ({"tags": []}, {"tags": []}, {"tags": []}),
    ],
)
def test_other_fields(document: Document, patch: Document, made: Document) -> None:
    assert patched(document, patch) == made


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"items": [{"value": "1"}]}, 500),
        ({"items": [{"$patch": "delete"}]}, 500),
        ({"items": [1]}, 500),
        ({"items": [{"name": "a", "$patch": "x"}]}, 500),
        ({"items": [{"name": "a", "$patch": "merge"}]}, 500),
        ({"items": [{"name": {}}]}, 500),
        ({"inner": {"$patch": "x"}}, 500),
        ({"$setElementOrder/items": 1}, 500),
        ({"$setElementOrder/items": ["a"]}, 500),
        ({"$setElementOrder/items": [{}]}, 500),
        ({"$setElementOrder/no": []}, 500),
        ({"$setElementOrder/whole": []}, 500),
        ({"$setElementOrder/items": named("b a"), "items": named("a b")}, 500),
        ({"labels": {"x": {"y": 1}}}, 500),
        ({"unkeyed": [{"b": 1}]}, 500),
        ({"nested": [["a"]]}, 422),
        ({"$retainKeys": 1}, 400),
        ({"$retainKeys": ["labels"], "inner": {}}, 400),
        ({"$deleteFromPrimitiveListtags": ["a"]}, 400),
        ({"$setElementOrderX/tags": ["a"]}, 400),
    ],
)
def test_errors(patch: Document, code: int) -> None:
    document = {"items": named("a1"), "inner": {}, "labels": {"x": {}}, "unkeyed": [{"a": 1}], "nested": [["b"]]}
    models = copy.deepcopy(MODELS)
    models["x.Thing"]["properties"]["nested"] = MODELS["x.Thing"]["properties"]["tags"]
    models["x.Thing"]["properties"]["labels"]["additionalProperties"] = models["x.Thing"]["properties"]["labels"]
    with pytest.raises(PatchError) as raised:
        strategic_merge_patch(document, patch, Types(models).named("x.Thing"))
    assert raised.value.code == code
    assert str(raised.value)
    assert raised.value.reason == {400: "BadRequest", 422: "Invalid", 500: ""}[code]
    assert bool(raised.value.reason) == (code != 500)
