# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own types, taken from its published schemas and an overlay, are those that an API server serves."""

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from trainwright.codegen import catalog
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Problems
from trainwright.controller.runtime.testing import ControlPlane

ROOT = Path(__file__).resolve().parents[3]
GROUPS = (
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
)
MERGING = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
)
ATOMIC_IN_DEFINITIONS = {
    # Every CustomResourceDefinition that embeds these makes them atomic; as built-in types they are not.
    "core/v1/ConfigMapEnvSource",
    "core/v1/ConfigMapProjection",
    "core/v1/ConfigMapVolumeSource",
    "core/v1/SecretEnvSource",
    "core/v1/SecretProjection",
}
NULL_THOUGH_REQUIRED = {
    # Servers send null for the time of an event, and for an empty list of limits.
    "events/v1/Event",
    "core/v1/LimitRangeSpec",
}
NO_DEFAULT_IN_DEFINITIONS = {
    # The other way round: defaults of the built-in type that no CustomResourceDefinition has.
    ("core/v1/AzureDiskVolumeSource", "cachingMode"),
    ("core/v1/AzureDiskVolumeSource", "kind"),
}
Schemas = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> Schemas:
    context = ssl.create_default_context(cadata=control_plane.ca.decode())
    found: Schemas = {}
    for group in GROUPS:
        request = urllib.request.Request(
            f"{control_plane.url}/openapi/v3/{group}", headers={"Authorization": f"Bearer {control_plane.token}"}
        )
        with urllib.request.urlopen(request, context=context) as answer:
            for name, schema in json.load(answer)["components"]["schemas"].items():
                short = name.removeprefix("io.k8s.api.").removeprefix("io.k8s.apimachinery.pkg.apis.")
                found[short.replace(".", "/")] = schema
    return found


@pytest.fixture(scope="module")
def known() -> Catalog:
    return catalog.read(ROOT / "api", Problems())


def ours(known: Catalog, served: Schemas) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each type of Kubernetes that we have and an API server serves, in both versions."""
    both = [
        (key, definition.schema, served[key])
        for key, definition in known.definitions.items()
        if definition.document is None and key in served
    ]
    assert len(both) > 200
    return both


@pytest.mark.real_control_plane("CronJobs")
def test_all_are_served(known: Catalog, served: Schemas) -> None:
    mine = {key for key, definition in known.definitions.items() if definition.document is None}
    assert mine - set(served) == {"meta/v1/GroupVersionKind", "meta/v1/GroupVersionResource"}


def test_same_fields(known: Catalog, served: Schemas) -> None:
    for key, mine, theirs in ours(known, served):
        assert set(mine.get("properties", {})) == set(theirs.get("properties", {})), key
        if key not in NULL_THOUGH_REQUIRED:
            assert set(mine.get("required", ())) == set(theirs.get("required", ())), key


def test_same_merging(known: Catalog, served: Schemas) -> None:
    for key, mine, theirs in ours(known, served):
        if key not in ATOMIC_IN_DEFINITIONS:
            assert mine.get("x-kubernetes-map-type") == theirs.get("x-kubernetes-map-type"), key
        for name, field in mine.get("properties", {}).items():
            words = {word: field.get(word) for word in MERGING}
            assert words == {word: theirs["properties"][name].get(word) for word in MERGING}, f"{key}.{name}"


def test_same_defaults(known: Catalog, served: Schemas) -> None:
    """Of the server's defaults, those that say nothing (what Go has for an unset value) are not ours."""
    for key, mine, theirs in ours(known, served):
        for name, field in mine.get("properties", {}).items():
            served_default = theirs["properties"][name].get("default")
            if served_default and (key, name) not in NO_DEFAULT_IN_DEFINITIONS:
                assert field.get("default") == served_default, f"{key}.{name}"
            if "default" in field:
                assert field["default"] == served_default, f"{key}.{name}"
