# SPDX-License-Identifier: Apache-2.0
"""Updates of objects that are stored: each starts from the same object, and is a dry run."""

import copy
from collections.abc import Callable
from typing import Any

from tests.integration.local import foreign_documents
from tests.integration.local.job_documents import spec as job_spec
from tests.integration.local.kinds import Sides
from tests.integration.local.pod_documents import spec as pod_spec

Document = dict[str, Any]

_NODE_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    }
}


def _changed(path: str, value: Any) -> Callable[[Document], None]:
    """Set a field, whose path has dots, or take it out with None."""

    def change(document: Document) -> None:
        *steps, last = path.split(".")
        here: Any = document
        for step in steps:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        if value is None:
            here.pop(last, None)
        elif isinstance(here, list):
            here[int(last)] = value
        else:
            here[last] = value

    return change


def _pod(**fields: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod_spec(**fields)}


def _job(**fields: Any) -> Document:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job_spec(**fields)}


def _kept(version: str, kind: str, **fields: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}


def _condition(*kinds: str) -> list[Document]:
    return [{"type": kind, "status": "True"} for kind in kinds]


def _status(**status: Any) -> Callable[[Document], None]:
    return _changed("status", status)


_START = "2026-01-01T00:00:00Z"
_END = "2026-01-01T00:01:00Z"
_INDEXED = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
_CONTAINER = {"name": "d", "image": "i"}
_TOLERATION = {"key": "a", "operator": "Exists"}

CHANGES: dict[str, tuple[Document, str, dict[str, Callable[[Document], None]]]] = {
    "pod": (
        _pod(),
        "",
        {
            "nothing": _changed("metadata.labels", None),
            "label": _changed("metadata.labels", {"a": "b"}),
            "image": _changed("spec.containers.0.image", "j:2"),
            "no image": _changed("spec.containers.0.image", ""),
            "deadline": _changed("spec.activeDeadlineSeconds", 5),
            "no deadline": _changed("spec.activeDeadlineSeconds", -1),
            "container": _changed("spec.containers", [_CONTAINER]),
            "containers": _changed("spec.containers", [_CONTAINER, {**_CONTAINER, "name": "e"}]),
            "init container": _changed("spec.initContainers", [_CONTAINER]),
            "no tolerations": _changed("spec.tolerations", None),
            "node": _changed("spec.nodeName", "n"),
            "restart": _changed("spec.restartPolicy", "Never"),
            "gate": _changed("spec.schedulingGates", [{"name": "a"}]),
            "status": _changed("status", {"phase": "Running"}),
        },
    ),
    "pod with everything": (
        _pod(activeDeadlineSeconds=10, tolerations=[_TOLERATION], terminationGracePeriodSeconds=5),
        "",
        {
            "more time": _changed("spec.activeDeadlineSeconds", 11),
            "less time": _changed("spec.activeDeadlineSeconds", 9),
            "no time": _changed("spec.activeDeadlineSeconds", None),
            "other toleration": _changed("spec.tolerations.0.key", "b"),
            "grace": _changed("spec.terminationGracePeriodSeconds", 1),
        },
    ),
    "gated pod": (
        _pod(
            schedulingGates=[{"name": "example.com/a"}], nodeSelector={"a": "b"}, affinity={"nodeAffinity": _NODE_TERMS}
        ),
        "",
        {
            "open": _changed("spec.schedulingGates", None),
            "another": _changed("spec.schedulingGates", [{"name": "example.com/b"}]),
            "selector": _changed("spec.nodeSelector", {"a": "b", "c": "d"}),
        },
    ),
    "pod status": (
        _pod(),
        "status",
        {
            "running": _status(phase="Running", podIP="10.0.0.1", qosClass="BestEffort"),
            "quality": _status(qosClass="Guaranteed"),
            "labels": _changed("metadata.labels", {"a": "b"}),
        },
    ),
    "job": (
        _job(),
        "",
        {
            "label": _changed("metadata.labels", {"a": "b"}),
            "parallelism": _changed("spec.parallelism", 5),
            "completions": _changed("spec.completions", 5),
            "image": _changed("spec.template.spec.containers.0.image", "j:2"),
            "template label": _changed("spec.template.metadata.labels.a", "b"),
            "suspend": _changed("spec.suspend", True),
            "mode": _changed("spec.completionMode", "Indexed"),
            "selector": _changed("spec.selector.matchLabels.a", "b"),
            "manager": _changed("spec.managedBy", "example.com/a"),
            "backoff": _changed("spec.backoffLimit", 0),
            "no labels": _changed("metadata.labels", None),
            "status": _changed("status", {"active": 1}),
        },
    ),
    "suspended job": (
        _job(suspend=True),
        "",
        {
            "image": _changed("spec.template.spec.containers.0.image", "j:2"),
            "node selector": _changed("spec.template.spec.nodeSelector", {"a": "b"}),
            "tolerations": _changed("spec.template.spec.tolerations", [_TOLERATION]),
            "affinity": _changed("spec.template.spec.affinity", {"nodeAffinity": _NODE_TERMS}),
            "pod affinity": _changed(
                "spec.template.spec.affinity",
                {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}},
            ),
            "gates": _changed("spec.template.spec.schedulingGates", [{"name": "a"}]),
            "resources": _changed("spec.template.spec.containers.0.resources", {"limits": {"cpu": 1}}),
            "annotations": _changed("spec.template.metadata.annotations", {"a": "b"}),
            "resume": _changed("spec.suspend", False),
        },
    ),
    "indexed job": (
        _job(**_INDEXED, backoffLimitPerIndex=1),
        "",
        {
            "both": lambda job: job["spec"].update(completions=5, parallelism=5),
            "completions": _changed("spec.completions", 5),
            "parallelism": _changed("spec.parallelism", 2),
            "per index": _changed("spec.backoffLimitPerIndex", 2),
        },
    ),
    "job status": (
        _job(**_INDEXED),
        "status",
        {
            "active": _status(active=2, ready=1, startTime=_START),
            "negative": _status(active=-1, failed=-2),
            "complete": _status(
                startTime=_START,
                completionTime=_END,
                succeeded=3,
                completedIndexes="0-2",
                conditions=_condition("SuccessCriteriaMet", "Complete"),
            ),
            "complete at once": _status(conditions=_condition("Complete"), active=1, terminating=1),
            "complete and failed": _status(
                startTime=_START,
                completionTime=_END,
                conditions=_condition("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
            ),
            "failed": _status(startTime=_START, conditions=_condition("FailureTarget", "Failed")),
            "failed at once": _status(startTime=_START, conditions=_condition("Failed")),
        },
    ),
    "config map": (
        _kept("v1", "ConfigMap", data={"a": "b"}, immutable=True),
        "",
        {
            "data": _changed("data", {"a": "c"}),
            "mutable": _changed("immutable", None),
            "binary": _changed("binaryData", {"c": "AA=="}),
            "label": _changed("metadata.labels", {"a": "b"}),
        },
    ),
    "secret": (
        _kept("v1", "Secret", stringData={"a": "b"}, type="example.com/a"),
        "",
        {"type": _changed("type", "example.com/b"), "texts": _changed("stringData", {"a": "c"})},
    ),
    "sealed secret": (
        _kept("v1", "Secret", stringData={"a": "b"}, immutable=True),
        "",
        {"texts": _changed("stringData", {"a": "c"}), "same": _changed("stringData", {"a": "b"})},
    ),
    "service": (
        _kept("v1", "Service", spec={"clusterIP": "None", "selector": {"a": "b"}}),
        "",
        {
            "selector": _changed("spec.selector", {"c": "d"}),
            "ports": _changed("spec.ports", [{"port": 80}]),
            "address": _changed("spec.clusterIP", "10.0.0.99"),
            "type": _changed("spec.type", "X"),
        },
    ),
    "claim": (
        _kept(
            "v1",
            "PersistentVolumeClaim",
            spec={
                "storageClassName": "b",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        ),
        "",
        {
            "size": _changed("spec.resources.requests.storage", "2Gi"),
            "less": _changed("spec.resources.requests.storage", "1Mi"),
            "volume": _changed("spec.volumeName", "v"),
            "modes": _changed("spec.accessModes", ["ReadWriteMany"]),
            "class": _changed("spec.storageClassName", "c"),
            "mode": _changed("spec.volumeMode", "Block"),
        },
    ),
    "lease": (
        _kept("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "a"}),
        "",
        {"holder": _changed("spec.holderIdentity", "b"), "duration": _changed("spec.leaseDurationSeconds", 0)},
    ),
    "limits": (
        _kept("v1", "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": 1}}]}),
        "",
        {"more": _changed("spec.limits.0.max.cpu", "2"), "order": _changed("spec.limits.0.min", {"cpu": "3"})},
    ),
    "namespace": (
        _kept("v1", "Namespace"),
        "",
        {
            "label": _changed("metadata.labels", {"a": "b"}),
            "finalizers": _changed("spec.finalizers", ["example.com/a"]),
            "phase": _changed("status.phase", "Terminating"),
        },
    ),
    "namespace status": (
        _kept("v1", "Namespace"),
        "status",
        {"phase": _changed("status.phase", "Terminating"), "condition": _changed("status.conditions", _condition("A"))},
    ),
    "namespace finalize": (
        _kept("v1", "Namespace"),
        "finalize",
        {"another": _changed("spec.finalizers", ["example.com/a"]), "wrong": _changed("spec.finalizers", ["nothing"])},
    ),
    "node": (
        _kept("v1", "Node", spec={"podCIDR": "10.0.0.0/24", "providerID": "a"}),
        "",
        {
            "range": _changed("spec.podCIDRs", ["10.1.0.0/24"]),
            "provider": _changed("spec.providerID", "b"),
            "unschedulable": _changed("spec.unschedulable", True),
            "taints": _changed("spec.taints", [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "X"}]),
            "same taints": _changed("spec.taints", [{"key": "a", "effect": "NoSchedule"}] * 2),
            "status": _changed("status.capacity", {"cpu": 1}),
        },
    ),
    "node status": (
        _kept("v1", "Node"),
        "status",
        {
            "capacity": _changed("status.capacity", {"cpu": "1000m"}),
            "conditions": _changed("status.conditions", _condition("Ready")),
        },
    ),
    "priority": (
        _kept("scheduling.k8s.io/v1", "PriorityClass", value=5),
        "",
        {
            "value": _changed("value", 6),
            "policy": _changed("preemptionPolicy", "Never"),
            "description": _changed("description", "d"),
        },
    ),
    "runtime": (
        _kept("node.k8s.io/v1", "RuntimeClass", handler="h"),
        "",
        {"handler": _changed("handler", "i"), "overhead": _changed("overhead", {"podFixed": {"cpu": 1}})},
    ),
    "storage class": (
        _kept("storage.k8s.io/v1", "StorageClass", provisioner="example.com/p"),
        "",
        {
            "provisioner": _changed("provisioner", "example.com/q"),
            "policy": _changed("reclaimPolicy", "Retain"),
            "parameters": _changed("parameters", {"a": "b"}),
            "expansion": _changed("allowVolumeExpansion", True),
        },
    ),
    "volume": (
        _kept(
            "v1",
            "PersistentVolume",
            spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}},
        ),
        "",
        {
            "path": _changed("spec.hostPath.path", "/b"),
            "mode": _changed("spec.volumeMode", "Block"),
            "size": _changed("spec.capacity.storage", "2Gi"),
            "claim": _changed("spec.claimRef", {"name": "c", "namespace": "n"}),
        },
    ),
    "webhooks": (
        _kept("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        "",
        {
            "label": _changed("metadata.labels", {"a": "b"}),
            "another": _changed(
                "webhooks",
                [
                    {
                        "name": "a.b.c",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "clientConfig": {"url": "https://a"},
                    }
                ],
            ),
            "wrong": _changed("webhooks", [{"name": "a"}]),
        },
    ),
    "role": (
        _kept("rbac.authorization.k8s.io/v1", "Role"),
        "",
        {
            "rule": _changed("rules", [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
            "wrong": _changed("rules", [{}]),
        },
    ),
    "role binding": (
        _kept("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef={"kind": "ClusterRole", "name": "view"}),
        "",
        {"role": _changed("roleRef.name", "edit"), "subject": _changed("subjects", [{"kind": "User", "name": "u"}])},
    ),
    "new event": (
        _kept(
            "events.k8s.io/v1",
            "Event",
            eventTime="2026-01-01T00:00:00.000000Z",
            reportingController="a.b/c",
            reportingInstance="i",
            action="Do",
            reason="Done",
            type="Normal",
            regarding={"kind": "Pod", "name": "p", "namespace": "default"},
        ),
        "",
        {
            "label": _changed("metadata.labels", {"a": "b"}),
            "instance": _changed("reportingInstance", "j"),
            "action": _changed("action", "Undo"),
            "type": _changed("type", "Warning"),
            "no type": _changed("type", None),
            "controller": _changed("reportingController", "a.b/d"),
            "related": _changed("related", {"kind": "Job", "name": "j"}),
            "about": _changed("regarding.name", "q"),
            "series": _changed("series", {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
            "short series": _changed("series", {"count": 1}),
        },
    ),
    **foreign_documents.changes(_changed),
}


async def run(sides: Sides, name: str) -> dict[str, str]:
    """Store an object and try the changes of it. Returns the differences by the names of the changes."""
    document, subresource, changes = CHANGES[name]
    document = copy.deepcopy(document)
    # Kinds without namespace share the server with other tests.
    document["metadata"]["name"] = f"x-{name.replace(' ', '-')}-{sides.namespace[-6:]}"
    return await sides.changed(document, subresource, changes)
