# SPDX-License-Identifier: Apache-2.0
"""Long lists that are taken apart item by item, beside the same lists read at once."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.controller.runtime.client import reads
from trainwright.controller.runtime.client.reads import cut
from trainwright.controller.runtime.errors import DecodeError

NASTY = '},{"metadata":{"name":"inner"}}]'
LABELS = st.dictionaries(st.sampled_from(["a", NASTY, "metadata"]), st.sampled_from(["b", NASTY, "]}"]), max_size=2)
INNER: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([1, None, NASTY, [], {}]),
    lambda below: st.lists(below | st.builds(lambda labels: {"metadata": {"labels": labels}}, LABELS), max_size=3),
    max_leaves=5,
)
ITEMS = st.lists(
    st.builds(
        lambda name, labels, spec, version: {**version, "metadata": {"name": name, "labels": labels}, "spec": spec},
        st.sampled_from(["a", "b", NASTY]),
        LABELS,
        INNER,
        st.sampled_from([{}, {"apiVersion": "x/v1", "kind": "X"}]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(autouse=True)
def _every_list_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "LONG_BYTES", 0)


def written(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


@given(ITEMS, st.booleans())
def test_items_are_those_of_the_whole_list(items: list[Any], sorted_names: bool) -> None:
    meta = {"metadata": {"resourceVersion": "7", "continue": "t"}}
    # Built-in kinds are written with their items last, custom resources with the names in order.
    body = written({"kind": "L", **meta, "items": items} if not sorted_names else {"items": items, "kind": "L", **meta})
    long = cut(body)
    assert long is not None
    assert json.loads(long.envelope) == {"kind": "L", **meta, "items": []}
    assert [json.loads(bytes(item)) for item in long.items] == items
    assert bool(long.items)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"items":[]}', b'{"items":null,"metadata":{}}'])
def test_other_forms_are_left_alone(body: bytes) -> None:
    assert cut(body) is None


def test_short_lists_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "LONG_BYTES", 1000)
    assert cut(b'{"items":[{"metadata":{}}]}') is None


def test_items_that_are_not_json_are_an_error() -> None:
    long = cut(b'{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":}}]}')
    assert long is not None
    found = iter(long.items)
    assert msgspec.json.decode(next(found)) == {"metadata": {"name": "a"}}
    with pytest.raises(DecodeError, match="not a list"):
        next(found)


def test_item_that_is_nested_too_deeply_is_one_item() -> None:
    deep = "[" * 9_000 + "]" * 9_000
    text = '{"items":[{"metadata":{"name":"a"},"x":' + deep + '},{"metadata":{"name":"b"}}]}'
    long = cut(text.encode())
    assert long is not None
    first, second = long.items
    assert bytes(first).startswith(b'{"metadata":{"name":"a"}')
    assert bytes(first).endswith(b"]}")
    assert bytes(second) == b'{"metadata":{"name":"b"}}'
