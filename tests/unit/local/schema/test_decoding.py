# SPDX-License-Identifier: Apache-2.0
"""Pruning, null dropping and defaulting of custom resources."""

from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.schema.tables import decoded
from trainwright.controller.local.apiserver.kinds.custom import Schema
from trainwright.controller.local.types.go_json import DocumentDecodeError

CASES = cases(__file__)

NUMBER = {"type": "integer"}
OBJECT = {"type": "object", "properties": {"a": NUMBER}}


@pytest.mark.parametrize(("field", "value", "kept", "dropped"), CASES["decoding"])
def test_decoding(field: dict[str, Any], value: Any, kept: Any, dropped: list[str]) -> None:
    assert decoded(field, value) == (kept, dropped)


def test_defaults_are_copied_and_not_invented_in_absent_objects() -> None:
    inner = {"type": "object", "properties": {"a": {**NUMBER, "default": 1}}}
    schema = Schema({"type": "object", "properties": {"made": {**inner, "default": {}}, "absent": inner}})
    first: dict[str, Any] = {}
    schema.default(first)
    assert first == {"made": {"a": 1}}
    first["made"]["a"] = 2
    second: dict[str, Any] = {}
    schema.default(second)
    assert second == {"made": {"a": 1}}


TEMPLATE = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": OBJECT}}


def test_embedded_objects_keep_kind_and_metadata() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"b": 1}, "other": 1}
    metadata: dict[str, Any] = {"name": "a", "labels": {}, "creationTimestamp": None, "nonsense": 1}
    kept, dropped = decoded(TEMPLATE, {**pod, "metadata": metadata})
    assert kept == {"apiVersion": "v1", "kind": "Pod", "spec": {}, "metadata": {"name": "a"}}
    assert dropped == ["x.other", "x.spec.b", "x.metadata.nonsense"]


@pytest.mark.parametrize(("value", "text"), CASES["embedded_objects_of_wrong_types"])
def test_embedded_objects_of_wrong_types(value: Any, text: str) -> None:
    with pytest.raises(DocumentDecodeError) as caught:
        decoded(TEMPLATE, value)
    assert str(caught.value) == text
