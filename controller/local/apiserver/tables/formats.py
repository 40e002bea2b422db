# SPDX-License-Identifier: Apache-2.0
"""How each kind is shown as a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.controller.local.apiserver.tables import cells, columns, foreign
from trainwright.controller.local.apiserver.tables.columns import Column
from trainwright.controller.local.apiserver.tables.pods import pod_cells, pod_conditions
from trainwright.controller.local.apiserver.tables.reading import Document


def _no_conditions(_: Document) -> list[dict[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How a kind is shown.

    Attributes:
        columns: the column definitions.
        cells: the cells of an object, at a time.
        conditions: the conditions of an object's row.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Document, datetime], list[Any]]
    conditions: Callable[[Document], list[dict[str, str]]] = _no_conditions


_DEFAULT = TableFormat(columns.DEFAULT, cells.default_cells)
_EVENT = TableFormat(columns.EVENT, cells.event_cells)
_WEBHOOKS = TableFormat(columns.WEBHOOKS, cells.webhook_cells)
_BINDING = TableFormat(columns.BINDING, cells.binding_cells)
_REPLICAS = TableFormat(columns.REPLICAS, foreign.replicas_cells)
_NAME_AND_AGE = TableFormat(columns.NAME_AND_AGE, cells.age_cells)
_STORAGE, _DEVICES = "storage.k8s.io/v1", "resource.k8s.io/v1"
_ADMISSION, _RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"
_FORMATS: Mapping[tuple[str, str], TableFormat] = {
    ("v1", "Pod"): TableFormat(columns.POD, pod_cells, pod_conditions),
    ("v1", "Node"): TableFormat(columns.NODE, cells.node_cells),
    ("v1", "Namespace"): TableFormat(columns.NAMESPACE, cells.namespace_cells),
    ("v1", "Event"): _EVENT,
    ("v1", "Service"): TableFormat(columns.SERVICE, cells.service_cells),
    ("v1", "Secret"): TableFormat(columns.SECRET, cells.secret_cells),
    ("v1", "ConfigMap"): TableFormat(columns.CONFIG_MAP, cells.config_map_cells),
    ("v1", "PersistentVolumeClaim"): TableFormat(columns.CLAIM, cells.claim_cells),
    ("v1", "PersistentVolume"): TableFormat(columns.VOLUME, cells.volume_cells),
    ("v1", "ServiceAccount"): TableFormat(columns.SERVICE_ACCOUNT, cells.age_cells),
    ("batch/v1", "Job"): TableFormat(columns.JOB, cells.job_cells),
    ("events.k8s.io/v1", "Event"): _EVENT,
    ("coordination.k8s.io/v1", "Lease"): TableFormat(columns.LEASE, cells.lease_cells),
    ("storage.k8s.io/v1", "StorageClass"): TableFormat(columns.STORAGE_CLASS, cells.storage_class_cells),
    ("scheduling.k8s.io/v1", "PriorityClass"): TableFormat(columns.PRIORITY_CLASS, cells.priority_class_cells),
    ("node.k8s.io/v1", "RuntimeClass"): TableFormat(columns.RUNTIME_CLASS, cells.runtime_class_cells),
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): TableFormat(columns.POLICY, cells.policy_cells),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): TableFormat(columns.POLICY_BINDING, cells.policy_binding_cells),
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("v1", "ReplicationController"): _REPLICAS,
    ("apps/v1", "ReplicaSet"): _REPLICAS,
    ("apps/v1", "StatefulSet"): TableFormat(columns.STATEFUL_SET, foreign.stateful_set_cells),
    ("policy/v1", "PodDisruptionBudget"): TableFormat(columns.BUDGET, foreign.budget_cells),
    (_STORAGE, "CSIDriver"): TableFormat(columns.CSI_DRIVER, foreign.csi_driver_cells),
    (_STORAGE, "CSINode"): TableFormat(columns.CSI_NODE, foreign.csi_node_cells),
    (_STORAGE, "CSIStorageCapacity"): TableFormat(columns.CSI_CAPACITY, foreign.csi_capacity_cells),
    (_STORAGE, "VolumeAttachment"): TableFormat(columns.ATTACHMENT, foreign.attachment_cells),
    (_DEVICES, "DeviceClass"): _NAME_AND_AGE,
    (_DEVICES, "ResourceClaim"): TableFormat(columns.RESOURCE_CLAIM, foreign.resource_claim_cells),
    (_DEVICES, "ResourceClaimTemplate"): _NAME_AND_AGE,
    (_DEVICES, "ResourceSlice"): TableFormat(columns.RESOURCE_SLICE, foreign.resource_slice_cells),
}


def table_format(api_version: str, kind: str) -> TableFormat:
    """The table of a built-in kind; those without columns of their own show name and time of creation."""
    return _FORMATS.get((api_version, kind), _DEFAULT)
