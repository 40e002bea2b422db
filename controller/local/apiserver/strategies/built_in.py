# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds that are served, with their rules. Discovery is made from this table.

CustomResourceDefinition is not in it, nor are the kinds that are answered and not stored, such as reviews.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies import events
from trainwright.controller.local.apiserver.strategies.admission_policies import PolicyBindingStrategy, PolicyStrategy
from trainwright.controller.local.apiserver.strategies.configuration import (
    ConfigMapStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from trainwright.controller.local.apiserver.strategies.devices import (
    CSIDriverStrategy,
    CSINodeStrategy,
    CSIStorageCapacityStrategy,
    DeviceClassStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
    VolumeAttachmentStrategy,
)
from trainwright.controller.local.apiserver.strategies.jobs.strategy import JobStrategy
from trainwright.controller.local.apiserver.strategies.namespaces import NamespaceStrategy
from trainwright.controller.local.apiserver.strategies.nodes import LeaseStrategy, NodeStrategy, RuntimeClassStrategy
from trainwright.controller.local.apiserver.strategies.pods.strategy import PodStrategy
from trainwright.controller.local.apiserver.strategies.rbac import BindingStrategy, RoleStrategy
from trainwright.controller.local.apiserver.strategies.replicas import (
    PodDisruptionBudgetStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)
from trainwright.controller.local.apiserver.strategies.scheduling import LimitRangeStrategy, PriorityClassStrategy
from trainwright.controller.local.apiserver.strategies.services import ServiceStrategy
from trainwright.controller.local.apiserver.strategies.storage import (
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from trainwright.controller.local.apiserver.strategies.strategy import Strategy
from trainwright.controller.local.apiserver.strategies.webhooks import WebhookStrategy

Conversion: TypeAlias = Callable[[Document], Document]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ONE_BY_ONE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_UPDATES = ("get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    """An endpoint below an object. Group and version are empty where they are those of the object's kind."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True)
class BuiltIn:
    """A kind that is served."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    strategy: Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    to_storage: Conversion | None = None
    """Makes the stored form of an object, where this group version is not the one that is stored."""
    from_storage: Conversion | None = None
    """Makes this group version's form of a stored object."""

    @property
    def singular(self) -> str:
        """The name of one object, as kubectl accepts it."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of lists."""
        return f"{self.kind}List"

    @property
    def api_version(self) -> str:
        """The wire form of group and version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def collection(self) -> str:
        """The name under which objects are stored. The two groups that serve events share one."""
        return "events" if self.kind == "Event" else f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def model(self) -> str:
        """The name of the model in `/openapi/v3`."""
        package = self.group.partition(".")[0] or "core"
        return f"io.k8s.api.{package}.{self.version}.{self.kind}"


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _UPDATES)


def _core(
    kind: str,
    strategy: Strategy,
    *short_names: str,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    subresources: tuple[Subresource, ...] = (),
) -> BuiltIn:
    plural = kind.lower() + "s"
    return BuiltIn("", "v1", kind, plural, namespaced, strategy, short_names, categories, verbs, subresources)


_POD_SUBRESOURCES = (
    Subresource("attach", "PodAttachOptions", ("create", "get")),
    Subresource("binding", "Binding", ("create",)),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    _status("Pod"),
)
_EXTENSIONS = ("api-extensions",)
_RBAC = "rbac.authorization.k8s.io"
_STORAGE, _DEVICES = "storage.k8s.io", "resource.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

BUILT_IN: tuple[BuiltIn, ...] = (
    _core("ConfigMap", ConfigMapStrategy(), "cm"),
    _core("Event", events.EventStrategy(), "ev"),
    _core("LimitRange", LimitRangeStrategy(), "limits"),
    _core(
        "Namespace",
        NamespaceStrategy(),
        "ns",
        namespaced=False,
        verbs=_ONE_BY_ONE,
        subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    ),
    _core("Node", NodeStrategy(), "no", namespaced=False, subresources=(_status("Node"),)),
    _core(
        "PersistentVolumeClaim",
        PersistentVolumeClaimStrategy(),
        "pvc",
        subresources=(_status("PersistentVolumeClaim"),),
    ),
    _core(
        "PersistentVolume",
        PersistentVolumeStrategy(),
        "pv",
        namespaced=False,
        subresources=(_status("PersistentVolume"),),
    ),
    _core("Pod", PodStrategy(), "po", categories=("all",), subresources=_POD_SUBRESOURCES),
    _core("Secret", SecretStrategy()),
    _core(
        "ServiceAccount",
        ServiceAccountStrategy(),
        "sa",
        subresources=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    ),
    _core("Service", ServiceStrategy(), "svc", categories=("all",), subresources=(_status("Service"),)),
    BuiltIn("batch", "v1", "Job", "jobs", True, JobStrategy(), (), ("all",), ALL_VERBS, (_status("Job"),)),
    BuiltIn("coordination.k8s.io", "v1", "Lease", "leases", True, LeaseStrategy()),
    BuiltIn(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        True,
        events.NewEventStrategy(),
        ("ev",),
        to_storage=events.to_core,
        from_storage=events.to_events,
    ),
    BuiltIn("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, PriorityClassStrategy(), ("pc",)),
    BuiltIn("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, RuntimeClassStrategy()),
    BuiltIn("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClassStrategy(), ("sc",)),
    BuiltIn(
        _ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
        WebhookStrategy(mutating=True),
        categories=_EXTENSIONS,
    ),
    BuiltIn(
        _ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
        PolicyStrategy(),
        categories=_EXTENSIONS,
        subresources=(_status("ValidatingAdmissionPolicy"),),
    ),
    BuiltIn(
        _ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        False,
        PolicyBindingStrategy(),
        categories=_EXTENSIONS,
    ),
    BuiltIn(
        _ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
        WebhookStrategy(mutating=False),
        categories=_EXTENSIONS,
    ),
    BuiltIn(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, BindingStrategy(namespaced=False)),
    BuiltIn(_RBAC, "v1", "ClusterRole", "clusterroles", False, RoleStrategy(namespaced=False)),
    BuiltIn(_RBAC, "v1", "RoleBinding", "rolebindings", True, BindingStrategy(namespaced=True)),
    BuiltIn(_RBAC, "v1", "Role", "roles", True, RoleStrategy(namespaced=True)),
)

FOR_OTHERS: tuple[BuiltIn, ...] = (
    _core(
        "ReplicationController",
        ReplicationControllerStrategy(),
        "rc",
        categories=("all",),
        subresources=(_status("ReplicationController"),),
    ),
    BuiltIn(
        *("apps", "v1", "ReplicaSet", "replicasets", True, ReplicaSetStrategy(), ("rs",), ("all",)),
        subresources=(_status("ReplicaSet"),),
    ),
    BuiltIn(
        *("apps", "v1", "StatefulSet", "statefulsets", True, StatefulSetStrategy(), ("sts",), ("all",)),
        subresources=(_status("StatefulSet"),),
    ),
    BuiltIn(
        *("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, PodDisruptionBudgetStrategy(), ("pdb",)),
        subresources=(_status("PodDisruptionBudget"),),
    ),
    BuiltIn(_STORAGE, "v1", "CSIDriver", "csidrivers", False, CSIDriverStrategy()),
    BuiltIn(_STORAGE, "v1", "CSINode", "csinodes", False, CSINodeStrategy()),
    BuiltIn(_STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", True, CSIStorageCapacityStrategy()),
    BuiltIn(
        *(_STORAGE, "v1", "VolumeAttachment", "volumeattachments", False, VolumeAttachmentStrategy()),
        subresources=(_status("VolumeAttachment"),),
    ),
    BuiltIn(_DEVICES, "v1", "DeviceClass", "deviceclasses", False, DeviceClassStrategy()),
    BuiltIn(
        *(_DEVICES, "v1", "ResourceClaim", "resourceclaims", True, ResourceClaimStrategy()),
        subresources=(_status("ResourceClaim"),),
    ),
    BuiltIn(_DEVICES, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, ResourceClaimTemplateStrategy()),
    BuiltIn(_DEVICES, "v1", "ResourceSlice", "resourceslices", False, ResourceSliceStrategy()),
)
"""Kinds that nothing in a cluster of this process acts on. The API server alone serves them, for controllers and
schedulers from elsewhere. In a whole cluster a 404 is better than an object that stays without effect."""
