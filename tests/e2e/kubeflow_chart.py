# SPDX-License-Identifier: Apache-2.0
"""A Helm chart with the structure of Kubeflow Trainer's, for tests of the way from it and back.

Names, labels, selectors and kinds of its objects are those that the chart of Kubeflow Trainer 2.3 installs: definitions
as ordinary templates, a Secret without data, runtimes that a Job of a hook applies, and JobSet as a subchart. What the
objects hold beside that plays no part here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.installation import CONFIG, NAME

VERSION = "2.3.0"
LABELS = {
    "app.kubernetes.io/name": "kubeflow-trainer",
    "app.kubernetes.io/instance": "{{ .Release.Name }}",
    "app.kubernetes.io/part-of": "kubeflow",
    "app.kubernetes.io/component": "manager",
}
JOBSET = "jobset-controller-manager"
ONLY_THEIRS = "optimizationjobs.trainer.kubeflow.org"
"""A definition that we do not have."""
INSTALLER = "kubeflow-trainer-runtimes-installer"

Document = dict[str, Any]


def write(folder: Path) -> Path:
    """Write the chart into a new folder, and return it."""
    _write(folder / "Chart.yaml", [_chart("kubeflow-trainer", VERSION)])
    _write(folder / "values.yaml", [{"manager": {"replicas": 1}, "jobset": {"install": True}}])
    for document in [*_definitions(), *_objects()]:
        _write(folder / "templates" / f"{document['kind']}-{document['metadata']['name']}.yaml".lower(), [document])
    jobset = folder / "charts" / "jobset"
    _write(jobset / "Chart.yaml", [_chart("jobset", "0.12.0")])
    _write(jobset / "templates" / "deployment.yaml", [_deployment(JOBSET, {"app.kubernetes.io/name": "jobset"})])
    return folder


def _write(path: Path, documents: list[Document]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(map(yaml.safe_dump, documents)))


def _chart(name: str, version: str) -> Document:
    return {"apiVersion": "v2", "name": name, "version": version}


def _definitions() -> Iterator[Document]:
    for path in sorted((CONFIG / "crd").glob("trainer.*.yaml")):
        document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        # Theirs are ours but for the texts and columns.
        document["spec"]["versions"][0].pop("additionalPrinterColumns", None)
        yield document
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "OptimizationJob", "plural": "optimizationjobs", "listKind": "OptimizationJobList"}
    spec = {"group": "trainer.kubeflow.org", "scope": "Namespaced", "versions": [version]}
    yield {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": ONLY_THEIRS},
        "spec": {**spec, "names": {**names, "singular": "optimizationjob"}},
    }


def _objects() -> Iterator[Document]:
    rbac = "rbac.authorization.k8s.io/v1"
    yield _object("v1", "ServiceAccount")
    rule = {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "list", "watch"]}
    yield _object(rbac, "ClusterRole", rules=[rule])
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": "{{ .Release.Namespace }}"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    yield _object(rbac, "ClusterRoleBinding", roleRef=reference, subjects=[account])
    yield _object("v1", "ConfigMap", "kubeflow-trainer-config", data={"controller_manager_config.yaml": "{}"})
    yield _object("v1", "ConfigMap", "kubeflow-trainer-public", data={"kubeflow_trainer_version": f"v{VERSION}"})
    yield _object("v1", "Secret", "kubeflow-trainer-webhook-cert")
    ports = [
        {"name": "monitoring-port", "port": 8443, "targetPort": "metrics"},
        {"name": "webhook-server", "port": 443, "targetPort": "webhook"},
        {"name": "status-server", "port": 10443, "targetPort": "status-server"},
    ]
    yield _object("v1", "Service", spec={"selector": LABELS, "ports": ports})
    yield _deployment(NAME, LABELS)
    # Webhooks that are asked about a namespace that does not exist: their manager does not run in the tests.
    yield from _webhooks()
    hook = {"helm.sh/hook": "post-install,post-upgrade", "helm.sh/hook-delete-policy": "before-hook-creation"}
    job = _object("batch/v1", "Job", INSTALLER, spec={"template": {"spec": {**_POD, "restartPolicy": "Never"}}})
    yield {**job, "metadata": {**job["metadata"], "annotations": hook}}


_POD: Document = {"containers": [{"name": "manager", "image": "example.com/none"}]}


def _deployment(name: str, labels: dict[str, str]) -> Document:
    template = {"metadata": {"labels": labels}, "spec": _POD}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {**_object("apps/v1", "Deployment", name, spec=spec), "metadata": {"name": name, "labels": labels}}


def _webhooks() -> Iterator[Document]:
    for document in yaml.safe_load_all((CONFIG / "webhook" / "manifests.yaml").read_text()):
        for webhook in document["webhooks"]:
            webhook["clientConfig"]["service"]["namespace"] = "{{ .Release.Namespace }}"
            webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
        yield document


def _object(version: str, kind: str, name: str = NAME, **fields: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": LABELS}, **fields}
