# SPDX-License-Identifier: Apache-2.0
"""What the test kit reads and creates without kubectl is what kubectl would show."""

import json

import pytest

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError


def config_map(namespace: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}, **more}


@pytest.mark.real_control_plane("kubectl")
def test_an_object_is_as_kubectl_shows_it(control_plane: ControlPlane, namespace: str) -> None:
    made = control_plane.stored.create(config_map(namespace, data={"key": "value"}))
    shown = control_plane.kubectl(
        "get", "configmap", "a", f"--namespace={namespace}", "--show-managed-fields", "-ojson"
    )
    assert control_plane.stored.get("configmap", "a", namespace) == json.loads(shown) == made
    (listed,) = [one for one in control_plane.stored.list("cm", namespace) if one["metadata"]["name"] == "a"]
    assert listed == made
    assert control_plane.stored.get("ConfigMap", "b", namespace) is None


@pytest.mark.parametrize("name", ["trainjobs", "trainjob", "TrainJob", "trainjobs.trainer.kubeflow.org"])
def test_a_kind_has_the_names_that_kubectl_knows(control_plane: ControlPlane, namespace: str, name: str) -> None:
    assert control_plane.stored.list(name, namespace) == []


def test_an_object_of_the_cluster_has_no_namespace(control_plane: ControlPlane, namespace: str) -> None:
    found = control_plane.stored.get("namespace", namespace)
    assert found is not None
    assert found["metadata"]["name"] == namespace
    assert namespace in [one["metadata"]["name"] for one in control_plane.stored.list("ns")]


def test_what_is_refused_says_why(control_plane: ControlPlane, namespace: str) -> None:
    with pytest.raises(ControlPlaneError, match='unknown field "date"'):
        control_plane.stored.create(config_map(namespace, date={}))
    # A name that no test gives a kind of its own: the API server is shared, and definitions stay on it.
    with pytest.raises(ControlPlaneError, match="does not serve servedbynobody"):
        control_plane.stored.list("servedbynobody", namespace)
    control_plane.stored.create(config_map(namespace), dry_run=True)
    assert control_plane.stored.get("configmap", "a", namespace) is None
