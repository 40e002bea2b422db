# SPDX-License-Identifier: Apache-2.0
"""What the real API server encodes in protobuf is decoded to what it encodes in JSON."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.local.test_local_tables import OBJECTS
from trainwright.controller.local.apiserver.request.protobuf import MEDIA_TYPE, decode
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON = {"Content-Type": "application/json"}
HANDLER = {"httpGet": {"path": "/x", "port": "http"}, "periodSeconds": 5}
EVERYTHING: Document = {
    "metadata": {
        "annotations": {"a": ""},
        "finalizers": ["example.com/a"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y", "controller": False}],
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "example/c:1",
                "ports": [{"name": "http", "containerPort": 80}],
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": False}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                ],
                "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}],
                "livenessProbe": HANDLER,
                "readinessProbe": {"exec": {"command": ["a"]}, "initialDelaySeconds": 0},
                "lifecycle": {"preStop": {"sleep": {"seconds": 0}}},
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
                "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 0},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": False}],
            }
        ],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {
                "name": "w",
                "projected": {"sources": [{"secret": {"name": "s", "optional": False}}]},
            },
            {"name": "x", "configMap": {"name": "m", "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "y", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "x", "labelSelector": {"matchLabels": {"a": "b"}}}}
                ]
            },
        },
        "securityContext": {"supplementalGroups": [1, 300], "runAsNonRoot": False},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway"}],
    },
}


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


async def compare(transport: HTTPTransport, path: str) -> int:
    """Every object of a path in both encodings. Returns their number."""
    items = json.loads((await transport.send(Request("GET", path))).body)["items"]
    for item in items:
        namespace = item["metadata"].get("namespace")
        root, _, plural = path.rpartition("/")
        inside = f"/namespaces/{namespace}" if namespace and "/namespaces/" not in path else ""
        place = f"{root}{inside}/{plural}/{item['metadata']['name']}"
        real = json.loads((await transport.send(Request("GET", place))).body)
        encoded = (await transport.send(Request("GET", place, headers={"Accept": MEDIA_TYPE}))).body
        assert without_nulls(decode(encoded)) == without_nulls(real), place
    return len(items)


async def test_objects(transport: HTTPTransport, namespace: str) -> None:
    paths = {}
    for name, documents in (OBJECTS["namespaced"] | OBJECTS["cluster"]).items():
        group, version, _, plural = name.split("/")
        root = "/api/v1" if group == "api" else f"/apis/{group}/{version}"
        path = f"{root}/namespaces/{namespace}/{plural}" if name in OBJECTS["namespaced"] else f"{root}/{plural}"
        paths[path] = (group, [EVERYTHING] if plural == "pods" else documents)
    for path, (group, documents) in paths.items():
        for index, document in enumerate(documents):
            metadata = {**document.get("metadata", {}), "name": f"{namespace}-p{group[:3]}-{index}"}
            for reference in ("involvedObject", "regarding"):
                if reference in document:
                    document[reference]["namespace"] = namespace
            body = json.dumps({**document, "metadata": metadata}).encode()
            made = json.loads((await transport.send(Request("POST", path, {}, JSON, body))).body)
            assert made["kind"] != "Status", made["message"]
        assert await compare(transport, path) >= len(documents)
