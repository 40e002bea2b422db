# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents: complete, and with what kubectl looks for.

tests/integration/local/test_views_on_the_real_server.py compares them with the real ones; kubectl reads them beside it.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.local.things import built_in, custom
from trainwright.controller.local.apiserver.views.discovery import DiscoveryGroup, groups_of
from trainwright.controller.local.apiserver.views.openapi import document, document_path, index

Document = dict[str, Any]

GROUPS = groups_of(built_in())
SCHEMA: Document = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "apiVersion": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {"template": {"type": "object", "x-kubernetes-embedded-resource": True}},
        },
    },
}


WIDGET = custom(schema={"openAPIV3Schema": SCHEMA}, subresources={"status": {}})


def references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name or "core")
def test_documents_of_built_in_kinds(group: DiscoveryGroup) -> None:
    resources = group.versions[group.preferred]
    made = document(resources, "1.36")
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert set(references(made)) <= known
    patched = {
        operation["x-kubernetes-group-version-kind"]["kind"]
        for item in made["paths"].values()
        for method, operation in item.items()
        if method == "patch" and "fieldValidation" in [one["name"] for one in operation["parameters"]]
    }
    # Kinds that can only be created have the operation for kubectl, which looks nowhere else.
    assert patched == {one.kind for one in resources if "patch" in one.verbs or one.verbs == ("create",)}


def test_documents_of_custom_resources() -> None:
    made = document([WIDGET], "1.36")
    collection = "/apis/example.com/v1/namespaces/{namespace}/widgets"
    assert list(made["paths"]) == [collection, f"{collection}/{{name}}"]
    patch = made["paths"][f"{collection}/{{name}}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    model = made["components"]["schemas"]["com.example.v1.Widget"]
    metadata = {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]}
    assert model["properties"]["metadata"] == metadata
    assert model["properties"]["spec"]["properties"]["template"]["properties"]["metadata"] == metadata
    assert model["description"] == "A widget."
    assert "com.example.v1.WidgetList" in made["components"]["schemas"]
    # The definition's schema stays as it is.
    assert SCHEMA["properties"]["metadata"] == {"type": "object"}


def test_the_index() -> None:
    paths = {document_path("", "v1"): "a", document_path("batch", "v1"): "b"}
    assert index(paths) == {
        "paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=a"},
            "apis/batch/v1": {"serverRelativeURL": "/openapi/v3/apis/batch/v1?hash=b"},
        }
    }
