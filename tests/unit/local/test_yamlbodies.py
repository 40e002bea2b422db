# SPDX-License-Identifier: Apache-2.0
"""YAML bodies of requests; scenario 63 compares them with the real server."""

import pytest

from trainwright.controller.local.apiserver.request.yamlbodies import YAMLBodyError, read_yaml


def test_the_last_of_equal_keys_wins_and_each_is_told() -> None:
    value, doubled = read_yaml("a: 1\nb:\n  c: 1\n  c:\n    2\n'a': 3\n")
    assert value == {"a": 3, "b": {"c": 2}}
    assert doubled == ['line 5: key "c" already set in map', 'line 6: key "a" already set in map']


def test_merged_keys_are_set_where_they_stand() -> None:
    value, doubled = read_yaml("x: &x {a: 1, b: 1}\nz:\n  a: 2\n  <<: [*x, {b: 3, c: 3}]\n  c: 4\n")
    assert value["z"] == {"a": 1, "b": 1, "c": 4}
    assert len(doubled) == 3


def test_the_first_document_counts() -> None:
    assert read_yaml("a: 1\n---\n]") == ({"a": 1}, [])
    assert read_yaml("") == (None, [])


def test_deep_texts_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(YAMLBodyError, match="nested more than"):
        read_yaml("[" * 100_000)


def test_many_aliases_of_little_are_fine() -> None:
    value, _ = read_yaml("a: &a [1, 2]\nb: [" + ", ".join(["*a"] * 2000 + ["1"] * 1000) + "]\n")
    assert len(value["b"]) == 3000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b", "line 2: did not find expected ',' or '}'"),
        ("a: b: c", "line 1: mapping values are not allowed in this context"),
        ("a: &a [[*b, {c: *a}]]", "line 1: found undefined alias"),
        ("a: &a [[{c: *a}]]", "line 1: an anchor contains itself"),
        ("{a: b}: c", "line 1: a key must be a scalar"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(YAMLBodyError) as caught:
        read_yaml(text)
    assert str(caught.value) == message
