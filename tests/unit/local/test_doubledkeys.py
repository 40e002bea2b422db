# SPDX-License-Identifier: Apache-2.0
"""JSON bodies in which an object has a key twice."""

from trainwright.controller.local.apiserver.request.doubledkeys import doubled_fields, merged, pairs_of

BODY = rb"""{"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}], "nodeSelector": {"a": "b"},
    "terminationGracePeriodSeconds": 5, "hostname": "h"},
  "x": {"y": 1, "y": {"z": 1}, "y": {}},
  "spec": {"containers": [{"image": "j"}], "nodeSelector": {"c": "d"}, "terminationGracePeriodSeconds": null,
    "hostname": null, "tolerations": null}}"""


def test_single_keys_cost_no_second_look() -> None:
    assert pairs_of(b'{"a": {"a": [{"a": 1}, {"a": 1}]}}') is None


def test_each_doubled_field_is_named_once() -> None:
    assert doubled_fields(pairs_of(BODY)) == ['duplicate field "x.y"', 'duplicate field "spec"']
    assert doubled_fields(pairs_of(b'[{"a": [{"b": 1, "b": 2}]}]')) == ['duplicate field "[0].a[0].b"']


def test_structs_and_maps_are_merged_and_lists_item_by_item() -> None:
    made = merged(pairs_of(BODY), "core/v1.Pod")
    assert made["spec"] == {
        "containers": [{"name": "a", "image": "j"}],
        "nodeSelector": {"a": "b", "c": "d"},
        "terminationGracePeriodSeconds": None,
        "hostname": "h",
        "tolerations": None,
    }
    assert made["x"] == {"y": {}}


def test_broken_text_is_read() -> None:
    assert pairs_of(b'{"a": "\xff"}') is None
    assert merged(pairs_of(b'{"a": "\xff", "a": "\xfe"}'), "core/v1.Pod") == {"a": "\ufffd"}
