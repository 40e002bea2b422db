# SPDX-License-Identifier: Apache-2.0
"""YAML bodies of requests; scenario 63 compares them with the real server."""

import pytest

from trainwright.controller.local.apiserver.request.bodies import YAMLBodyError, parse_yaml


def test_the_last_of_equal_keys_wins_and_each_is_told() -> None:
    value, duplicates = parse_yaml("a: 1\nb:\n  c: 1\n  c:\n    2\n'a': 3\n")
    assert value == {"a": 3, "b": {"c": 2}}
    assert duplicates == ['line 5: key "c" already set in map', 'line 6: key "a" already set in map']


def test_merged_keys_are_set_where_they_stand() -> None:
    value, duplicates = parse_yaml("x: &x {a: 1, b: 1}\nz:\n  a: 2\n  <<: [*x, {b: 3, c: 3}]\n  c: 4\n")
    assert value["z"] == {"a": 1, "b": 1, "c": 4}
    assert len(duplicates) == 3


def test_the_first_document_counts() -> None:
    assert parse_yaml("a: 1\n---\n]") == ({"a": 1}, [])
    assert parse_yaml("") == (None, [])


def test_deep_texts_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(YAMLBodyError, match="nested more than"):
        parse_yaml("[" * 100_000)


def test_many_aliases_of_little_are_fine() -> None:
    value, _ = parse_yaml("a: &a [1, 2]\nb: [" + ", ".join(["*a"] * 2000 + ["1"] * 1000) + "]\n")
    assert len(value["b"]) == 3000


def test_a_small_text_that_stands_for_an_enormous_document_is_refused() -> None:
    levels = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9))
    with pytest.raises(YAMLBodyError, match="excessive aliasing"):
        parse_yaml("a0: &a0 [1]\n" + levels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b", "line 2: did not find expected ',' or '}'"),
        ("a: b: c", "line 1: mapping values are not allowed in this context"),
        ("a: &a [[*b, {c: *a}]]", "line 1: found undefined alias"),
        ("a: &a [[{c: *a}]]", "line 1: an anchor contains itself"),
        ("{a: b}: c", "line 1: a key must be text"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(YAMLBodyError) as caught:
        parse_yaml(text)
    assert str(caught.value) == message
