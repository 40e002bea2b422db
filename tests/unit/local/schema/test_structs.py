# SPDX-License-Identifier: Apache-2.0
"""Decoding of built-in kinds from their OpenAPI models."""

import copy
from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.types.go_json import decode as read
from trainwright.controller.local.types.model import Types

CASES = cases(__file__)

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
TEXT = {"type": "string"}


def ref(name: str) -> dict[str, Any]:
    """As the server writes references with defaults."""
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}


def made(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


MODELS = {
    f"{CORE}Pod": made(apiVersion=TEXT, kind=TEXT, metadata=ref(f"{META}ObjectMeta"), spec=ref(f"{CORE}PodSpec")),
    f"{META}ObjectMeta": made(
        name=TEXT, labels={"type": "object", "additionalProperties": TEXT}, creationTimestamp=ref(f"{META}Time")
    ),
    f"{META}Time": {"type": "string", "format": "date-time"},
    f"{CORE}PodSpec": made(
        containers={"type": "array", "items": ref(f"{CORE}Container")},
        hostNetwork={"type": "boolean"},
        seconds={"type": "integer", "format": "int64"},
        again=ref(f"{CORE}PodSpec"),
    ),
    f"{CORE}Container": made(
        name=TEXT,
        imagePullPolicy=TEXT,
        port={"type": "integer", "format": "int32"},
        data={"type": "string", "format": "byte"},
        limits={
            "type": "object",
            "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
        },
        probe=ref(f"{CORE}Probe"),
        any=ref("io.k8s.apimachinery.pkg.runtime.RawExtension"),
    ),
    f"{CORE}Probe": made(httpGet=ref(f"{CORE}HTTPGetAction")),
    f"{CORE}HTTPGetAction": made(port=ref("io.k8s.apimachinery.pkg.util.intstr.IntOrString")),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [TEXT, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"oneOf": [{"type": "integer"}, TEXT]},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
}
TYPES = Types(MODELS)


def decode(document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    document = copy.deepcopy(document)
    return document, read(TYPES.named(f"{CORE}Pod"), document)


def test_unknown_fields_and_nulls_are_dropped() -> None:
    pod = {
        "kind": "Pod",
        "x": 1,
        "metadata": {"labels": {"a": None, "b": "c"}, "y": {"z": 1}, "name": None},
        "spec": {"containers": [{"name": "a", "q": 1, "any": {"kept": None}}, None], "again": {"again": {"w": 1}}},
    }
    kept, dropped = decode(pod)
    assert kept == {
        "kind": "Pod",
        "metadata": {"labels": {"a": "", "b": "c"}},
        "spec": {"containers": [{"name": "a", "any": {"kept": None}}, {}], "again": {"again": {}}},
    }
    assert dropped == ["x", "metadata.y", "spec.containers[0].q", "spec.again.again.w"]


@pytest.mark.parametrize(("document", "text"), CASES["wrong_types"])
def test_wrong_types(document: dict[str, Any], text: str) -> None:
    with pytest.raises(DocumentDecodeError) as caught:
        decode(document)
    assert str(caught.value) == text


def test_the_first_error_of_the_document_is_told() -> None:
    with pytest.raises(DocumentDecodeError, match=r"spec\.hostNetwork"):
        decode({"unknown": 1, "spec": {"hostNetwork": 1, "containers": 1}})


def test_metadata_is_written_as_its_struct_is() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "", "controller": False}
    given = {
        "name": "a",
        "labels": {},
        "finalizers": [],
        "generation": 0,
        "creationTimestamp": "2026-01-01T01:00:00.5+01:00",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{**owner, "more": 1}],
        "managedFields": [{"manager": "m", "subresource": "", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}}],
    }
    metadata, dropped = decode_metadata(given)
    assert metadata == {
        "name": "a",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [owner],
        "managedFields": [{"manager": "m", "time": "2026-01-01T00:00:00Z", "fieldsV1": {}}],
    }
    assert dropped == ["ownerReferences[0].more"]
