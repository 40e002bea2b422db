# SPDX-License-Identifier: Apache-2.0
"""JSON bodies in which an object has a key twice."""

from trainwright.controller.local.apiserver.request.bodies import duplicate_keys


def test_each_duplicate_key_is_named_once() -> None:
    body = b'{"spec": {"a": [{"b": 1}, {"b": 1}]}, "x": {"y": 1, "y": {"z": 1}, "y": {}}, "spec": {"a": null}}'
    assert duplicate_keys(body) == ['duplicate field "x.y"', 'duplicate field "spec"']
    assert duplicate_keys(b'[{"a": [{"b": 1, "b": 2}]}]') == ['duplicate field "[0].a[0].b"']
    assert duplicate_keys(b'{"a": {"a": [{"a": 1}, {"a": 1}]}}') == []


def test_broken_text_is_read() -> None:
    assert duplicate_keys(b'{"a": "\xff"}') == []
