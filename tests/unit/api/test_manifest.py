# SPDX-License-Identifier: Apache-2.0
"""YAML is read as Kubernetes reads it."""

import pytest

from tests.cases import cases
from trainwright.api.manifest import ManifestError, documents, load

CASES = cases(__file__)


@pytest.mark.parametrize(("text", "value"), CASES["scalars"])
def test_scalars(text: str, value: object) -> None:
    assert load(f"a: {text}") == {"a": value}


def test_keys_are_text() -> None:
    assert load("1: a\ntrue: b\n~: c\n") == {"1": "a", "true": "b", "null": "c"}


def test_merge_keys() -> None:
    assert load("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n") == {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}

    assert load("d: {c: 3, <<: {c: 4}}") == {"d": {"c": 4}}


def test_lines() -> None:
    text = "# a comment\na:\n  - b: 1\n  - c:\n      d: 2\n---\ne: 3\n---\n"
    one, two = documents(text)
    assert one.line(()) == 2
    assert one.line(("a", 1, "c", "d")) == 5
    assert one.line(("a", 1, "c", "no", "such")) == 4
    assert two.data == {"e": 3}
    assert two.line(("e",)) == 7


@pytest.mark.parametrize(("text", "line", "reason"), CASES["errors"])
def test_errors(text: str, line: int, reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert caught.value.line == line
    assert reason in caught.value.reason


def test_nothing() -> None:
    assert load("") is None
    assert load("# only a comment\n") is None


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "- " * 100_000 + "a", "{a: " * 50_000, "\n".join(" " * depth + "a:" for depth in range(3_000))],
    ids=["lists", "items", "mappings", "indentation"],
)
def test_a_text_that_would_end_the_parser_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="nested more than 200 levels deep"):
        load(text)
