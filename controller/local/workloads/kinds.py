# SPDX-License-Identifier: Apache-2.0
"""The kinds that the controllers of the local cluster read and write.

They are Resources, not models: objects are carried as documents, so that a field that no model knows survives from a
JobSet to its Jobs and to their pods.
"""

from trainwright.api.base import Resource

POD = Resource(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
SERVICE = Resource(group="", version="v1", kind="Service", plural="services", namespaced=True)
NODE = Resource(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
JOB = Resource(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
JOBSET = Resource(group="jobset.x-k8s.io", version="v1alpha2", kind="JobSet", plural="jobsets", namespaced=True)
CLAIM = Resource(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)
DEFINITION = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
NAMESPACE = Resource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
CONFIG_MAP = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
ACCOUNT = Resource(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", namespaced=True)
VOLUME = Resource(group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False)
CLUSTER_ROLE = Resource(
    group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False
)
