# SPDX-License-Identifier: Apache-2.0
"""JSONPath: what paths find, and which are refused."""

from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.views.jsonpath import JSONPathError, compile_path, result_text

CASES = cases(__file__)

DOCUMENT: dict[str, Any] = {
    "a": {"b.c": 1, "d": "x"},
    "list": [{"n": "one", "v": 1}, {"n": "two", "v": 2, "more": {"n": "inner"}}, {"n": "three", "v": 3.5}],
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Failed", "status": "False"}],
    "nothing": None,
    "numbers": [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize(("path", "found"), CASES["paths"])
def test_paths(path: str, found: list[Any]) -> None:
    assert compile_path(path)(DOCUMENT) == found


@pytest.mark.parametrize(
    "path",
    [
        "a",
        ".a[",
        ".a[x]",
        ".list[?(@.v]",
        ".a}",
        "..n",
        ".numbers[0,2]",
        ".numbers[1:3]",
        ".list[?(@.v>=2)].n",
        ".list[?(@.v==x)]",
    ],
)
def test_refused_paths(path: str) -> None:
    with pytest.raises(JSONPathError):
        compile_path(path)


@pytest.mark.parametrize("path", [".list[3]", ".a[0]", ".a[?(@.x)]", '.list[?(@.v=="x")].n'])
def test_paths_that_do_not_fit_find_nothing(path: str) -> None:
    assert compile_path(path)(DOCUMENT) == []


def test_texts() -> None:
    assert [result_text(value) for value in ("x", 1, 2.0, True, None, {"b": 1, "a": ["<"]})] == [
        "x",
        "1",
        "2",
        "true",
        "<no value>",
        '{"a":["\\u003c"],"b":1}',
    ]
