# SPDX-License-Identifier: Apache-2.0
"""The kinds that causes show in, beside those of the contract. All are read as dictionaries."""

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

CONFIG_MAP, SECRET, SERVICE = ConfigMap.RESOURCE, Secret.RESOURCE, Service.RESOURCE
SERVICE_ACCOUNT, CLAIM, NAMESPACE = ServiceAccount.RESOURCE, PersistentVolumeClaim.RESOURCE, Namespace.RESOURCE
NODE, LIMIT_RANGE, LEASE = Node.RESOURCE, LimitRange.RESOURCE, Lease.RESOURCE
PRIORITY_CLASS, RUNTIME_CLASS = PriorityClass.RESOURCE, RuntimeClass.RESOURCE
QUOTA = Resource(group="", version="v1", kind="ResourceQuota", plural="resourcequotas", namespaced=True)
DEPLOYMENT = Resource(group="apps", version="v1", kind="Deployment", plural="deployments", namespaced=True)
VALIDATING_WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
)
STORAGE_CLASS = Resource(
    group="storage.k8s.io", version="v1", kind="StorageClass", plural="storageclasses", namespaced=False
)


def _kueue(kind: str, plural: str, *, namespaced: bool) -> Resource:
    return Resource(group="kueue.x-k8s.io", version="v1beta1", kind=kind, plural=plural, namespaced=namespaced)


WORKLOAD = _kueue("Workload", "workloads", namespaced=True)
LOCAL_QUEUE = _kueue("LocalQueue", "localqueues", namespaced=True)
CLUSTER_QUEUE = _kueue("ClusterQueue", "clusterqueues", namespaced=False)
