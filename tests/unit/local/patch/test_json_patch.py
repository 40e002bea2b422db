# SPDX-License-Identifier: Apache-2.0
"""JSON patches and merge patches, a document and a body at a time."""

import copy
import json
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.patch import UnappliedPatchError, json_patch, merge_patch, read_patch

CASES = cases(__file__)

DOCUMENT: dict[str, Any] = {"a": {"b": 1, "~/": "<"}, "l": [1, 2, 3], "n": None, "s": "x"}


def patched(*operations: dict[str, Any]) -> Any:
    before = copy.deepcopy(DOCUMENT)
    made = json_patch(DOCUMENT, json.dumps(operations).encode())
    assert before == DOCUMENT
    return made


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(("operation", "path", "found"), CASES["operations"])
def test_operations(operation: dict[str, Any], path: str, found: Any) -> None:
    assert patched(operation)[path] == found


@pytest.mark.parametrize("operation", CASES["what_does_not_apply"])
def test_what_does_not_apply(operation: dict[str, Any]) -> None:
    with pytest.raises(UnappliedPatchError) as raised:
        patched(operation)
    assert raised.value.cause
    assert (raised.value.code, raised.value.reason) == (422, "Invalid")


def test_operations_follow_each_other() -> None:
    made = patched(op("replace", "", value={"x": {}}), op("add", "/x/y", value=1), op("copy", "/z", **{"from": "/x"}))
    made["x"]["y"] = 2
    assert made == {"x": {"y": 2}, "z": {"y": 1}}
    assert json_patch(DOCUMENT, b"null") == json_patch(DOCUMENT, b"[]") == DOCUMENT


@pytest.mark.parametrize(
    ("operations", "code"),
    [([op("copy", "/l/0", **{"from": "/l"})] * 60, 422), ([op("add", "/a", value=1)] * 10_001, 413)],
)
def test_patches_have_limits(operations: list[dict[str, Any]], code: int) -> None:
    with pytest.raises(StatusError) as raised:
        patched(*operations)
    assert raised.value.code == code


@pytest.mark.parametrize("body", CASES["what_is_not_a_json_patch"])
def test_what_is_not_a_json_patch(body: str) -> None:
    with pytest.raises(StatusError) as raised:
        json_patch({}, body.encode())
    assert (raised.value.code, raised.value.details) == (400, None)


@pytest.mark.parametrize(("patch", "made"), CASES["merge_patches"])
def test_merge_patches(patch: dict[str, Any], made: dict[str, Any]) -> None:
    document = {"a": {"b": 1}, "l": [1], "n": None}
    inputs = copy.deepcopy((document, patch))
    assert merge_patch(document, patch) == made
    assert (document, patch) == inputs


@pytest.mark.parametrize("body", ["[]", "1", '"x"', "true", "{", "null"])
def test_what_is_not_a_merge_patch(body: str) -> None:
    with pytest.raises(StatusError) as raised:
        merge_patch({}, read_patch(body.encode()))
    assert raised.value.code == 400
