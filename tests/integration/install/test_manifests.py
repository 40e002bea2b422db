# SPDX-License-Identifier: Apache-2.0
"""The manifests of config/: what Kubernetes makes of them, and whether they agree with the manager and each other."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

import trainwright
from tests.assertions import does_not_raise
from tests.installation import CONFIG, CONFIGURATION, NAME, NAMESPACE, Document, kustomized
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.cli.configuration import load_settings
from trainwright.controller.cli.main import build_parser
from trainwright.controller.runtime.certificates.configurations import paths_of
from trainwright.controller.runtime.servers.addresses import parse_address
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.webhook.webhooks import DEFAULT_FOLDER
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.assembly.manager import METRICS_ADDRESS
from trainwright.controller.trainer.assembly.serving import PORT
from trainwright.controller.trainer.assembly.settings import LEASE, ManagerSettings, shipped_installation

pytestmark = pytest.mark.real_control_plane("kubectl")

KUBERNETES = "1.36"
FOLDERS = (
    "default",
    "overlays/cert-manager",
    "overlays/one-namespace",
    "overlays/progress",
    "overlays/progress-pull",
    "overlays/runtimes",
    "runtimes",
)
PROGRESS_RIGHTS = {
    ("", "pods", "get"),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("trainer.kubeflow.org", "trainjobs", "get"),
}
"""What the manager may do only because of progress reports: group, resource, verb."""
FOREIGN = ("cert-manager.io/", "trainer.kubeflow.org/")
"""API groups that are not in Kubernetes' schemas."""


def one(documents: list[Document], kind: str, name: str = NAME, namespace: str | None = None) -> Document:
    found = [
        document
        for document in documents
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
        and namespace in {None, document["metadata"].get("namespace")}
    ]
    assert len(found) == 1, f"{kind} {name}: {len(found)}"
    return found[0]


@pytest.fixture
def default(control_plane: ControlPlane) -> list[Document]:
    return kustomized(control_plane, "default")


@pytest.fixture
def manager(default: list[Document]) -> dict[str, Any]:
    """The manager's container."""
    containers = one(default, "Deployment")["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = next(container for container in containers if container["name"] == "manager")
    return found


@pytest.fixture
def settings() -> ManagerSettings:
    """What the manager makes of the Configuration that is mounted."""
    return load_settings(CONFIG / "manager" / CONFIGURATION, {})


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_document_fits_kubernetes_schemas(control_plane: ControlPlane, folder: str) -> None:
    documents = kustomized(control_plane, folder)
    assert documents
    for document in documents:
        if not document["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_misspelt_field_does_not_fit(default: list[Document]) -> None:
    deployment = copy.deepcopy(one(default, "Deployment"))
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePullPolicies"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


@pytest.mark.real_control_plane("Deployments")
@pytest.mark.parametrize(
    ("folder", "side"),
    [
        ("default", "--server-side"),
        # The whole definition goes into an annotation then, of which 256 KiB fit into an object.
        ("default", "--server-side=false"),
        ("overlays/one-namespace", "--server-side"),
    ],
)
def test_the_api_server_takes_every_document(control_plane: ControlPlane, folder: str, side: str) -> None:
    # In a namespace of its own: this control plane is everybody's, and a dry run needs one that is there.
    namespace = control_plane.create_namespace()
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": kustomized(control_plane, folder)})
    text = text.replace(f'"namespace": "{NAMESPACE}"', f'"namespace": "{namespace}"')
    with does_not_raise():
        control_plane.kubectl("apply", side, "--dry-run=server", "--validate=strict", "--filename=-", stdin=text)


def test_names_are_those_of_kubeflow_trainer(default: list[Document]) -> None:
    found = {(document["kind"], document["metadata"]["name"]) for document in default}
    assert found >= {
        ("Namespace", "kubeflow-system"),
        *((kind, NAME) for kind in ("Deployment", "Service", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")),
        ("ConfigMap", "kubeflow-trainer-config"),
        *((kind, "kubeflow-trainer-public") for kind in ("ConfigMap", "Role", "RoleBinding")),
        *(("ClusterRole", f"kubeflow-trainer-{role}") for role in ("admin", "edit", "view", "view-cluster-runtimes")),
        ("MutatingWebhookConfiguration", "defaulter.trainer.kubeflow.org"),
        ("ValidatingWebhookConfiguration", "validator.trainer.kubeflow.org"),
        ("CustomResourceDefinition", "trainjobs.trainer.kubeflow.org"),
    }
    # It cannot be changed: with another one an upgrade would be refused.
    assert one(default, "Deployment")["spec"]["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/component": "manager",
        "app.kubernetes.io/part-of": "kubeflow",
    }
    assert not {"ClusterTrainingRuntime", "TrainingRuntime", "TrainJob"} & {kind for kind, _ in found}


def test_versions_are_public(default: list[Document]) -> None:
    data = one(default, "ConfigMap", "kubeflow-trainer-public")["data"]
    assert data["trainwright_version"] == trainwright.__version__
    assert data["kubeflow_trainer_version"].startswith("v2.")


def test_ports_are_those_that_the_manager_listens_on(manager: dict[str, Any], settings: ManagerSettings) -> None:
    assert settings.probe_address is not None
    assert settings.metrics_address is not None
    listens = {
        "health": parse_address(settings.probe_address)[1],
        "metrics": parse_address(settings.metrics_address or METRICS_ADDRESS)[1],
        "webhook": settings.webhook_port or PORT,
    }
    assert {port["name"]: port["containerPort"] for port in manager["ports"]} == listens


def test_probes_ask_what_the_manager_serves(manager: dict[str, Any], settings: ManagerSettings) -> None:
    assert manager["livenessProbe"]["httpGet"] == {"path": settings.liveness_path, "port": "health"}
    assert manager["readinessProbe"]["httpGet"] == {"path": settings.readiness_path, "port": "health"}


def test_the_webhooks_lead_through_the_service_to_the_manager(
    default: list[Document], manager: dict[str, Any], settings: ManagerSettings
) -> None:
    registered = [document for document in default if "webhooks" in document]
    assert registered == [*webhook_configurations()]
    # Only those who may write ClusterTrainingRuntimes, cluster admins, can leave the checks out by a label.
    spared = [one["name"] for document in registered for one in document["webhooks"] if "objectSelector" in one]
    assert spared == ["validator.clustertrainingruntime.trainer.kubeflow.org"]
    assert len(paths_of(registered)) == 5
    service = one(default, "Service")
    for configuration in registered:
        for webhook in configuration["webhooks"]:
            asked = webhook["clientConfig"]["service"]
            assert (asked["name"], asked["namespace"]) == (settings.service, service["metadata"]["namespace"])
            ports = {port["port"]: port["targetPort"] for port in service["spec"]["ports"]}
            assert ports[asked.get("port", 443)] == "webhook"
    names = {port["name"] for port in manager["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
    ports = {port["port"]: rule for rule in one(default, "NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    # The node of a pod always gets through, which asks for the health.
    assert ports.keys() == names - {"health"}
    assert {name for name, rule in ports.items() if "from" not in rule} == {"webhook"}


def test_everything_selects_the_managers_pods(default: list[Document]) -> None:
    labels = one(default, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one(default, "Service")["spec"]["selector"] == labels
    assert one(default, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    assert one(default, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert one(default, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == NAME


def test_two_replicas_of_which_one_works(default: list[Document], settings: ManagerSettings) -> None:
    assert one(default, "Deployment")["spec"]["replicas"] == 2
    assert settings.election is not None
    assert (settings.election.name, settings.election.namespace) == (LEASE, "")


@pytest.mark.parametrize("folder", ["default", "overlays/cert-manager", "overlays/one-namespace"])
def test_the_command_line_is_one_that_the_manager_takes(control_plane: ControlPlane, folder: str) -> None:
    pod = one(kustomized(control_plane, folder), "Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    arguments = build_parser().parse_args(container["args"])
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    volume = volumes[mounted[str(arguments.config.parent)]]
    assert volume["configMap"]["name"] == "kubeflow-trainer-config"


@pytest.mark.real_control_plane("Pod Security")
def test_restricted_pod_security_admits_the_manager(control_plane: ControlPlane, default: list[Document]) -> None:
    namespace = control_plane.create_namespace(labels=one(default, "Namespace", NAMESPACE)["metadata"]["labels"])
    for folder in ("default", "overlays/cert-manager"):
        template = one(kustomized(control_plane, folder), "Deployment")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "manager", "namespace": namespace}, **template}
        pod["metadata"] = {"name": "manager", "namespace": namespace, **template["metadata"]}
        control_plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))
        del pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"]
        with pytest.raises(ControlPlaneError, match='violates PodSecurity "restricted'):
            control_plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))


def test_with_cert_manager_the_manager_reads_the_files_that_it_keeps(control_plane: ControlPlane) -> None:
    documents = kustomized(control_plane, "overlays/cert-manager")
    certificate = one(documents, "Certificate", "kubeflow-trainer-webhook-cert")
    assert f"{NAME}.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    # The CA is another certificate, and keeps its key: renewing either leaves the other one valid.
    issuer = one(documents, "Issuer", certificate["spec"]["issuerRef"]["name"])
    authority = one(documents, "Certificate", issuer["spec"]["ca"]["secretName"])
    assert authority["spec"]["secretName"] != certificate["spec"]["secretName"]
    assert (authority["spec"]["isCA"], authority["spec"]["privateKey"]["rotationPolicy"]) == (True, "Never")
    pod = one(documents, "Deployment")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volume = next(volume for volume in pod["volumes"] if volume["name"] == mounts[str(DEFAULT_FOLDER)])
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    for configuration in (document for document in documents if "webhooks" in document):
        source = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert source == f"{NAMESPACE}/{authority['metadata']['name']}"
    ours = yaml.safe_load((CONFIG / "manager" / CONFIGURATION).read_text())
    theirs = yaml.safe_load(one(documents, "ConfigMap", "kubeflow-trainer-config")["data"][CONFIGURATION])
    assert theirs == {**ours, "certManagement": {"enable": False}}
    # Rights follow: the certificate is nothing that the manager reads or writes any more.
    resources = [name for rule in one(documents, "Role")["rules"] for name in rule["resources"]]
    assert "secrets" not in resources


def test_the_one_namespace_is_written_in_one_place(control_plane: ControlPlane, tmp_path: Path) -> None:
    shutil.copytree(CONFIG, tmp_path / "config")
    folder = tmp_path / "config" / "overlays" / "one-namespace"
    place = folder / "namespace.yaml"
    place.write_text(place.read_text().replace("namespace: default", "namespace: team"))
    documents = kustomized(control_plane, folder)
    assert one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "--namespace=team"
    for kind in ("Role", "RoleBinding"):
        one(documents, kind, namespace="team")
        one(documents, kind, namespace=NAMESPACE)
    webhooks = [webhook for document in documents for webhook in document.get("webhooks", ())]
    assert len(webhooks) == 7
    for webhook in webhooks:
        assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
    everywhere = one(documents, "ClusterRole")["rules"]
    assert not {"trainjobs", "secrets", "configmaps"} & {name for rule in everywhere for name in rule["resources"]}
    assert all(
        document["kind"] != "ConfigMap" or document["metadata"]["name"] != "one-namespace" for document in documents
    )


def test_with_progress_the_status_server_is_reached_and_nothing_else_changes(
    control_plane: ControlPlane, default: list[Document]
) -> None:
    """Scenario 39 of the page on progress: without the overlay there is no right, port or object more."""
    documents = kustomized(control_plane, "overlays/progress")
    identities = [(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in default]
    assert [(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in documents] == identities
    changed = {d["kind"] for d, ours in zip(documents, default, strict=True) if d != ours}
    assert changed - {"ClusterRole", "Role"} == {"ConfigMap", "Deployment", "NetworkPolicy", "Service"}
    assert "10443" not in json.dumps(default)
    assert "status-server" not in json.dumps(default)

    settings = load_settings(CONFIG / "overlays" / "progress" / CONFIGURATION, {})
    port = settings.status_server.port
    container = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "status-server", "containerPort": port} in container["ports"]
    assert {"name": "status-server", "port": port, "targetPort": "status-server"} in one(documents, "Service")["spec"][
        "ports"
    ]
    assert {"port": "status-server", "protocol": "TCP"} in one(documents, "NetworkPolicy")["spec"]["ingress"][0][
        "ports"
    ]
    # The address that pods get leads to this Service.
    at = shipped_installation(Configuration())
    assert (at.host, at.port) == (f"{NAME}.{NAMESPACE}.svc", port)


def granted(found: list[Document], kind: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of every right in a role."""
    return {
        (group, resource, verb)
        for rule in one(found, kind)["rules"]
        for group in rule.get("apiGroups", ["nonResourceURLs"])
        for resource in rule.get("resources", rule.get("nonResourceURLs"))
        for verb in rule["verbs"]
    }


def test_rights_for_progress_come_with_the_gate(control_plane: ControlPlane, default: list[Document]) -> None:
    documents = kustomized(control_plane, "overlays/progress")
    for kind in ("ClusterRole", "Role"):
        assert granted(documents, kind) >= granted(default, kind)
    more = granted(documents, "ClusterRole") - granted(default, "ClusterRole")
    assert more == PROGRESS_RIGHTS


def test_the_right_to_run_commands_comes_with_its_gate_and_its_fence(
    control_plane: ControlPlane, default: list[Document]
) -> None:
    documents = kustomized(control_plane, "overlays/progress-pull")
    more = granted(documents, "ClusterRole") - granted(default, "ClusterRole")
    assert more == {
        ("", "pods", "list"),
        ("", "pods/exec", "create"),
        ("", "pods/exec", "get"),
        ("trainer.kubeflow.org", "trainjobs", "get"),
    }
    assert granted(documents, "Role") == granted(default, "Role")
    policy = one(documents, "ValidatingAdmissionPolicy", "kubeflow-trainer-progress-exec")
    account = one(documents, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f'request.userInfo.username == "system:serviceaccount:{NAMESPACE}:{account}"'
    binding = one(documents, "ValidatingAdmissionPolicyBinding", "kubeflow-trainer-progress-exec")
    assert binding["spec"] == {"policyName": "kubeflow-trainer-progress-exec", "validationActions": ["Deny"]}
    identities = {(d["kind"], d["metadata"]["name"]) for d in documents} - {
        (d["kind"], d["metadata"]["name"]) for d in default
    }
    assert {kind for kind, _ in identities} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
