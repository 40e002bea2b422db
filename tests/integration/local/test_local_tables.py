# SPDX-License-Identifier: Apache-2.0
"""Our tables beside those of the real API server, for every kind with columns of its own.

Descriptions of columns are left out: ours are empty.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.unit.local.things import resource
from trainwright.api.times import wall_clock
from trainwright.controller.local.apiserver.kinds.definitions import served_versions
from trainwright.controller.local.apiserver.views.tables import (
    table_format,
    table_of,
)
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON = {"Content-Type": "application/json"}

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PAST = "2024-02-03T04:05:06Z"
CONTAINER = {"name": "c", "image": "example/c:1"}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER, CONTAINER | {"name": "d"}]}}


def pod(**status: Any) -> Document:
    init = [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}]
    gates = [{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}]
    spec = {"containers": TEMPLATE["spec"]["containers"], "initContainers": init, "readinessGates": gates}
    return {"spec": spec, "status": status}


def container(name: str, state: Document, **more: Any) -> Document:
    return {"name": name, "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state, **more}


RUNNING: Document = {"running": {"startedAt": PAST}}
DONE: Document = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": PAST}}
FAILED: Document = {"terminated": {"exitCode": 2, "finishedAt": PAST}}
PODS = [
    pod(),
    pod(phase="Running", podIPs=[{"ip": "1.2.3.4"}], containerStatuses=[container("c", RUNNING, ready=True)]),
    pod(phase="Running", containerStatuses=[container("c", DONE), container("d", RUNNING, ready=True)]),
    pod(phase="Failed", reason="Evicted"),
    pod(phase="Succeeded", containerStatuses=[container("c", DONE), container("d", FAILED)]),
    pod(
        phase="Pending",
        containerStatuses=[
            container("c", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=2, lastState=FAILED)
        ],
    ),
    pod(phase="Pending", initContainerStatuses=[container("i", FAILED, restartCount=1, lastState=FAILED)]),
    pod(
        phase="Pending", initContainerStatuses=[container("i", DONE), container("s", RUNNING, started=True, ready=True)]
    ),
    pod(phase="Pending", conditions=[{"type": "example.com/a", "status": "True"}]),
]
FINISHED = {
    "startTime": PAST,
    "completionTime": "2024-02-03T05:06:07Z",
    "succeeded": 2,
    "conditions": [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")],
}
OBJECTS: dict[str, list[Document]] = {
    "api/v1/Pod/pods": PODS,
    "batch/v1/Job/jobs": [
        {"spec": {"suspend": True, "template": TEMPLATE}},
        {"spec": {"suspend": True, "completions": 2, "parallelism": 2, "template": TEMPLATE}, "status": FINISHED},
    ],
    "api/v1/ConfigMap/configmaps": [{"data": {"a": "1"}, "binaryData": {"b": "AA=="}}, {}],
    "api/v1/Secret/secrets": [{"stringData": {"a": "1"}}, {"type": "example.com/x"}],
    "api/v1/ServiceAccount/serviceaccounts": [{}],
    "api/v1/LimitRange/limitranges": [{"spec": {"limits": []}}],
    "api/v1/Service/services": [
        {"spec": {"clusterIP": "None", "selector": {"b": "2", "a": "1"}}},
        {
            "spec": {
                "type": "NodePort",
                "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP"}],
            }
        },
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
        {"spec": {"type": "ExternalName", "externalName": "example.com"}},
        {"spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4", "5.6.7.8"]}},
    ],
    "api/v1/PersistentVolumeClaim/persistentvolumeclaims": [
        {"spec": {"accessModes": ["ReadWriteMany", "ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "v",
                "storageClassName": "s",
            },
            "status": {"phase": "Bound", "capacity": {"storage": "2048Mi"}, "accessModes": ["ReadWriteOnce"]},
        },
    ],
    "coordination.k8s.io/v1/Lease/leases": [{"spec": {"holderIdentity": "x"}}, {}],
    "rbac.authorization.k8s.io/v1/Role/roles": [{}],
    "rbac.authorization.k8s.io/v1/RoleBinding/rolebindings": [
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "ServiceAccount", "name": "t", "namespace": "n"},
            ],
        }
    ],
    "api/v1/Event/events": [
        {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "type": "Normal", "message": " m\n"},
        {
            "involvedObject": {"kind": "Pod", "fieldPath": "spec.x"},
            "firstTimestamp": PAST,
            "lastTimestamp": "2025-01-01T00:00:00Z",
            "count": 4,
            "source": {"component": "c", "host": "h"},
        },
    ],
    "events.k8s.io/v1/Event/events": [
        {
            "regarding": {"kind": "Job", "name": "j"},
            "eventTime": "2024-02-03T04:05:06.000000Z",
            "reportingController": "example.com/c",
            "reportingInstance": "i",
            "action": "Act",
            "reason": "R",
            "type": "Warning",
            "note": "n",
            "series": {"count": 7, "lastObservedTime": "2025-01-01T00:00:00.000000Z"},
        }
    ],
}
CLUSTER_OBJECTS: dict[str, list[Document]] = {
    "api/v1/Namespace/namespaces": [{}],
    "api/v1/Node/nodes": [
        {},
        {
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "a"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "nodeInfo": {
                    "kubeletVersion": "v1",
                    "kernelVersion": "6",
                    "architecture": "amd64",
                    "osImage": "o",
                    "containerRuntimeVersion": "c",
                    **dict.fromkeys(("bootID", "kubeProxyVersion", "machineID", "operatingSystem", "systemUUID"), ""),
                },
            },
        },
    ],
    "api/v1/PersistentVolume/persistentvolumes": [
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOncePod"],
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": "n", "name": "c"},
                "storageClassName": "s",
            }
        }
    ],
    "storage.k8s.io/v1/StorageClass/storageclasses": [
        {"provisioner": "p"},
        {"provisioner": "p", "reclaimPolicy": "Retain", "allowVolumeExpansion": True},
    ],
    "scheduling.k8s.io/v1/PriorityClass/priorityclasses": [{"value": 5}],
    "node.k8s.io/v1/RuntimeClass/runtimeclasses": [{"handler": "h"}],
    "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration/mutatingwebhookconfigurations": [{}],
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration/validatingwebhookconfigurations": [{}],
    "rbac.authorization.k8s.io/v1/ClusterRole/clusterroles": [{}],
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding/clusterrolebindings": [
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}
    ],
    "apiextensions.k8s.io/v1/CustomResourceDefinition/customresourcedefinitions": [],
}


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def send(transport: HTTPTransport, request: Request) -> Document:
    found: Document = json.loads((await transport.send(request)).body)
    return found


async def create(transport: HTTPTransport, path: str, documents: list[Document], prefix: str) -> None:
    for index, document in enumerate(documents):
        metadata = {**document.get("metadata", {}), "name": f"{prefix}{index}"}
        body = json.dumps({**document, "metadata": metadata}).encode()
        made = await send(transport, Request("POST", path, {}, JSON, body))
        assert made["kind"] != "Status", made["message"]
        if "status" in document:
            merge = {"Content-Type": "application/merge-patch+json"}
            status = json.dumps({"status": document["status"]}).encode()
            place = f"{path}/{metadata['name']}/status"
            made = await send(transport, Request("PATCH", place, {}, merge, status))
            assert made["kind"] != "Status", made["message"]


def comparable(table: Document) -> Document:
    columns = [{**column, "description": ""} for column in table["columnDefinitions"]]
    return {**table, "columnDefinitions": columns}


async def assert_alike(both: Callable[[], Awaitable[tuple[Document, Document]]]) -> None:
    """Ages may change between the two, so a difference is looked at again."""
    ours, real = await both()
    for _ in range(20):
        if ours == real:
            return
        ours, real = await both()
    assert ours["rows"] == real["rows"]
    assert ours == real


async def compare(transport: HTTPTransport, path: str, api_version: str, kind: str) -> None:
    how = table_format(resource(api_version, kind))
    listed = await send(transport, Request("GET", path))

    async def both() -> tuple[Document, Document]:
        real = comparable(await send(transport, Request("GET", path, headers=TABLE)))
        ours = comparable(table_of(how, listed["items"], real["metadata"], now=wall_clock()))
        return ours, real

    await assert_alike(both)
    for item in listed["items"][:1]:
        place = f"{path}/{item['metadata']['name']}"
        real = comparable(await send(transport, Request("GET", place, {"includeObject": "None"}, TABLE)))
        ours = comparable(table_of(how, [item], item["metadata"], now=wall_clock(), include="None"))
        assert [row["object"] for row in ours["rows"]] == [row["object"] for row in real["rows"]] == [None]
        assert ours["metadata"] == real["metadata"]


async def test_built_in_kinds(transport: HTTPTransport, namespace: str) -> None:
    for name, documents in (OBJECTS | CLUSTER_OBJECTS).items():
        group, version, kind, plural = name.split("/")
        api_version, root = (
            (version, "/api/v1") if group == "api" else (f"{group}/{version}", f"/apis/{group}/{version}")
        )
        inside = f"/namespaces/{namespace}" if name in OBJECTS else ""
        path = f"{root}{inside}/{plural}"
        for document in documents:
            # Events are in the namespace of what they are about.
            for reference in ("involvedObject", "regarding"):
                if reference in document:
                    document[reference]["namespace"] = namespace
        await create(transport, path, documents, f"{namespace}-{group[:3]}-")
        await compare(transport, path, api_version, kind)


async def test_a_default_storage_class_is_marked(transport: HTTPTransport, namespace: str) -> None:
    """Only tried (`dryRun`): one that is stored would give its name to the claims of all other tests."""
    path, kind = "/apis/storage.k8s.io/v1/storageclasses", "StorageClass"
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = json.dumps({"provisioner": "p", "metadata": {"name": namespace, "annotations": annotations}}).encode()
    query = {"dryRun": "All", "includeObject": "None"}
    made = await send(transport, Request("POST", path, {"dryRun": "All"}, JSON, body))
    real = await send(transport, Request("POST", path, query, JSON | TABLE, body))
    how = table_format(resource("storage.k8s.io/v1", kind))
    ours = table_of(how, [made], {}, now=wall_clock(), include="None")
    # A dry run has no time of creation, so what differs is the age, the last column.
    assert real["rows"][0]["cells"][0] == f"{namespace} (default)"
    assert ours["rows"][0]["cells"][:-1] == real["rows"][0]["cells"][:-1]


async def test_custom_resources(transport: HTTPTransport, namespace: str) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainjobs.trainer.kubeflow.org"
    definition = await send(transport, Request("GET", definitions))
    how = table_format(served_versions(definition["spec"])[0])
    path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    await create(transport, path, [{**kind, "spec": {"runtimeRef": {"name": "x"}}}], "t")
    condition = {"type": "Suspended", "status": "True", "reason": "R", "message": "", "lastTransitionTime": PAST}
    merge = {"Content-Type": "application/merge-patch+json"}
    status = json.dumps({"status": {"conditions": [condition]}}).encode()
    await send(transport, Request("PATCH", f"{path}/t0/status", {}, merge, status))
    listed = await send(transport, Request("GET", path))

    async def both() -> tuple[Document, Document]:
        real = await send(transport, Request("GET", path, {"includeObject": "Object"}, TABLE))
        ours = table_of(how, listed["items"], real["metadata"], now=wall_clock(), include="Object")
        # The name's description is Kubernetes' API documentation.
        real["columnDefinitions"][0]["description"] = ""
        return ours, real

    await assert_alike(both)
