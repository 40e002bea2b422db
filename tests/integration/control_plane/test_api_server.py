# SPDX-License-Identifier: Apache-2.0
"""The shared API server: CRDs, users and rights, watches, the audit log."""

import json
import re
import secrets
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import kubernetes
import kubernetes.config
import kubernetes.watch
import pytest

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.users import EVERYTHING

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
    assert control_plane.stored.list(plural, namespace) == []
    assert control_plane.stored.get("configmap", "beside", namespace) is not None


def test_a_folder_without_definitions_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(ControlPlaneError, match=rf"{re.escape(str(tmp_path))} contains no CRDs \(\*\.yaml, "):
        control_plane.install_crds(tmp_path)


@pytest.mark.real_control_plane("kubectl")
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


@pytest.mark.real_control_plane("kubectl")
def test_a_user_has_the_rights_that_it_is_given(control_plane: ControlPlane, namespace: str) -> None:
    look = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    user = f"user-{secrets.token_hex(4)}"
    here = control_plane.add_user(user, rules=[look], namespace=namespace)
    control_plane.kubectl("get", "configmaps", "--namespace", namespace, kubeconfig=here)
    with pytest.raises(ControlPlaneError, match=f'User "{user}" cannot list resource "configmaps"'):
        control_plane.kubectl("get", "configmaps", "--all-namespaces", kubeconfig=here)
    everywhere = control_plane.add_user(f"{user}-everywhere", rules=[look])
    control_plane.kubectl("get", "configmaps", "--all-namespaces", kubeconfig=everywhere)


@pytest.mark.real_control_plane("kubectl")
def test_a_service_account_has_a_token_and_the_rights_that_it_is_given(
    control_plane: ControlPlane, namespace: str
) -> None:
    users = control_plane.users
    token = users.add_service_account("looker", namespace, rules=EVERYTHING)
    kubeconfig = users.kubeconfig_with_token(f"looker-{namespace}", token)
    assert namespace in control_plane.kubectl("get", "namespaces", kubeconfig=kubeconfig)
    whoami = control_plane.kubectl("auth", "whoami", kubeconfig=kubeconfig)
    assert f"system:serviceaccount:{namespace}:looker" in whoami
    folder = users.mount_service_account("looker", namespace, control_plane.folder / f"account-{namespace}")
    assert (folder / "namespace").read_text() == namespace
    assert (folder / "ca.crt").read_bytes() == control_plane.ca
    assert (folder / "token").read_text().count(".") == 2


def test_a_namespace_has_the_labels_that_it_is_given(control_plane: ControlPlane) -> None:
    labelled = control_plane.create_namespace("labelled", labels={"example.com/a": "b"})
    found = control_plane.stored.get("namespace", labelled)
    assert found is not None
    assert found["metadata"]["labels"]["example.com/a"] == "b"


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


def test_the_audit_log_tells_refused_rights_from_what_admission_refuses(
    control_plane: ControlPlane, namespace: str
) -> None:
    name = f"poor-{secrets.token_hex(4)}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    kubeconfig = control_plane.users.add_user(name, rules=rules)
    with KUBERNETES.config.new_client_from_config(str(kubeconfig)) as client:
        core = KUBERNETES.client.CoreV1Api(client)
        for call in (core.read_namespaced_config_map, core.delete_namespaced_config_map):
            with pytest.raises(KUBERNETES.client.ApiException, match="Forbidden"):
                call("none", namespace)
        control_plane.stored.delete("namespace", namespace, wait=False)
        with pytest.raises(KUBERNETES.client.ApiException, match="is being terminated"):
            core.create_namespaced_config_map(namespace, {"metadata": {"name": "late"}})
    calls = control_plane.audit_log.calls(user=name)
    assert [(call.verb, call.code, call.decision) for call in calls] == [
        ("get", 403, "forbid"),
        ("delete", 403, "forbid"),
        ("create", 403, "allow"),
    ]
