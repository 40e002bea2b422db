# SPDX-License-Identifier: Apache-2.0
"""The kinds that checks read, beside those of the contract, as dictionaries; and what tells the manager among them."""

from trainwright.api.base import Resource
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import (
    ConfigMap,
    LimitRange,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Secret,
    Service,
    ServiceAccount,
)
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.kubernetes.scheduling.v1 import PriorityClass
from trainwright.api.objects import Document, labels_of

CONFIG_MAP, SECRET, SERVICE = ConfigMap.RESOURCE, Secret.RESOURCE, Service.RESOURCE
SERVICE_ACCOUNT, CLAIM, NAMESPACE = ServiceAccount.RESOURCE, PersistentVolumeClaim.RESOURCE, Namespace.RESOURCE
NODE, LIMIT_RANGE, LEASE = Node.RESOURCE, LimitRange.RESOURCE, Lease.RESOURCE
PRIORITY_CLASS, RUNTIME_CLASS = PriorityClass.RESOURCE, RuntimeClass.RESOURCE
API_GROUP = Resource(group="", version="v1", kind="APIGroup", plural="apigroups", namespaced=False)
"""A list of it gives the groups that the API server has, with their versions."""


def _of(group: str, kind: str, *, version: str = "v1", namespaced: bool = False) -> Resource:
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    return Resource(group=group, version=version, kind=kind, plural=plural, namespaced=namespaced)


VALIDATING_WEBHOOKS = _of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
MUTATING_WEBHOOKS = _of("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
DEFINITION = _of("apiextensions.k8s.io", "CustomResourceDefinition")
STORAGE_CLASS = _of("storage.k8s.io", "StorageClass")
DEPLOYMENT = _of("apps", "Deployment", namespaced=True)
QUOTA = _of("", "ResourceQuota", namespaced=True)
KUEUE = "kueue.x-k8s.io"
WORKLOAD = _of(KUEUE, "Workload", version="v1beta1", namespaced=True)
LOCAL_QUEUE = _of(KUEUE, "LocalQueue", version="v1beta1", namespaced=True)
CLUSTER_QUEUE = _of(KUEUE, "ClusterQueue", version="v1beta1")
LEASE_NAME = "trainer.kubeflow.org"
DEFAULT_HOME = "kubeflow-system"
"""Where the manager is installed unless another namespace is chosen."""
BY_COMPONENT = "app.kubernetes.io/component=manager"


def is_manager(deployment: Document) -> bool:
    """Whether it is that of a manager of TrainJobs; charts of Kubeflow Trainer give the second name."""
    labels = labels_of(deployment)
    is_ours = labels.get("app.kubernetes.io/name") in ("trainer", "kubeflow-trainer")
    return is_ours and labels.get("app.kubernetes.io/component") == "manager"
