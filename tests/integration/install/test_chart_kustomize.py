# SPDX-License-Identifier: Apache-2.0
"""The charts and the folders of config/ give the same objects for the same choices, and roles are those of the code."""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import MANAGER, RUNTIMES, Helm, kustomized, nested
from tests.installation import CONFIG, CONFIGURATION, NAME, NAMESPACE, Document
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.cli.rbac import bindings, roles
from trainwright.controller.trainer.assembly.features import GATES
from trainwright.controller.trainer.assembly.parts import rights
from trainwright.plugins.registry import Registry
from trainwright.plugins.registry.discovery import BUILT_IN, built_in

pytestmark = pytest.mark.parity

STATUS = {
    "config.featureGates.TrainJobStatus": True,
    "config.statusServer.port": 10443,
    "config.progress.interval": "10s",
}
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "overlays/cert-manager": {"certManager.enabled": True},
    "overlays/one-namespace": {"onlyNamespace": "default"},
    "overlays/progress": STATUS,
    "overlays/progress-pull": {"config.featureGates.ProgressPull": True},
}
OFF = {f"runtimes.{path.stem}": False for path in (CONFIG / "runtimes").glob("*-*.yaml")}
RUNTIME_CHOICES: Mapping[str, Mapping[str, Any]] = {
    "runtimes": {},
    "overlays/runtimes": {"exemptFromWebhooks": True},
    "runtimes/data-cache": {**OFF, "runtimes.torch-distributed-with-cache": True},
}
COMBINATIONS = 12
HISTORY: Mapping[str, Any] = {
    "config.featureGates.TrainJobStatus": True,
    "config.progress.history": True,
    "config.progress.jobMetrics": True,
}
EXPLAIN: Mapping[str, Any] = {"config.featureGates.Explain": True}
CERTIFICATES: Mapping[str, Any] = {"certManager.enabled": True}
ONE: Mapping[str, Any] = {"onlyNamespace": "default"}
MONITOR: Mapping[str, Any] = {"prometheus.serviceMonitor": True}
OPEN: Mapping[str, Any] = {"networkPolicy.enabled": False}
FILES: Mapping[str, Any] = {"config.featureGates.ProgressPull": True}
NO_POLICY = {
    "target": {"kind": "NetworkPolicy"},
    "patch": yaml.safe_dump({"$patch": "delete", "kind": "NetworkPolicy", "metadata": {"name": NAME}}),
}
PARTS: Mapping[str, Mapping[str, Any]] = {
    "cert-manager": CERTIFICATES,
    "one-namespace": ONE,
    "progress": {"config.featureGates.TrainJobStatus": True},
    "progress-pull": FILES,
}
"""The overlays, and a value without which one is not chosen."""
TOGETHER: Mapping[str, Mapping[str, Any]] = {
    "history": HISTORY,
    "explain": EXPLAIN,
    "prometheus": MONITOR,
    "no network policy": OPEN,
    "progress in two ways": {**STATUS, **FILES},
    "cert-manager and progress": {**CERTIFICATES, **STATUS, **FILES},
    "one namespace, explained": {**ONE, **EXPLAIN, **HISTORY},
    "one namespace with cert-manager": {**ONE, **CERTIFICATES, **FILES},
    "everything": {**CERTIFICATES, **ONE, **STATUS, **FILES, **HISTORY, **EXPLAIN, **MONITOR},
    "everything without a policy": {**STATUS, **FILES, **HISTORY, **EXPLAIN, **MONITOR, **OPEN},
    "all gates": {"config.featureGates": {"AllAlpha": True}},
}
"""What has no overlay of its own, and what needs several."""


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def objects(documents: list[Document]) -> dict[tuple[str, str, str], Document]:
    """By kind, namespace and name, without what is Helm's own."""
    found = {}
    for document in documents:
        metadata = document["metadata"]
        if document["kind"] == "CustomResourceDefinition":
            metadata.get("annotations", {}).pop("helm.sh/resource-policy", None)
            if not metadata.get("annotations"):
                metadata.pop("annotations", None)
        if document["kind"] == "Deployment":
            template = document["spec"]["template"]
            template["metadata"]["annotations"].pop("checksum/config", None)
        if "rules" in document:
            document["rules"] = rights_in(document["rules"])
        if metadata["name"] == "kubeflow-trainer-config":
            config = yaml.safe_load(document["data"][CONFIGURATION])
            document["data"] = {name: value for name, value in config.items() if value != {}}
        key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"twice: {key}"
        found[key] = document
    return found


def rights_in(rules: list[Document]) -> list[tuple[str, ...]]:
    """Each right alone: components add rules to those of the base, and the charts merge them."""
    found = {
        (group, resource, name, verb)
        for rule in rules
        for group in rule.get("apiGroups", [""])
        for resource in rule.get("resources") or rule["nonResourceURLs"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }
    return sorted(found)


@pytest.mark.parametrize("folder", CHOICES)
def test_the_manager_is_the_same(helm: Helm, folder: str) -> None:
    by_helm = objects(helm.template(MANAGER, nested(CHOICES[folder])))
    by_kustomize = objects(kustomized(CONFIG / folder))
    # Helm creates it itself: --create-namespace.
    del by_kustomize["Namespace", "", NAMESPACE]
    assert by_helm == by_kustomize


@pytest.mark.parametrize("name", TOGETHER)
def test_choices_together_are_the_same(helm: Helm, tmp_path: Path, name: str) -> None:
    values = nested(TOGETHER[name])
    by_helm = objects(helm.template(MANAGER, values))
    folder = tmp_path / "overlay"
    folder.mkdir()
    configuration = by_helm["ConfigMap", NAMESPACE, "kubeflow-trainer-config"]["data"]
    compose(folder, values, configuration)
    by_kustomize = objects(kustomized(folder, "--load-restrictor=LoadRestrictionsNone"))
    del by_kustomize["Namespace", "", NAMESPACE]
    assert sorted(by_helm) == sorted(by_kustomize)
    assert {key: settled(one) for key, one in by_helm.items()} == {
        key: settled(one) for key, one in by_kustomize.items()
    }


def compose(folder: Path, values: Document, configuration: Document) -> None:
    """An overlay as an admin writes it: the patches of several, one Configuration, roles from `trainwright rbac`."""

    def near(path: Path) -> str:
        return os.path.relpath(path, folder)

    overlays = [part for part, choice in PARTS.items() if chosen(choice, values)]
    resources, patches, components, replacements = [near(CONFIG / "default")], [], [], []
    for overlay in overlays:
        place = CONFIG / "overlays" / overlay
        found = yaml.safe_load((place / "kustomization.yaml").read_text())
        # The roles of an overlay are those of that overlay alone.
        resources += [near(place / one) for one in found["resources"] if one not in {"../../default", "role.yaml"}]
        patches += [
            {**one, "path": near(place / one["path"])} if "path" in one else one
            for one in found.get("patches", ())
            if one.get("path") != "role_patch.yaml"
        ]
        components += [near(place / one) for one in found.get("components", ())]
        replacements += found.get("replacements", [])
    if values.get("prometheus", {}).get("serviceMonitor"):
        resources.append(near(CONFIG / "prometheus" / "service_monitor.yaml"))
    if values.get("networkPolicy", {}).get("enabled") is False:
        patches.append(NO_POLICY)
    file = folder / CONFIGURATION
    file.write_text(yaml.safe_dump(configuration))
    settings = load_settings(file, {})
    needed = rights(settings, Registry.load(settings.plugins, built_in()), NAMESPACE)
    only = values.get("onlyNamespace", "")
    for number, document in enumerate([*roles(needed, only), *bindings(needed, NAMESPACE, only)]):
        path = folder / f"rights-{number}.yaml"
        path.write_text(yaml.safe_dump(document))
        if document["metadata"].get("namespace", NAMESPACE) != NAMESPACE:
            resources.append(path.name)
        if "rules" in document:
            # Components add rules, for all namespaces; these are all that are needed.
            patches.append({"path": path.name})
    generator = {"name": "kubeflow-trainer-config", "namespace": NAMESPACE, "behavior": "replace"}
    kustomization = {
        "resources": resources,
        "components": components,
        "patches": patches,
        "replacements": replacements,
        "configMapGenerator": [{**generator, "files": [CONFIGURATION]}],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))


def chosen(choice: Mapping[str, Any], values: Document) -> bool:
    """Whether the values hold this one, as it is or as a gate of all alpha features."""
    ((path, wanted),) = choice.items()
    place: Any = values
    for name in path.split("."):
        place = place.get(name, {})
    every = values.get("config", {}).get("featureGates", {}).get("AllAlpha", False)
    return bool(place == wanted or (every and "featureGates" in path))


def settled(document: Document) -> Document:
    """Without the order of ports, which says nothing."""
    spec = document.get("spec", {})
    if document["kind"] == "Deployment":
        spec["template"]["spec"]["containers"][0]["ports"].sort(key=lambda port: port["name"])
    if document["kind"] == "Service":
        spec["ports"].sort(key=lambda port: port["name"])
    if document["kind"] == "NetworkPolicy":
        spec["ingress"][0]["ports"].sort(key=lambda port: port["port"])
    return document


@pytest.mark.parametrize("folder", RUNTIME_CHOICES)
def test_the_runtimes_are_the_same(helm: Helm, folder: str) -> None:
    by_helm = objects(helm.template(RUNTIMES, nested(RUNTIME_CHOICES[folder])))
    assert by_helm == objects(kustomized(CONFIG / folder))


@pytest.mark.parametrize("seed", range(COMBINATIONS))
def test_the_roles_are_those_that_the_manager_needs(helm: Helm, tmp_path: Path, seed: int) -> None:
    config, only = choice(seed)
    file = tmp_path / "configuration.yaml"
    file.write_text(yaml.safe_dump(config))
    settings = load_settings(file, {})
    needed = rights(settings, Registry.load(settings.plugins, built_in()), "home")
    expected = [*roles(needed, only), *bindings(needed, "home", only)]
    values = {"config": config, "onlyNamespace": only, "replicas": 1}
    found = helm.template(MANAGER, values, "--show-only=templates/roles.yaml", namespace="home")
    assert plain(found) == plain(expected)


def choice(seed: int) -> tuple[Document, str]:
    """A Configuration and the only namespace, or none."""
    chance = random.Random(seed)

    def some(names: list[str]) -> list[str]:
        return [name for name in names if chance.random() < 0.4]

    config: Document = {
        "featureGates": dict.fromkeys(some([*GATES, "AllAlpha"]), True) | dict.fromkeys(some([*GATES]), False),
        "plugins": {"disabled": some(sorted(BUILT_IN))},
        "certManagement": {"enable": chance.random() < 0.5, "webhookSecretName": chance.choice(["one", "two"])},
        "metrics": {"bindAddress": chance.choice(["0", ":8443"]), "auth": {"enabled": chance.random() < 0.5}},
        "progress": {"pull": {"exec": chance.random() < 0.5}},
        "leaderElection": {
            "leaderElect": chance.random() < 0.7,
            "resourceName": chance.choice(["trainer.kubeflow.org", "mine"]),
            "resourceNamespace": chance.choice(["", "jobs", "home", "elsewhere"]),
        },
    }
    gates = config["featureGates"]
    on = {name for name in GATES if gates.get(name, gates.get("AllAlpha", False))}
    if "OptimizationJob" in on and not on & {"TrainJobStatus", "ProgressPull"}:
        gates["ProgressPull"] = True  # or the manager does not start
    if chance.random() < 0.5:
        config["cleanup"] = {"objectTTLSeconds": 60}
    return config, chance.choice(["", "", "jobs", "home"])


def plain(documents: list[Document]) -> dict[tuple[str, str], Any]:
    """By kind and namespace; the order of rules says nothing."""
    return {
        (one["kind"], one["metadata"].get("namespace", "")): sorted(map(str, map(ordered, one["rules"])))
        if "rules" in one
        else (one["roleRef"], one["subjects"])
        for one in documents
    }


def ordered(rule: Document) -> list[tuple[str, list[str]]]:
    return sorted((name, sorted(values)) for name, values in rule.items())
