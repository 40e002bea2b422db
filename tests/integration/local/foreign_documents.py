# SPDX-License-Identifier: Apache-2.0
"""Objects of the kinds that only controllers from elsewhere act on, and updates of them."""

import json
from collections.abc import Callable
from typing import Any

from tests.integration.local.pod_documents import spec as pod_spec

Document = dict[str, Any]

_STORAGE, _DEVICES = "storage.k8s.io/v1", "resource.k8s.io/v1"
_LABELS = {"matchLabels": {"a": "b"}}
_REQUEST = {"name": "r", "exactly": {"deviceClassName": "c.example.com"}}


def _named(version: str, kind: str, name: str = "a", **fields: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _template(**fields: Any) -> Document:
    return {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(**fields)}


def _replicas(kind: str, **fields: Any) -> Document:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    selector = {} if kind == "ReplicationController" else {"selector": _LABELS}
    return _named(version, kind, spec={"template": _template(), **selector, **fields})


def _stateful(**fields: Any) -> Document:
    return _replicas("StatefulSet", **{"serviceName": "s", **fields})


def _budget(**fields: Any) -> Document:
    return _named("policy/v1", "PodDisruptionBudget", spec={"selector": _LABELS, **fields})


def _claim(*requests: Document) -> Document:
    return _named(_DEVICES, "ResourceClaim", spec={"devices": {"requests": list(requests)}})


def _capacity(**fields: Any) -> Document:
    return _named(_STORAGE, "CSIStorageCapacity", **{"storageClassName": "c", **fields})


def _slice(**fields: Any) -> Document:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return _named(
        *(_DEVICES, "ResourceSlice"), spec={"driver": "d.example.com", "nodeName": "n", "pool": pool, **fields}
    )


_ATTACHMENT = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}

DOCUMENTS: dict[str, Document] = {
    "replication controller": _replicas("ReplicationController"),
    "replication controller counts": _replicas("ReplicationController", replicas=-1, minReadySeconds=-1),
    "replication controller other selector": _replicas("ReplicationController", selector={"a": "c"}),
    "replication controller empty": _named("v1", "ReplicationController", spec={}),
    "replication controller restart": _replicas("ReplicationController", template=_template(restartPolicy="Never")),
    "replica set": _replicas("ReplicaSet", replicas=3),
    "replica set no selector": _replicas("ReplicaSet", selector=None),
    "replica set empty selector": _replicas("ReplicaSet", selector={}),
    "replica set other selector": _replicas("ReplicaSet", selector={"matchLabels": {"a": "c"}}),
    "replica set wrong selector": _replicas("ReplicaSet", selector={"matchExpressions": [{"key": "a b"}]}),
    "replica set counts": _replicas("ReplicaSet", replicas=-1, minReadySeconds=-1),
    "replica set restart": _replicas("ReplicaSet", template=_template(restartPolicy="OnFailure")),
    "stateful set": _stateful(),
    "stateful set name": {**_stateful(), "metadata": {"name": "a.b"}},
    "stateful set parallel": _stateful(podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"}),
    "stateful set order": _stateful(podManagementPolicy="X"),
    "stateful set strategy": _stateful(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
    "stateful set claims": _stateful(
        volumeClaimTemplates=[
            {
                "metadata": {"name": "v"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
        template={
            "metadata": {"labels": {"a": "b"}},
            "spec": pod_spec({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, hostname="h"),
        },
    ),
    "stateful set retention": _stateful(persistentVolumeClaimRetentionPolicy={"whenDeleted": "X"}),
    "stateful set counts": _stateful(replicas=-1, minReadySeconds=-1, ordinals={"start": -1}),
    "stateful set service": _stateful(serviceName="A b"),
    "stateful set deadline": _stateful(template=_template(activeDeadlineSeconds=1)),
    "stateful set no selector": _stateful(selector=None),
    "stateful set empty selector": _stateful(selector={}),
    "budget": _budget(minAvailable=1),
    "budget none": _budget(),
    "budget share": _budget(maxUnavailable="30%"),
    "budget negative": _budget(maxUnavailable=-1),
    "budget much": _budget(maxUnavailable="130%"),
    "budget text": _budget(minAvailable="x"),
    "budget policy": _budget(minAvailable=1, unhealthyPodEvictionPolicy="X"),
    "budget selector": _budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    "csi driver": _named(_STORAGE, "CSIDriver", "d.example.com", spec={}),
    "csi driver modes": _named(
        *(_STORAGE, "CSIDriver", "d.example.com"), spec={"volumeLifecycleModes": ["Ephemeral"], "attachRequired": False}
    ),
    "csi node": _named(_STORAGE, "CSINode", spec={"drivers": [{"name": "d.example.com", "nodeID": "n"}]}),
    "csi node empty": _named(_STORAGE, "CSINode", spec={"drivers": []}),
    "csi capacity": _capacity(capacity="1Gi", nodeTopology=_LABELS),
    "csi capacity empty": _capacity(),
    "attachment": _named(_STORAGE, "VolumeAttachment", spec=_ATTACHMENT),
    "device class": _named(_DEVICES, "DeviceClass", spec={"selectors": [{"cel": {"expression": "true"}}]}),
    "device class empty": _named(_DEVICES, "DeviceClass", spec={}),
    "resource claim": _claim(_REQUEST),
    "resource claim choice": _claim(
        {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c.example.com", "count": 2}]}
    ),
    "resource claim all": _claim(
        {"name": "r", "exactly": {"deviceClassName": "c.example.com", "allocationMode": "All"}}
    ),
    "resource claim template": _named(
        *(_DEVICES, "ResourceClaimTemplate"), spec={"spec": {"devices": {"requests": [_REQUEST]}}}
    ),
    "resource slice": _slice(),
    "resource slice devices": _slice(devices=[{"name": "d", "attributes": {"a": {"int": 1}}}]),
}


def documents(namespace: str) -> list[tuple[str, Document]]:
    """All of them."""
    return list(json.loads(json.dumps(DOCUMENTS)).items())


def changes(
    changed: Callable[[str, Any], Callable[[Document], None]],
) -> dict[str, tuple[Document, str, dict[str, Callable[[Document], None]]]]:
    """Updates, as `changes.CHANGES` has them; `changed` sets a field."""
    return {
        "replication controller": (
            _replicas("ReplicationController"),
            "",
            {"replicas": changed("spec.replicas", 2), "none": changed("spec.replicas", -1)},
        ),
        "replication controller status": (
            _replicas("ReplicationController"),
            "status",
            {"ready": changed("status", {"replicas": 1, "readyReplicas": 2})},
        ),
        "replica set": (
            _replicas("ReplicaSet"),
            "",
            {
                "replicas": changed("spec.replicas", 2),
                "selector": changed("spec.selector", {"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
                "status": changed("status", {"replicas": 1}),
                "image": changed("spec.template.spec.containers.0.image", "j"),
            },
        ),
        "replica set status": (
            _replicas("ReplicaSet"),
            "status",
            {
                "good": changed("status", {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}),
                "available": changed("status", {"replicas": 1, "availableReplicas": 1}),
                "spec": changed("spec.replicas", 7),
            },
        ),
        "stateful set": (
            _stateful(),
            "",
            {
                "replicas": changed("spec.replicas", 2),
                "service": changed("spec.serviceName", "t"),
                "unavailable": changed("spec.updateStrategy.rollingUpdate.maxUnavailable", 2),
                "image": changed("spec.template.spec.containers.0.image", "j"),
            },
        ),
        "stateful set status": (
            _stateful(),
            "status",
            {
                "good": changed("status", {"replicas": 1, "currentReplicas": 1}),
                "many": changed("status", {"replicas": 1, "updatedReplicas": 2}),
            },
        ),
        "budget": (
            _budget(minAvailable=1),
            "",
            {
                "another": changed("spec.minAvailable", 2),
                "selector": changed("spec.selector", {}),
                "without version": changed("metadata.resourceVersion", None),
                "status": changed("status.disruptionsAllowed", 1),
            },
        ),
        "budget status": (
            _budget(minAvailable=1),
            "status",
            {
                "good": changed("status.disruptionsAllowed", 1),
                "negative": changed("status.expectedPods", -1),
            },
        ),
        "csi driver": (
            _named(_STORAGE, "CSIDriver", "d.example.com", spec={}),
            "",
            {"capacity": changed("spec.storageCapacity", True), "label": changed("metadata.labels", {"a": "b"})},
        ),
        "csi capacity": (
            _capacity(),
            "",
            {"capacity": changed("capacity", "2Gi"), "class": changed("storageClassName", "d")},
        ),
        "attachment": (
            _named(_STORAGE, "VolumeAttachment", spec=_ATTACHMENT),
            "",
            {"label": changed("metadata.labels", {"a": "b"}), "status": changed("status.attached", True)},
        ),
        "attachment status": (
            _named(_STORAGE, "VolumeAttachment", spec=_ATTACHMENT),
            "status",
            {"attached": changed("status.attached", True)},
        ),
        "device class": (
            _named(_DEVICES, "DeviceClass", spec={}),
            "",
            {"selector": changed("spec.selectors", [{"cel": {"expression": "true"}}])},
        ),
        "resource claim": (
            _claim(_REQUEST),
            "",
            {"label": changed("metadata.labels", {"a": "b"}), "status": changed("status.reservedFor", [])},
        ),
        "resource slice": (
            _slice(),
            "",
            {"devices": changed("spec.devices", [{"name": "d"}])},
        ),
    }
