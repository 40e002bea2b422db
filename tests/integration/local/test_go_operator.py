# SPDX-License-Identifier: Apache-2.0
"""An operator of controller-runtime, unchanged on the local cluster, with no more rights than it needs (hack/operator).

Its webhooks convert between two versions of its kind, set defaults and validate, and are reached through a Service, as
kubebuilder's manifests have it.
"""

import base64
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.go_programs import program
from tests.repository import ROOT
from trainwright.api.objects import Document, dig
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

SECONDS = 60.0
GROUP = "example.test"
RULES: list[dict[str, list[str]]] = [
    {"apiGroups": [GROUP], "resources": ["widgets"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [GROUP], "resources": ["widgets/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "patch", "create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900), pytest.mark.local_cluster(rbac=True, controllers=True)]


def definition(client: Document) -> Document:
    condition = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string"}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    conditions = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    status = {"type": "object", "properties": {"ready": {"type": "integer"}, "conditions": conditions}}

    def version(name: str, field: str) -> Document:
        spec = {"type": "object", "properties": {field: {"type": "integer"}, "color": {"type": "string"}}}
        schema = {"type": "object", "properties": {"spec": spec, "status": status}}
        return {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [version("v1", "replicas"), version("v1beta1", "count")],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
            },
        },
    }


def webhooks(kind: str, client: Document) -> Document:
    verb = kind.removesuffix("ingWebhookConfiguration").lower()  # "mutat" or "validat"
    service = {**client["service"], "path": f"/{verb}e-example-test-v1-widget"}
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE", "UPDATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{verb}ing-widgets"},
        "webhooks": [
            {
                "name": f"{verb}e.{GROUP}",
                "clientConfig": {**client, "service": service},
                "rules": [rule],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }
        ],
    }


@pytest.fixture
def log(local_cluster: LocalCluster, tmp_path: Path) -> Iterator[Path]:
    """The log of the operator, which runs as long as the test."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.server("webhook", hosts=("widgets.system.svc",))
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    (certificates / "tls.crt").write_bytes(Path(certificate).read_bytes())
    (certificates / "tls.key").write_bytes(Path(key).read_bytes())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    local_cluster.route_service("system/widgets", f"127.0.0.1:{port}")
    service = {"name": "widgets", "namespace": "system"}
    client: Document = {"service": service, "caBundle": base64.b64encode(authority.pem).decode()}
    local_cluster.apply(definition({**client, "service": {**service, "path": "/convert"}}))
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        local_cluster.apply(webhooks(kind, client))
    kubeconfig = local_cluster.add_user("operator", rules=RULES)
    command = [str(program(ROOT / "hack" / "operator")), f"-port={port}", f"-certificates={certificates}"]
    path = tmp_path / "operator.log"
    with (
        path.open("w") as file,
        subprocess.Popen(
            command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            eventually_sync(lambda: "Serving webhook server" in path.read_text(), seconds=SECONDS)
            yield path
            process.terminate()
            assert process.wait(SECONDS) == 0, path.read_text()
        finally:
            process.kill()


def widget(version: str, name: str, **spec: Any) -> Document:
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": about, "spec": spec}


def test_an_operator_of_controller_runtime_does_its_work(local_cluster: LocalCluster, log: Path) -> None:
    stored = local_cluster.stored
    stored.create(widget("v1beta1", "old", count=3))
    stored.create(widget("v1", "new", replicas=1, color="green"))

    def made(name: str) -> Document:
        return dict(dig(stored.get("configmap", name, "default") or {}, "data") or {})

    # It was converted before it was stored; the webhook for v1 saw it, and set the colour.
    eventually_sync(lambda: made("old"), equals({"replicas": "3", "color": "blue"}), seconds=SECONDS)
    eventually_sync(lambda: made("new"), equals({"replicas": "1", "color": "green"}), seconds=SECONDS)

    def ready() -> object:
        return dig(stored.get("widget", "old", "default") or {}, "status.ready")

    eventually_sync(ready, equals(3), seconds=SECONDS)
    with pytest.raises(ControlPlaneError, match="no widget is red"):
        stored.create(widget("v1", "red", color="red"))
    stored.patch("widget", "old", {"spec": {"replicas": 5}}, "default")
    eventually_sync(lambda: made("old")["replicas"], equals("5"), seconds=SECONDS)
    # What somebody else has changed is applied again.
    stored.patch("configmap", "old", {"data": {"replicas": "9", "own": "x"}}, "default")
    eventually_sync(lambda: made("old"), equals({"replicas": "5", "color": "blue", "own": "x"}), seconds=SECONDS)
    stored.delete("widget", "old", "default")
    eventually_sync(lambda: stored.get("configmap", "old", "default"), equals(None), seconds=SECONDS)
    assert "Reconciler error" not in log.read_text()
