# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds that are served, with their rules: the recorded ones, and code for those that something acts on.

CustomResourceDefinition is not among them, nor are the kinds that are answered and not stored, such as reviews.
"""

from trainwright.controller.local.apiserver.kinds import others, workloads
from trainwright.controller.local.apiserver.kinds.admission import PolicyStrategy
from trainwright.controller.local.apiserver.kinds.built_in_strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.jobs import JobStrategy
from trainwright.controller.local.apiserver.kinds.managers import BuiltInManagers
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.kinds.registry import Conversion, Resource
from trainwright.controller.local.apiserver.kinds.services import ServiceStrategy
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.kinds.undone import undone
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, recorded

_STRATEGIES: dict[str, type[BuiltInStrategy]] = {
    "v1 Event": others.EventStrategy,
    "v1 LimitRange": others.LimitRangeStrategy,
    "v1 Namespace": others.NamespaceStrategy,
    "v1 Node": others.NodeStrategy,
    "v1 PersistentVolume": others.PersistentVolumeStrategy,
    "v1 PersistentVolumeClaim": others.PersistentVolumeClaimStrategy,
    "v1 Pod": PodStrategy,
    "v1 ReplicationController": workloads.ReplicationControllerStrategy,
    "v1 Secret": others.SecretStrategy,
    "v1 Service": ServiceStrategy,
    "v1 ServiceAccount": others.ServiceAccountStrategy,
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": PolicyStrategy,
    "apps/v1 DaemonSet": workloads.DaemonSetStrategy,
    "apps/v1 StatefulSet": workloads.StatefulSetStrategy,
    "batch/v1 Job": JobStrategy,
    "coordination.k8s.io/v1 Lease": others.LeaseStrategy,
    "events.k8s.io/v1 Event": others.EventStrategy,
    "node.k8s.io/v1 RuntimeClass": others.RuntimeClassStrategy,
}
"""Kinds with code of their own."""
ACTED_ON = frozenset(
    {
        *("ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolumeClaim", "PersistentVolume", "Pod"),
        *("Secret", "ServiceAccount", "Service", "Job", "Lease", "PriorityClass", "RuntimeClass", "StorageClass"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }
)
"""Kinds that something of this process acts on."""
_CONVERSIONS: dict[tuple[str, str], tuple[Conversion, Conversion]] = {
    ("events.k8s.io/v1", "Event"): (others.to_core, others.to_events),
}
"""To the stored form, and back, of versions that are not the one that is stored."""
_NOT_SERVED = frozenset({"ephemeralcontainers", "proxy", "resize"})
"""Subresources of the real server that there are none of."""


def built_in_kinds(*, for_others: bool, rbac: bool = False) -> list[Resource]:
    """All stored kinds but CustomResourceDefinition.

    Args:
        for_others: controllers from elsewhere act on what nothing of this process acts on. Else who writes such an
            object is warned that nothing will happen.
        rbac: roles count.
    """
    return [_built_in(kind, for_others=for_others, rbac=rbac) for kind in recorded().kinds]


def _built_in(kind: RecordedKind, *, for_others: bool, rbac: bool) -> Resource:
    key = (kind.api_version, kind.kind)
    strategy = _STRATEGIES.get(f"{kind.api_version} {kind.kind}", BuiltInStrategy)(kind)
    strategy.undone = undone(kind, acted_on=kind.kind in ACTED_ON, for_others=for_others, rbac=rbac)
    to_storage, from_storage = _CONVERSIONS.get(key, (None, None))
    return resource_of(kind, strategy, to_storage=to_storage, from_storage=from_storage)


def resource_of(
    row: RecordedKind,
    strategy: Strategy,
    *,
    to_storage: Conversion | None = None,
    from_storage: Conversion | None = None,
) -> Resource:
    """A built-in kind as it is served; what of its subresources there is here."""
    subresources = {one.name: one for one in row.subresources if one.name not in _NOT_SERVED}
    return Resource(
        group=row.group,
        version=row.version,
        kind=row.kind,
        plural=row.plural,
        singular=row.singular,
        namespaced=row.namespaced,
        strategy=strategy,
        managers=BuiltInManagers(row, strategy, subresources),
        columns=row.columns,
        verbs=row.verbs,
        subresources=subresources,
        list_kind=row.list_kind,
        short_names=row.short_names,
        categories=row.categories,
        collection=row.collection,
        stored_as=row.stored_as,
        model=row.model,
        selectable=row.selectable,
        warning=row.warning,
        to_storage=to_storage,
        from_storage=from_storage,
    )
