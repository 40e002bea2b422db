# SPDX-License-Identifier: Apache-2.0
"""An independent implementation of RFC 6902 applies the patch and gets the second document."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.controller.runtime.webhook.jsonpatch import Operation, json_patch


def carried_out(document: Any, operations: list[Operation]) -> Any:
    """The smallest JSON Patch interpreter that knows add, remove and replace."""
    holder: dict[str, Any] = {"root": copy.deepcopy(document)}
    for operation in operations:
        steps = ["root", *(part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])]
        parent: Any = holder
        for step in steps[:-1]:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        last: Any = int(steps[-1]) if isinstance(parent, list) else steps[-1]
        match operation["op"]:
            case "remove":
                del parent[last]
            case "replace":
                assert last in parent if isinstance(parent, dict) else last < len(parent)
                parent[last] = operation["value"]
            case "add" if isinstance(parent, list):
                assert last <= len(parent)
                parent.insert(last, operation["value"])
            case "add":
                parent[last] = operation["value"]
    return holder["root"]


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("a/~", max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4),
    max_leaves=12,
)


def strict(value: Any) -> Any:
    """A form in which True is not 1."""
    if isinstance(value, dict):
        return {name: strict(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner) for inner in value]
    return (type(value).__name__, value)


@given(documents, documents)
def test_patch_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    assert strict(carried_out(before, list(json_patch(before, after)))) == strict(after)


@given(documents)
def test_nothing_changed_is_no_patch(document: Any) -> None:
    assert list(json_patch(document, copy.deepcopy(document))) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a/b": 1, "c": 2}, {"c": 2}, [{"op": "remove", "path": "/a~1b"}]),
        ({"c~d": 2}, {"c~d": 3}, [{"op": "replace", "path": "/c~0d", "value": 3}]),
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        ({"l": [{"n": 1}, {"n": 2}]}, {"l": [{"n": 1}, {"n": 5}]}, [{"op": "replace", "path": "/l/1/n", "value": 5}]),
    ],
)
def test_patches_are_small(before: Any, after: Any, operations: list[Operation]) -> None:
    assert list(json_patch(before, after)) == operations
