# SPDX-License-Identifier: Apache-2.0
"""The form in which documents of built-in kinds are stored."""

import copy
from typing import Any

import pytest

from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy
from trainwright.controller.local.types.go_json import DocumentDecodeError, decode, normalize
from trainwright.controller.local.types.model import EXTENSIONS, builtin

Document = dict[str, Any]
ALL = built_in_kinds(for_others=True)


def rewritten(document: Document, model: str = "io.k8s.api.core.v1.Pod") -> Document:
    made = copy.deepcopy(document)
    normalize(made, model)
    return made


def spec(**fields: Any) -> Document:
    made: Document = rewritten({"spec": fields})["spec"]
    return made


@pytest.mark.parametrize("built_in", ALL, ids=lambda one: f"{one.api_version} {one.kind}")
def test_each_kind_has_a_struct(built_in: Resource) -> None:
    assert isinstance(built_in.strategy, BuiltInStrategy)
    once = rewritten({"metadata": {"name": "a", "labels": {}}, "fromTomorrow": []}, built_in.model)
    assert once["metadata"] == {"name": "a"}
    assert once["fromTomorrow"] == []
    assert rewritten(once, built_in.model) == once


def test_what_go_always_writes() -> None:
    assert rewritten({}) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_zero_values_go_unless_they_are_pointers() -> None:
    made = spec(
        containers=[],
        nodeName="",
        hostNetwork=False,
        nodeSelector={},
        tolerations=[],
        volumes=None,
        enableServiceLinks=False,
        securityContext={},
        terminationGracePeriodSeconds=0,
    )
    assert made == {
        "containers": [],
        "enableServiceLinks": False,
        "securityContext": {},
        "terminationGracePeriodSeconds": 0,
    }


def test_nulls_in_lists_and_maps_are_zero_values() -> None:
    made = spec(containers=[None], nodeSelector={"a": None})
    assert made == {"containers": [{"name": "", "resources": {}}], "nodeSelector": {"a": ""}}


def test_quantities_and_times_are_canonical() -> None:
    resources = {"limits": {"cpu": "1000m", "memory": 1024, "odd": "x"}}
    assert spec(containers=[{"name": "a", "resources": resources}])["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1024", "odd": "x"}
    }
    lease = {"metadata": {"creationTimestamp": "2026-01-01T01:00:00+01:00"}}
    assert rewritten(lease, "io.k8s.api.coordination.v1.Lease")["metadata"] == {
        "creationTimestamp": "2026-01-01T00:00:00Z"
    }


def test_times_and_quantities_without_a_value_are_written() -> None:
    job = rewritten({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "io.k8s.api.batch.v1.Job")
    assert job["status"]["conditions"][0]["lastTransitionTime"] is None
    source = {"resourceFieldRef": {"resource": "limits.cpu"}}
    [variable] = spec(containers=[{"name": "a", "env": [{"name": "b", "valueFrom": source}]}])["containers"][0]["env"]
    assert variable["valueFrom"]["resourceFieldRef"] == {"resource": "limits.cpu", "divisor": "0"}


@pytest.mark.parametrize("field", ["items", "additionalProperties"])
def test_schemas_within_schemas_are_decoded(field: str) -> None:
    model = builtin(f"{EXTENSIONS}.JSONSchemaProps")
    schema: Document = {field: {"type": "object", "bogus": 1}}
    # Go reads them apart, so that nobody is told of what is dropped.
    assert decode(model, schema) == []
    assert schema == {field: {"type": "object"}}
    with pytest.raises(DocumentDecodeError, match=f"^{field}.properties.a: expected an object$"):
        decode(model, {field: {"properties": {"a": []}}})
