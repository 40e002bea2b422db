# SPDX-License-Identifier: Apache-2.0
"""The published models: complete, without texts, and found by kind."""

from collections.abc import Iterable
from typing import Any

from trainwright.controller.local.types.model import Types, models_by_kind, published_models


def references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner.rpartition("/")[2]
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_to_a_model() -> None:
    models = published_models()
    assert set(references(models)) <= models.keys()


def test_kinds_are_found() -> None:
    names = models_by_kind()
    assert names["v1", "Pod"] == "io.k8s.api.core.v1.Pod"
    assert names["batch/v1", "JobList"] == "io.k8s.api.batch.v1.JobList"
    assert names["v1", "DeleteOptions"] == "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    assert names["policy/v1", "Eviction"] == "io.k8s.api.policy.v1.Eviction"


def test_structure_is_kept_and_texts_are_not() -> None:
    models = published_models()
    containers = models["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    # A field of that name, and no text of a field.
    text = {"type": "string"}
    schema = models["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"]
    assert schema["properties"]["description"] == text
    assert "description" not in schema


def test_every_model_can_be_merged() -> None:
    types = Types(published_models())
    for name in published_models():
        assert types.named(name).name == name
