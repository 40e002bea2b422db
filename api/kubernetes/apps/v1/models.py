# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of apps/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class DaemonSetCondition(Struct, kw_only=True):
    """DaemonSetCondition of apps/v1."""

    status: str
    type: str
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class DaemonSetStatus(Struct, kw_only=True):
    """DaemonSetStatus of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    current_number_scheduled: int = field(name="currentNumberScheduled")
    desired_number_scheduled: int = field(name="desiredNumberScheduled")
    number_misscheduled: int = field(name="numberMisscheduled")
    number_ready: int = field(name="numberReady")
    collision_count: int | None = field(name="collisionCount", default=None)
    conditions: list[DaemonSetCondition] | None = None
    number_available: int | None = field(name="numberAvailable", default=None)
    number_unavailable: int | None = field(name="numberUnavailable", default=None)
    observed_generation: int | None = field(name="observedGeneration", default=None)
    updated_number_scheduled: int | None = field(name="updatedNumberScheduled", default=None)


class DeploymentCondition(Struct, kw_only=True):
    """DeploymentCondition of apps/v1."""

    status: str
    type: str
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    last_update_time: str | None = field(name="lastUpdateTime", default=None)
    message: str | None = None
    reason: str | None = None


class DeploymentStatus(Struct, kw_only=True):
    """DeploymentStatus of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    available_replicas: int | None = field(name="availableReplicas", default=None)
    collision_count: int | None = field(name="collisionCount", default=None)
    conditions: list[DeploymentCondition] | None = None
    observed_generation: int | None = field(name="observedGeneration", default=None)
    ready_replicas: int | None = field(name="readyReplicas", default=None)
    replicas: int | None = None
    terminating_replicas: int | None = field(name="terminatingReplicas", default=None)
    unavailable_replicas: int | None = field(name="unavailableReplicas", default=None)
    updated_replicas: int | None = field(name="updatedReplicas", default=None)


class RollingUpdateDaemonSet(Struct, kw_only=True):
    """RollingUpdateDaemonSet of apps/v1."""

    max_surge: int | str | None = field(name="maxSurge", default=None)
    max_unavailable: int | str | None = field(name="maxUnavailable", default=None)


class RollingUpdateDeployment(Struct, kw_only=True):
    """RollingUpdateDeployment of apps/v1."""

    max_surge: int | str | None = field(name="maxSurge", default=None)
    max_unavailable: int | str | None = field(name="maxUnavailable", default=None)


class RollingUpdateStatefulSetStrategy(Struct, kw_only=True):
    """RollingUpdateStatefulSetStrategy of apps/v1."""

    max_unavailable: int | str | None = field(name="maxUnavailable", default=None)
    partition: int | None = None


class StatefulSetCondition(Struct, kw_only=True):
    """StatefulSetCondition of apps/v1."""

    status: str
    type: str
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class StatefulSetOrdinals(Struct, kw_only=True):
    """StatefulSetOrdinals of apps/v1."""

    start: int | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Struct, kw_only=True):
    """StatefulSetPersistentVolumeClaimRetentionPolicy of apps/v1."""

    when_deleted: str | None = field(name="whenDeleted", default=None)
    when_scaled: str | None = field(name="whenScaled", default=None)


class StatefulSetStatus(Struct, kw_only=True):
    """StatefulSetStatus of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",), patch=("merge",), patch_key="type"),
    }

    replicas: int
    available_replicas: int | None = field(name="availableReplicas", default=None)
    collision_count: int | None = field(name="collisionCount", default=None)
    conditions: list[StatefulSetCondition] | None = None
    current_replicas: int | None = field(name="currentReplicas", default=None)
    current_revision: str | None = field(name="currentRevision", default=None)
    observed_generation: int | None = field(name="observedGeneration", default=None)
    ready_replicas: int | None = field(name="readyReplicas", default=None)
    update_revision: str | None = field(name="updateRevision", default=None)
    updated_replicas: int | None = field(name="updatedReplicas", default=None)


class StatefulSetUpdateStrategy(Struct, kw_only=True):
    """StatefulSetUpdateStrategy of apps/v1."""

    rolling_update: RollingUpdateStatefulSetStrategy | None = field(name="rollingUpdate", default=None)
    type: str | None = None

    rolling_update_or_empty = OrEmpty(RollingUpdateStatefulSetStrategy)


class DaemonSetUpdateStrategy(Struct, kw_only=True):
    """DaemonSetUpdateStrategy of apps/v1."""

    rolling_update: RollingUpdateDaemonSet | None = field(name="rollingUpdate", default=None)
    type: str | None = None

    rolling_update_or_empty = OrEmpty(RollingUpdateDaemonSet)


class DeploymentStrategy(Struct, kw_only=True):
    """DeploymentStrategy of apps/v1."""

    rolling_update: RollingUpdateDeployment | None = field(name="rollingUpdate", default=None)
    type: str | None = None

    rolling_update_or_empty = OrEmpty(RollingUpdateDeployment)


class DaemonSetSpec(Struct, kw_only=True):
    """DaemonSetSpec of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "selector": Merge("atomic"),
    }

    selector: meta_v1.LabelSelector
    template: core_v1.PodTemplateSpec
    min_ready_seconds: int | None = field(name="minReadySeconds", default=None)
    revision_history_limit: int | None = field(name="revisionHistoryLimit", default=None)
    update_strategy: DaemonSetUpdateStrategy | None = field(name="updateStrategy", default=None)

    update_strategy_or_empty = OrEmpty(DaemonSetUpdateStrategy)


class DeploymentSpec(Struct, kw_only=True):
    """DeploymentSpec of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "selector": Merge("atomic"),
        "strategy": Merge("granular", patch=("retainKeys",)),
    }

    selector: meta_v1.LabelSelector
    template: core_v1.PodTemplateSpec
    min_ready_seconds: int | None = field(name="minReadySeconds", default=None)
    paused: bool | None = None
    progress_deadline_seconds: int | None = field(name="progressDeadlineSeconds", default=None)
    replicas: int | None = None
    revision_history_limit: int | None = field(name="revisionHistoryLimit", default=None)
    strategy: DeploymentStrategy | None = None

    strategy_or_empty = OrEmpty(DeploymentStrategy)


class StatefulSetSpec(Struct, kw_only=True):
    """StatefulSetSpec of apps/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "selector": Merge("atomic"),
    }

    selector: meta_v1.LabelSelector
    template: core_v1.PodTemplateSpec
    min_ready_seconds: int | None = field(name="minReadySeconds", default=None)
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = field(name="persistentVolumeClaimRetentionPolicy", default=None)
    pod_management_policy: str | None = field(name="podManagementPolicy", default=None)
    replicas: int | None = None
    revision_history_limit: int | None = field(name="revisionHistoryLimit", default=None)
    service_name: str | None = field(name="serviceName", default=None)
    update_strategy: StatefulSetUpdateStrategy | None = field(name="updateStrategy", default=None)
    volume_claim_templates: list[core_v1.PersistentVolumeClaim] | None = field(name="volumeClaimTemplates", default=None)

    ordinals_or_empty = OrEmpty(StatefulSetOrdinals)
    persistent_volume_claim_retention_policy_or_empty = OrEmpty(StatefulSetPersistentVolumeClaimRetentionPolicy)
    update_strategy_or_empty = OrEmpty(StatefulSetUpdateStrategy)


class DaemonSet(Object, kw_only=True):
    """DaemonSet of apps/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="apps",
        version="v1",
        kind="DaemonSet",
        plural="daemonsets",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: DaemonSetSpec | None = None
    status: DaemonSetStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(DaemonSetSpec)
    status_or_empty = OrEmpty(DaemonSetStatus)


class Deployment(Object, kw_only=True):
    """Deployment of apps/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="apps",
        version="v1",
        kind="Deployment",
        plural="deployments",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: DeploymentSpec | None = None
    status: DeploymentStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(DeploymentSpec)
    status_or_empty = OrEmpty(DeploymentStatus)


class StatefulSet(Object, kw_only=True):
    """StatefulSet of apps/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="apps",
        version="v1",
        kind="StatefulSet",
        plural="statefulsets",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: StatefulSetSpec | None = None
    status: StatefulSetStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(StatefulSetSpec)
    status_or_empty = OrEmpty(StatefulSetStatus)
