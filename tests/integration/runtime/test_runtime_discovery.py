# SPDX-License-Identifier: Apache-2.0
"""Kinds by name on a real API server."""

import json
from pathlib import Path

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.testing import ControlPlane


@pytest.mark.real_control_plane("Deployments")
async def test_kinds_are_found_by_their_names(client: Client) -> None:
    discovery = Discovery(client)
    assert await discovery.resource("v1", "ConfigMap") == ConfigMap.RESOURCE
    for name in ("cm", "configmap", "ConfigMaps"):
        assert await discovery.named(name) == ConfigMap.RESOURCE
    deployment = await discovery.resource_of({"apiVersion": "apps/v1", "kind": "Deployment"})
    assert deployment.path("a", "b") == "/apis/apps/v1/namespaces/a/deployments/b"
    assert await discovery.named("deploy") == deployment
    assert await discovery.named("deployments.apps") == deployment
    assert (await discovery.named("events")).group == ""
    assert (await discovery.named("events.events.k8s.io")).group == "events.k8s.io"
    for wrong in ("nonsense", "pods.apps"):
        with pytest.raises(NotFound, match=f"no kind named '{wrong}'"):
            await discovery.named(wrong)
    with pytest.raises(NotFound):
        await discovery.resource("v1", "Nonsense")
    with pytest.raises(ConfigurationError):
        await discovery.resource_of({"kind": "ConfigMap"})


async def test_a_kind_installed_later_is_found(client: Client, control_plane: ControlPlane, tmp_path: Path) -> None:
    discovery = Discovery(client)
    with pytest.raises(NotFound):
        await discovery.named("contraptions")
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = tmp_path / "contraptions.json"
    definition.write_text(
        json.dumps(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "contraptions.runtime.test"},
                "spec": {
                    "group": "runtime.test",
                    "scope": "Namespaced",
                    "names": {"plural": "contraptions", "kind": "Contraption"},
                    "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
                },
            }
        )
    )
    control_plane.install_crds(definition)
    contraption = await discovery.named("contraptions")
    assert (contraption.group, contraption.version, contraption.kind, contraption.namespaced) == (
        "runtime.test",
        "v1",
        "Contraption",
        True,
    )
    assert await discovery.resource("runtime.test/v1", "Contraption") == contraption
