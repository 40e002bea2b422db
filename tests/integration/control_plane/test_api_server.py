# SPDX-License-Identifier: Apache-2.0
"""The shared API server is a real one: definitions, rights, watches, the audit log."""

import json
import re
import secrets
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.config
import kubernetes.watch
import pytest

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError

# An independent client; its annotations are looser than what it does.
KUBERNETES: Any = kubernetes


def official_client(control_plane: ControlPlane) -> AbstractContextManager[Any]:
    client: AbstractContextManager[Any] = KUBERNETES.config.new_client_from_config(str(control_plane.kubeconfig))
    return client


def definition(plural: str) -> dict[str, Any]:
    group = f"{plural}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize(), "listKind": "TheList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def allowed(control_plane: ControlPlane, verb: str, resource: str, namespace: str, kubeconfig: Path) -> bool:
    """Whether the user may; roles reach the authorizer through a cache, moments after they were written."""
    try:
        control_plane.kubectl("auth", "can-i", verb, resource, "--namespace", namespace, kubeconfig=kubeconfig)
    except ControlPlaneError:  # kubectl's exit code 1 means no
        return False
    return True


def test_a_definition_is_established_and_enforced(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    plural = f"w{secrets.token_hex(4)}s"
    path = tmp_path / "crd.yaml"
    path.write_text(json.dumps(definition(plural)))
    control_plane.install_crds(path)
    thing: dict[str, Any] = {
        "apiVersion": f"{plural}.example.com/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"n": 1},
    }
    control_plane.apply(thing)
    with pytest.raises(ControlPlaneError, match=r"spec\.n"):
        control_plane.apply(thing | {"spec": {"n": "one"}})


def test_a_bad_definition_is_refused_in_the_api_servers_words(control_plane: ControlPlane, tmp_path: Path) -> None:
    bad = definition("bads")
    bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "nonsense"
    path = tmp_path / "crd.yaml"
    path.write_text(json.dumps(bad))
    with pytest.raises(ControlPlaneError, match="nonsense"):
        control_plane.install_crds(path)


@pytest.mark.parametrize("name", ["crd.yaml", "crd.yml", "crd.json"])
def test_a_folder_of_definitions_may_hold_other_objects(
    control_plane: ControlPlane, namespace: str, name: str, tmp_path: Path
) -> None:
    plural = f"w{secrets.token_hex(4)}s"
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside", "namespace": namespace}}
    (tmp_path / name).write_text(json.dumps(definition(plural)))
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    (tmp_path / "kustomization.yaml").write_text("resources: [crd.yaml, other.yaml]\n")
    control_plane.install_crds(tmp_path)
    assert control_plane.kubectl("get", plural, "--namespace", namespace, "--output=name") == ""
    control_plane.kubectl("get", "configmap", "beside", "--namespace", namespace)


def test_a_folder_without_definitions_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(ControlPlaneError, match=rf"{re.escape(str(tmp_path))} holds no CRDs \(\*\.yaml, "):
        control_plane.install_crds(tmp_path)


def test_kubectl_does_not_do_what_the_user_told_their_own(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preference = {
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "defaults": [{"command": "get", "options": [{"name": "output", "default": "json"}]}],
    }
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "kuberc").write_text(json.dumps(preference))
    monkeypatch.setenv("HOME", str(tmp_path))
    # The preference takes effect for whoever asks without us.
    command = [str(control_plane.kubectl_path), "get", "namespaces", f"--kubeconfig={control_plane.kubeconfig}"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.startswith(b"{")
    monkeypatch.setenv("KUBERC", str(tmp_path / ".kube" / "kuberc"))
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert control_plane.kubectl("get", "namespaces").startswith("NAME ")


def test_a_user_is_made_once(control_plane: ControlPlane) -> None:
    user = f"user-{secrets.token_hex(4)}"
    kubeconfig = control_plane.add_user(user)
    before = kubeconfig.read_text()
    with pytest.raises(ControlPlaneError, match=f"there is a user {user} already"):
        control_plane.add_user(user, groups=["system:masters"])
    assert kubeconfig.read_text() == before


def test_rbac_denies_a_user_without_rights(control_plane: ControlPlane, namespace: str) -> None:
    user = f"user-{secrets.token_hex(4)}"
    kubeconfig = control_plane.add_user(user)
    with pytest.raises(ControlPlaneError, match=f'User "{user}" cannot list resource "configmaps"'):
        control_plane.kubectl("get", "configmaps", "--namespace", namespace, kubeconfig=kubeconfig)
    control_plane.kubectl("create", "role", "look", "--verb=list", "--resource=configmaps", "--namespace", namespace)
    control_plane.kubectl("create", "rolebinding", "look", "--role=look", f"--user={user}", "--namespace", namespace)
    deadline = time.monotonic() + 30
    while not allowed(control_plane, "list", "configmaps", namespace, kubeconfig):
        assert time.monotonic() < deadline, "the right did not arrive"
    control_plane.kubectl("get", "configmaps", "--namespace", namespace, kubeconfig=kubeconfig)


def test_a_groups_rights_are_its_members(control_plane: ControlPlane) -> None:
    user = f"user-{secrets.token_hex(4)}"
    kubeconfig = control_plane.add_user(user, groups=["system:masters"])
    assert "kube-system" in control_plane.kubectl("get", "namespaces", kubeconfig=kubeconfig)


def test_blocking_an_owners_deletion_needs_the_right_to_its_finalizers(
    control_plane: ControlPlane, namespace: str
) -> None:
    user = f"user-{secrets.token_hex(4)}"
    kubeconfig = control_plane.add_user(user)
    control_plane.kubectl("create", "configmap", "owner", "--namespace", namespace)
    control_plane.kubectl(
        "create", "role", "maker", "--verb=create", "--resource=secrets,configmaps", "--namespace", namespace
    )
    control_plane.kubectl("create", "rolebinding", "maker", "--role=maker", f"--user={user}", "--namespace", namespace)
    deadline = time.monotonic() + 30
    while not allowed(control_plane, "create", "secrets", namespace, kubeconfig):
        assert time.monotonic() < deadline, "the right did not arrive"
    uid = control_plane.kubectl("get", "configmap", "owner", "--namespace", namespace, "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    owned = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "owned", "namespace": namespace, "ownerReferences": [owner]},
    }
    with pytest.raises(ControlPlaneError, match="cannot set blockOwnerDeletion"):
        control_plane.kubectl("create", "--filename=-", stdin=json.dumps(owned), kubeconfig=kubeconfig)


def test_a_watch_streams_what_happens(control_plane: ControlPlane, namespace: str) -> None:
    with official_client(control_plane) as client:
        core = KUBERNETES.client.CoreV1Api(client)
        version = core.list_namespaced_config_map(namespace).metadata.resource_version
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "watched"}})
        core.patch_namespaced_config_map("watched", namespace, {"data": {"key": "value"}})
        core.delete_namespaced_config_map("watched", namespace)
        watch = KUBERNETES.watch.Watch()
        events = []
        for event in watch.stream(
            core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=30
        ):
            events.append(event["type"])
            if event["type"] == "DELETED":
                watch.stop()
    assert events == ["ADDED", "MODIFIED", "DELETED"]


def test_the_audit_log_counts_the_calls_of_a_user_agent(control_plane: ControlPlane, namespace: str) -> None:
    agent = f"counted/{secrets.token_hex(4)}"
    with official_client(control_plane) as client:
        client.user_agent = agent
        core = KUBERNETES.client.CoreV1Api(client)
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "counted"}})
        core.read_namespaced_config_map("counted", namespace)
    calls = list(control_plane.audit_log.calls(user_agent=agent))
    assert [(call.verb, call.resource, call.namespace, call.name, call.code) for call in calls] == [
        ("create", "configmaps", namespace, "counted", 201),
        ("get", "configmaps", namespace, "counted", 200),
    ]
    assert [call.is_write for call in calls] == [True, False]
