# SPDX-License-Identifier: Apache-2.0
"""The components of config/ combine: with each other, with each overlay that they fit, and with any Configuration."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import kustomized
from tests.installation import CONFIG, CONFIGURATION, NAMESPACE, Document
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.cli.rbac import roles
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.plugins.registry import Registry
from trainwright.plugins.registry.discovery import built_in

pytestmark = pytest.mark.parity

NEEDS: dict[str, dict[str, Any]] = {
    "progress": {"featureGates": {"TrainJobStatus": True}},
    "progress-pull": {"featureGates": {"ProgressPull": True}},
}
"""By component, the Configuration that needs it."""
MORE = {"progress": {"history": True, "jobMetrics": True, "stallAfter": "15m"}}
"""Settings that need nothing more in the cluster."""
ELECTION = {"leaderElection": {"leaderElect": True, "resourceName": "trainer.kubeflow.org"}}
"""As shipped; the Role of the bases is for it."""
OWN: dict[str, dict[str, Any]] = {"default": {}, "overlays/cert-manager": {"certManagement": {"enable": False}}}
"""By base, what its own Configuration says."""


def render(folder: Path, base: str, components: list[str], configuration: dict[str, Any]) -> list[Document]:
    """An overlay as an admin writes it: a base, components and one Configuration."""
    (folder / CONFIGURATION).write_text(yaml.safe_dump(configuration))
    # kustomize wants relative paths.
    root = Path(*[".."] * len(folder.resolve().relative_to("/").parts)) / CONFIG.relative_to("/")
    generator = {"name": "kubeflow-trainer-config", "namespace": NAMESPACE, "behavior": "replace"}
    kustomization = {
        "resources": [str(root / base)],
        "components": [str(root / "components" / name) for name in components],
        "configMapGenerator": [{**generator, "files": [CONFIGURATION]}],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    return kustomized(folder)


def granted(found: list[Document]) -> set[tuple[str, ...]]:
    """Every right in the roles of the manager."""
    return {
        (document["kind"], document["metadata"].get("namespace", ""), group, resource, name, verb)
        for document in found
        if document["kind"] in {"ClusterRole", "Role"} and document["metadata"]["name"].endswith("controller-manager")
        for rule in document["rules"]
        for group in rule.get("apiGroups", [""])
        for resource in rule.get("resources") or rule["nonResourceURLs"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("base", OWN)
@pytest.mark.parametrize("components", [[], ["progress", "progress-pull"], ["progress-pull", "progress"]], ids=str)
def test_what_is_rendered_is_what_the_manager_needs(tmp_path: Path, base: str, components: list[str]) -> None:
    gates = {gate: True for name in components for gate in NEEDS[name]["featureGates"]}
    configuration = {**OWN[base], **MORE, **ELECTION, "featureGates": gates}
    found = render(tmp_path, base, components, configuration)
    settings = load_settings(tmp_path / CONFIGURATION, {})
    needed = list(roles(rights(settings, Registry.load(settings.plugins, built_in()), NAMESPACE)))
    assert granted(found) == granted(needed)

    by_kind = {document["kind"]: document for document in found}
    (stored,) = [one for one in found if one["metadata"]["name"] == "kubeflow-trainer-config"]
    assert yaml.safe_load(stored["data"][CONFIGURATION]) == configuration
    pushed = "progress" in components
    (container,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    for ports in (container["ports"], by_kind["Service"]["spec"]["ports"]):
        assert ("status-server" in {port["name"] for port in ports}) == pushed
    allowed = by_kind["NetworkPolicy"]["spec"]["ingress"][0]["ports"]
    assert ("status-server" in {port["port"] for port in allowed}) == pushed
    policies = {one["metadata"]["name"] for one in found if one["kind"] == "ValidatingAdmissionPolicy"}
    assert ("kubeflow-trainer-progress-exec" in policies) == ("progress-pull" in components)


@pytest.mark.parametrize("name", NEEDS)
def test_the_overlay_of_a_component_has_its_gate(name: str) -> None:
    settings = yaml.safe_load((CONFIG / "overlays" / name / CONFIGURATION).read_text())
    assert settings["featureGates"] == NEEDS[name]["featureGates"]


def test_runtimes_switch_to_our_initializers_and_keep_all_else(tmp_path: Path) -> None:
    root = Path(*[".."] * len(tmp_path.resolve().relative_to("/").parts)) / CONFIG.relative_to("/")
    ours = {"name": "trainwright/model-initializer", "newName": "registry.example.com/m", "newTag": "1"}
    plain: dict[str, Any] = {"resources": [str(root / "runtimes")]}
    switched = {**plain, "components": [str(root / "components" / "initializers")], "images": [ours]}
    texts = []
    for name, kustomization in (("plain", plain), ("switched", switched)):
        (tmp_path / name).mkdir()
        near = json.dumps(kustomization).replace(str(root), str(Path("..") / root))
        (tmp_path / name / "kustomization.yaml").write_text(near)
        texts.append(yaml.safe_dump_all(kustomized(tmp_path / name)))
    before, after = texts
    for kind, image in (("dataset", "trainwright/dataset-initializer:latest"), ("model", "registry.example.com/m:1")):
        original = f"ghcr.io/kubeflow/trainer/{kind}-initializer:v2.3.0"
        assert before.count(original) == 3
        before = before.replace(original, image)
    assert after == before
