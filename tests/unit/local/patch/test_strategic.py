# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches: each directive, and what is said of patches that do not fit.

Those of built-in kinds are rows of tests/integration/local/writes.json.
"""

import copy
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.types.model import Types

CASES = cases(__file__)

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


@pytest.mark.parametrize(("live", "patch", "order", "made"), CASES["lists_by_key"])
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


@pytest.mark.parametrize(("live", "patch", "made"), CASES["lists_of_scalars"])
def test_lists_of_scalars(live: str, patch: Document, made: str) -> None:
    assert patched({"tags": live.split()}, patch) == {"tags": made.split()}


@pytest.mark.parametrize(("document", "patch", "made"), CASES["other_fields"])
def test_other_fields(document: Document, patch: Document, made: Document) -> None:
    assert patched(document, patch) == made


@pytest.mark.parametrize(("patch", "code"), CASES["errors"])
def test_errors(patch: Document, code: int) -> None:
    document = {"items": named("a1"), "inner": {}, "labels": {"x": {}}, "unkeyed": [{"a": 1}], "nested": [["b"]]}
    models = copy.deepcopy(MODELS)
    models["x.Thing"]["properties"]["nested"] = MODELS["x.Thing"]["properties"]["tags"]
    models["x.Thing"]["properties"]["labels"]["additionalProperties"] = models["x.Thing"]["properties"]["labels"]
    with pytest.raises(StatusError) as raised:
        strategic_merge_patch(document, patch, Types(models).named("x.Thing"))
    assert raised.value.code == code
    assert str(raised.value)
    assert raised.value.reason == {400: "BadRequest", 422: "Invalid", 500: ""}[code]
    assert bool(raised.value.reason) == (code != 500)
