# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds that are served, with their rules: the recorded ones, and code for those that something acts on.

CustomResourceDefinition is not among them, nor are the kinds that are answered and not stored, such as reviews.
"""

from collections.abc import Callable
from functools import partial

from trainwright.controller.local.apiserver.kinds.builtin import checks, events
from trainwright.controller.local.apiserver.kinds.builtin.admission_policies import (
    PolicyBindingStrategy,
    PolicyStrategy,
    mutating_policy_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.configuration import (
    ConfigMapStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from trainwright.controller.local.apiserver.kinds.builtin.jobs.strategy import JobStrategy
from trainwright.controller.local.apiserver.kinds.builtin.managers import BuiltInManagers
from trainwright.controller.local.apiserver.kinds.builtin.namespaces import NamespaceStrategy
from trainwright.controller.local.apiserver.kinds.builtin.nodes import LeaseStrategy, NodeStrategy, RuntimeClassStrategy
from trainwright.controller.local.apiserver.kinds.builtin.pods.strategy import PodStrategy
from trainwright.controller.local.apiserver.kinds.builtin.rbac import BindingStrategy, RoleStrategy
from trainwright.controller.local.apiserver.kinds.builtin.recorded import RecordedStrategy
from trainwright.controller.local.apiserver.kinds.builtin.scheduling import LimitRangeStrategy, PriorityClassStrategy
from trainwright.controller.local.apiserver.kinds.builtin.services import ServiceStrategy
from trainwright.controller.local.apiserver.kinds.builtin.storage import (
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from trainwright.controller.local.apiserver.kinds.builtin.undone import undone
from trainwright.controller.local.apiserver.kinds.builtin.webhooks import WebhookStrategy
from trainwright.controller.local.apiserver.kinds.registry import Conversion, Resource
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published.kinds import (
    RecordedKind,
    recorded,
)

_ADMISSION, _RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"
HOOKS: dict[tuple[str, str], Callable[[RecordedKind], Strategy]] = {
    ("v1", "ConfigMap"): ConfigMapStrategy,
    ("v1", "Event"): events.EventStrategy,
    ("v1", "LimitRange"): LimitRangeStrategy,
    ("v1", "Namespace"): NamespaceStrategy,
    ("v1", "Node"): NodeStrategy,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaimStrategy,
    ("v1", "PersistentVolume"): PersistentVolumeStrategy,
    ("v1", "Pod"): PodStrategy,
    ("v1", "Secret"): SecretStrategy,
    ("v1", "ServiceAccount"): ServiceAccountStrategy,
    ("v1", "Service"): ServiceStrategy,
    ("batch/v1", "Job"): JobStrategy,
    ("coordination.k8s.io/v1", "Lease"): LeaseStrategy,
    ("events.k8s.io/v1", "Event"): events.NewEventStrategy,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClassStrategy,
    ("node.k8s.io/v1", "RuntimeClass"): RuntimeClassStrategy,
    ("storage.k8s.io/v1", "StorageClass"): StorageClassStrategy,
    (_ADMISSION, "MutatingWebhookConfiguration"): WebhookStrategy,
    (_ADMISSION, "ValidatingWebhookConfiguration"): WebhookStrategy,
    (_ADMISSION, "MutatingAdmissionPolicy"): partial(RecordedStrategy, check=mutating_policy_errors),
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): RecordedStrategy,
    (_ADMISSION, "ValidatingAdmissionPolicy"): PolicyStrategy,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): PolicyBindingStrategy,
    (_RBAC, "ClusterRole"): RoleStrategy,
    (_RBAC, "ClusterRoleBinding"): BindingStrategy,
    (_RBAC, "Role"): RoleStrategy,
    (_RBAC, "RoleBinding"): BindingStrategy,
}
"""Kinds that something of this process acts on, with code of their own."""
_CONVERSIONS: dict[tuple[str, str], tuple[Conversion, Conversion]] = {
    ("events.k8s.io/v1", "Event"): (events.to_core, events.to_events),
}
"""To the stored form, and back, of versions that are not the one that is stored."""
_NOT_SERVED = frozenset({"ephemeralcontainers", "proxy", "resize", "scale"})
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
    hook = HOOKS.get(key)
    strategy = hook(kind) if hook is not None else _recorded(kind)
    strategy.undone = undone(kind, acted_on=hook is not None, for_others=for_others, rbac=rbac)
    to_storage, from_storage = _CONVERSIONS.get(key, (None, None))
    return resource_of(kind, strategy, to_storage=to_storage, from_storage=from_storage)


def _recorded(kind: RecordedKind) -> Strategy:
    key = (kind.api_version, kind.kind)
    return RecordedStrategy(kind, checks.CHECKS.get(key), checks.COMPLETED.get(key), checks.AS_RUN.get(key))


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
