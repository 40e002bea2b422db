# SPDX-License-Identifier: Apache-2.0
"""The effect of each value of the charts, and what helm says to values that are wrong."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainwright
from tests.charts import CHARTS, MANAGER, NAMESPACE, RUNTIMES, Document, Helm, nested, paths_of
from tests.installation import CONFIGURATION, NAME
from tests.repository import ROOT

pytestmark = pytest.mark.parity

DIGEST = "sha256:" + "0" * 64
RULE = {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["create"]}


class Rendered:
    """What a chart installs."""

    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents

    def all(self, kind: str) -> list[Document]:
        """Those of a kind."""
        return [one for one in self.documents if one["kind"] == kind]

    def one(self, kind: str, name: str = NAME) -> Document:
        """The only one of this name."""
        (found,) = (one for one in self.all(kind) if one["metadata"]["name"] == name)
        return found

    @property
    def pod(self) -> Document:
        """The template of the manager's pods."""
        found: Document = self.one("Deployment")["spec"]["template"]
        return found

    @property
    def container(self) -> Document:
        """The manager's container."""
        (found,) = self.pod["spec"]["containers"]
        return found  # type: ignore[no-any-return]

    @property
    def config(self) -> Document:
        """The Configuration."""
        found: Document = yaml.safe_load(self.one("ConfigMap", "kubeflow-trainer-config")["data"][CONFIGURATION])
        return found

    @property
    def ports(self) -> dict[str, int]:
        """Those of the container, by name."""
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def rights(self, kind: str = "ClusterRole") -> list[Document]:
        """The rules of the manager's role."""
        found: list[Document] = self.one(kind)["rules"]
        return found


Check = Callable[[Rendered], object]
"""True if the value had its effect."""

VALUES: Mapping[str, tuple[Mapping[str, Any], Check]] = {
    "image.repository": (
        {"image.repository": "example.com/t"},
        lambda found: found.container["image"] == f"example.com/t:{trainwright.__version__}",
    ),
    "image.tag": (
        # Digits alone, which files of values need quotes for.
        {"image.tag": "20261122"},
        lambda found: found.container["image"] == "trainwright:20261122",
    ),
    "image.digest": (
        {"image.digest": DIGEST},
        lambda found: found.container["image"] == f"trainwright@{DIGEST}",
    ),
    "image.pullPolicy": (
        {"image.pullPolicy": "Always"},
        lambda found: found.container["imagePullPolicy"] == "Always",
    ),
    "image.pullSecrets": (
        {"image.pullSecrets": [{"name": "key"}]},
        lambda found: found.pod["spec"]["imagePullSecrets"] == [{"name": "key"}],
    ),
    "replicas": ({"replicas": 3}, lambda found: found.one("Deployment")["spec"]["replicas"] == 3),
    "resources": (
        {"resources": {"limits": {"memory": "1Gi"}}},
        # What is not named stays as shipped.
        lambda found: (
            found.container["resources"]
            == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}
        ),
    ),
    "podAnnotations": (
        {"podAnnotations": {"a": "b"}},
        lambda found: found.pod["metadata"]["annotations"]["a"] == "b",
    ),
    "nodeSelector": ({"nodeSelector": {"a": "b"}}, lambda found: found.pod["spec"]["nodeSelector"] == {"a": "b"}),
    "tolerations": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        lambda found: found.pod["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}],
    ),
    "affinity": (
        {"affinity": {"nodeAffinity": {"a": 1}}},
        lambda found: found.pod["spec"]["affinity"] == {"nodeAffinity": {"a": 1}},
    ),
    "priorityClassName": (
        {"priorityClassName": "system-cluster-critical"},
        lambda found: found.pod["spec"]["priorityClassName"] == "system-cluster-critical",
    ),
    "config": (
        {"config": {"cleanup": {"trainJobTTLSeconds": 604800}, "clientConnection": {"qps": 1000000}}},
        lambda found: (
            found.config["cleanup"] == {"trainJobTTLSeconds": 604800}
            and found.config["clientConnection"] == {"qps": 1000000}
            and found.config["leaderElection"]["resourceName"] == "trainer.kubeflow.org"
        ),
    ),
    "onlyNamespace": (
        {"onlyNamespace": "team"},
        lambda found: (
            "--namespace=team" in found.container["args"]
            and {role["metadata"].get("namespace") for role in found.all("Role")} >= {"team"}
            and all("secrets" not in rule["resources"] for rule in found.rights())
        ),
    ),
    "certManager.enabled": (
        {"certManager.enabled": True},
        lambda found: (
            found.one("Certificate", "kubeflow-trainer-webhook-cert")
            and found.config["certManagement"] == {"enable": False}
            and all("patch" not in rule["verbs"] for rule in found.rights() if "resourceNames" in rule)
        ),
    ),
    "networkPolicy.enabled": (
        {"networkPolicy.enabled": False},
        lambda found: not found.all("NetworkPolicy"),
    ),
    "prometheus.serviceMonitor": (
        {"prometheus.serviceMonitor": True},
        lambda found: (
            found.one("ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == f"{NAME}.{NAMESPACE}.svc"
        ),
    ),
    "prometheus.rules": (
        {"prometheus.rules": True},
        lambda found: (
            found.one("PrometheusRule", "trainwright")["spec"]
            == yaml.safe_load((CHARTS.parent / "config" / "prometheus" / "rules.yaml").read_text())
        ),
    ),
    "prometheus.labels": (
        {"prometheus": {"labels": {"release": "one"}, "serviceMonitor": True, "rules": True}},
        lambda found: (
            [
                one["metadata"]["labels"]
                for one in found.documents
                if one["apiVersion"].startswith("monitoring.coreos.com/")
            ]
            == [{"release": "one"}] * 2
        ),
    ),
    "extraRules": ({"extraRules": [RULE]}, lambda found: found.rights()[-1] == RULE),
}
ALONE: Mapping[str, Any] = {"replicas": 1, "config": {"leaderElection": {"leaderElect": False}}}
"""One replica without election."""
CONFIGURATIONS: Mapping[str, tuple[Mapping[str, Any], Check]] = {
    "a gate": (
        {"featureGates": {"TrainJobStatus": True}},
        lambda found: (
            found.ports["status-server"] == 10443
            and found.pod["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] == "9443,10443"
            and {"port": "status-server", "protocol": "TCP"}
            in found.one("NetworkPolicy")["spec"]["ingress"][0]["ports"]
            and "status-server" in {port["name"] for port in found.one("Service")["spec"]["ports"]}
        ),
    ),
    "all gates of a stage but one": (
        {"featureGates": {"AllAlpha": True, "TrainJobStatus": False}},
        lambda found: "status-server" not in found.ports and found.one("ValidatingAdmissionPolicy", POLICY),
    ),
    "a progress server at another port": (
        {"featureGates": {"TrainJobStatus": True}, "statusServer": {"port": 9000}},
        lambda found: (
            found.ports["status-server"] == 9000
            and found.one("Service")["spec"]["ports"][0]
            == {"name": "status-server", "port": 9000, "targetPort": "status-server"}
        ),
    ),
    "progress is read without a program in the pod": (
        {"featureGates": {"ProgressPull": True}, "progress": {"pull": {"exec": False}}},
        lambda found: (
            POLICY not in {one["metadata"]["name"] for one in found.all("ValidatingAdmissionPolicy")}
            and any("pods" in rule["resources"] for rule in found.rights())
            and all("pods/exec" not in rule["resources"] for rule in found.rights())
        ),
    ),
    "a plugin less": (
        {"plugins": {"disabled": ["Volcano"]}},
        lambda found: all("scheduling.volcano.sh" not in rule["apiGroups"] for rule in found.rights()),
    ),
    "no metrics": (
        {"metrics": {"bindAddress": "0"}},
        lambda found: (
            "metrics" not in found.ports
            and [port["name"] for port in found.one("Service")["spec"]["ports"]] == ["webhook-server"]
            and "metrics" not in json.dumps(found.one("NetworkPolicy"))
        ),
    ),
    "access to the metrics": (
        {"metrics": {"auth": {"enabled": True}}},
        lambda found: any("subjectaccessreviews" in rule["resources"] for rule in found.rights()),
    ),
    "no probes": (
        {"health": {"healthProbeBindAddress": "0"}},
        lambda found: "health" not in found.ports and "livenessProbe" not in found.container,
    ),
    "other ports and paths": (
        {
            "webhook": {"port": 10250},
            "metrics": {"bindAddress": "127.0.0.1:7000"},
            "health": {"healthProbeBindAddress": ":7001", "readinessEndpointName": "ready"},
        },
        lambda found: (
            found.ports == {"webhook": 10250, "metrics": 7000, "health": 7001}
            and found.container["readinessProbe"]["httpGet"]["path"] == "/ready"
        ),
    ),
    "other names": (
        {"certManagement": {"webhookServiceName": "front", "webhookSecretName": "papers"}},
        lambda found: (
            found.one("Service", "front")
            and {
                webhook["clientConfig"]["service"]["name"]
                for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
                for configuration in found.all(kind)
                for webhook in configuration["webhooks"]
            }
            == {"front"}
            and ["papers"] in [rule.get("resourceNames") for rule in found.rights("Role")]
        ),
    ),
    "certificates of another program": (
        {"certManagement": {"enable": False}},
        lambda found: (
            "webhook-cert" in {volume["name"] for volume in found.pod["spec"]["volumes"]}
            and not found.all("Certificate")
        ),
    ),
}
POLICY = "kubeflow-trainer-progress-exec"
RUNTIME_VALUES: Mapping[str, tuple[Mapping[str, Any], Check]] = {
    "images": (
        {"images": {"pytorch/pytorch": "mirror/pytorch:1"}},
        lambda found: (
            '"mirror/pytorch:1"' in json.dumps(found.one("ClusterTrainingRuntime", "torch-distributed"))
            and '"pytorch/pytorch:' not in json.dumps(found.documents)
        ),
    ),
    "exemptFromWebhooks": (
        {"exemptFromWebhooks": True},
        lambda found: all(
            one["metadata"]["labels"]["trainer.kubeflow.org/webhook-validation"] == "disabled"
            for one in found.all("ClusterTrainingRuntime")
        ),
    ),
}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def has_effect(check: Check, found: Rendered) -> bool:
    """Whether a check holds; what it looks for may not be there at all."""
    try:
        return bool(check(found))
    except (AttributeError, KeyError, ValueError):
        return False


def test_lint_finds_nothing(helm: Helm) -> None:
    assert "2 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", MANAGER, RUNTIMES)


def test_without_the_value_there_is_no_effect(helm: Helm) -> None:
    shipped, runtimes = Rendered(helm.template(MANAGER)), Rendered(helm.template(RUNTIMES))
    checks = {**VALUES, **CONFIGURATIONS}
    assert [name for name, (_, check) in checks.items() if has_effect(check, shipped)] == []
    assert [name for name, (_, check) in RUNTIME_VALUES.items() if has_effect(check, runtimes)] == []


@pytest.mark.parametrize("path", VALUES)
def test_a_value_has_its_effect(helm: Helm, path: str) -> None:
    values, check = VALUES[path]
    assert check(Rendered(helm.template(MANAGER, nested(values))))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_installation_follows_the_configuration(helm: Helm, name: str) -> None:
    config, check = CONFIGURATIONS[name]
    assert check(Rendered(helm.template(MANAGER, {"config": config})))


@pytest.mark.parametrize("path", RUNTIME_VALUES)
def test_a_value_of_the_runtimes_has_its_effect(helm: Helm, path: str) -> None:
    values, check = RUNTIME_VALUES[path]
    assert check(Rendered(helm.template(RUNTIMES, values)))


def test_one_replica_needs_no_election(helm: Helm) -> None:
    found = Rendered(helm.template(MANAGER, ALONE))
    assert all("leases" not in rule["resources"] for rule in found.rights("Role"))
    assert found.one("Deployment")["spec"]["replicas"] == 1


@pytest.mark.parametrize(("metrics", "scheme"), [({"secureServing": False}, "http"), ({}, "https")])
def test_prometheus_asks_as_the_manager_answers(helm: Helm, metrics: Document, scheme: str) -> None:
    values = {"prometheus": {"serviceMonitor": True}, "config": {"metrics": metrics}}
    (endpoint,) = Rendered(helm.template(MANAGER, values)).one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == scheme
    assert ("tlsConfig" in endpoint) == (scheme == "https")
    assert "bearerTokenFile" not in endpoint


def test_prometheus_shows_a_token_where_one_is_needed(helm: Helm) -> None:
    values = {"prometheus": {"serviceMonitor": True}, "config": {"metrics": {"auth": {"enabled": True}}}}
    (endpoint,) = Rendered(helm.template(MANAGER, values)).one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["bearerTokenFile"].startswith("/var/run/secrets/")


@pytest.mark.parametrize("version", ["1.31.0", "1.33.1-gke.1", "1.34.4", "1.36.3"])
def test_versions_of_kubernetes_render_alike(helm: Helm, version: str) -> None:
    assert helm.template(MANAGER, None, f"--kube-version={version}") == helm.template(MANAGER)
    assert helm.template(RUNTIMES, None, f"--kube-version={version}")


def test_each_runtime_can_be_chosen_by_its_name(helm: Helm) -> None:
    names = [path.partition(".")[2] for path in paths_of(RUNTIMES) if path.startswith("runtimes.")]
    for name in names:
        values = {"runtimes": dict.fromkeys(names, False) | {name: True}}
        found = Rendered(helm.template(RUNTIMES, values))
        assert [one["metadata"]["name"] for one in found.all("ClusterTrainingRuntime")] == [name]


def test_another_namespace_is_everywhere(helm: Helm) -> None:
    values = {
        "certManager": {"enabled": True},
        "prometheus": {"serviceMonitor": True, "rules": True},
        "config": {"featureGates": {"AllAlpha": True}},
    }
    documents = helm.template(MANAGER, values, namespace="elsewhere")
    definitions = [one for one in documents if one["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == 4
    assert all(one["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for one in definitions)
    rest = json.dumps([one for one in documents if one not in definitions])
    assert NAMESPACE not in rest
    assert "elsewhere" in rest


def test_names_of_digits_stay_names(helm: Helm) -> None:
    values = {
        "certManager": {"enabled": True},
        "prometheus": {"serviceMonitor": True, "rules": True},
        "onlyNamespace": "123",
        "priorityClassName": "456",
        "config": {"featureGates": {"AllAlpha": True}, "certManagement": {"webhookSecretName": "789"}},
    }
    documents = helm.template(MANAGER, values, namespace="2026")
    numbers = [one for document in documents for one in names(document) if not isinstance(one, str)]
    assert numbers == []
    assert {"123", "456", "789", "2026"} <= {one for document in documents for one in names(document)}


def names(value: Any) -> Iterator[Any]:
    """The values of all fields that hold the name of an object."""
    fields = {"name", "namespace", "secretName", "priorityClassName", "kubernetes.io/metadata.name"}
    if isinstance(value, list):
        for one in value:
            yield from names(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in fields and not isinstance(one, dict):
                yield one
            else:
                yield from names(one)


def test_annotations_of_the_values_come_first(helm: Helm) -> None:
    ports = "traffic.sidecar.istio.io/excludeInboundPorts"
    text = helm("template", "release", MANAGER, *helm.given({"podAnnotations": {ports: "1"}}))
    assert text.count(ports) == 1
    assert f'{ports}: "1"' in text


def test_the_values_on_the_page_are_right(helm: Helm) -> None:
    page = (ROOT / "docs" / "admins" / "install.md").read_text()
    _, _, rest = page.partition('```yaml title="values.yaml"\n')
    found = Rendered(helm.template(MANAGER, yaml.safe_load(rest.partition("```")[0])))
    assert found.container["image"] == "registry.example.com/trainwright:1"
    assert found.one("ServiceMonitor")
