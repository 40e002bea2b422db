# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of batch/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class JobCondition(Struct, kw_only=True):
    """JobCondition of batch/v1."""

    status: str
    type: str
    last_probe_time: str | None = field(name="lastProbeTime", default=None)
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    message: str | None = None
    reason: str | None = None


class PodFailurePolicyOnExitCodesRequirement(Struct, kw_only=True):
    """PodFailurePolicyOnExitCodesRequirement of batch/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "values": Merge("set"),
    }

    operator: str
    values: list[int]
    container_name: str | None = field(name="containerName", default=None)


class PodFailurePolicyOnPodConditionsPattern(Struct, kw_only=True):
    """PodFailurePolicyOnPodConditionsPattern of batch/v1."""

    type: str
    status: str | None = None


class PodFailurePolicyRule(Struct, kw_only=True):
    """PodFailurePolicyRule of batch/v1."""

    action: str
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = field(name="onExitCodes", default=None)
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] | None = field(name="onPodConditions", default=None)

    on_exit_codes_or_empty = OrEmpty(PodFailurePolicyOnExitCodesRequirement)


class SuccessPolicyRule(Struct, kw_only=True):
    """SuccessPolicyRule of batch/v1."""

    succeeded_count: int | None = field(name="succeededCount", default=None)
    succeeded_indexes: str | None = field(name="succeededIndexes", default=None)


class UncountedTerminatedPods(Struct, kw_only=True):
    """UncountedTerminatedPods of batch/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "failed": Merge("set"),
        "succeeded": Merge("set"),
    }

    failed: list[str] | None = None
    succeeded: list[str] | None = None


class JobStatus(Struct, kw_only=True):
    """JobStatus of batch/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("atomic", patch=("merge",), patch_key="type"),
    }

    active: int | None = None
    completed_indexes: str | None = field(name="completedIndexes", default=None)
    completion_time: str | None = field(name="completionTime", default=None)
    conditions: list[JobCondition] | None = None
    failed: int | None = None
    failed_indexes: str | None = field(name="failedIndexes", default=None)
    ready: int | None = None
    start_time: str | None = field(name="startTime", default=None)
    succeeded: int | None = None
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = field(name="uncountedTerminatedPods", default=None)

    uncounted_terminated_pods_or_empty = OrEmpty(UncountedTerminatedPods)


class PodFailurePolicy(Struct, kw_only=True):
    """PodFailurePolicy of batch/v1."""

    rules: list[PodFailurePolicyRule]


class SuccessPolicy(Struct, kw_only=True):
    """SuccessPolicy of batch/v1."""

    rules: list[SuccessPolicyRule]


class JobSpec(Struct, kw_only=True):
    """JobSpec of batch/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "selector": Merge("atomic"),
    }

    template: core_v1.PodTemplateSpec
    active_deadline_seconds: int | None = field(name="activeDeadlineSeconds", default=None)
    backoff_limit: int | None = field(name="backoffLimit", default=None)
    backoff_limit_per_index: int | None = field(name="backoffLimitPerIndex", default=None)
    completion_mode: str | None = field(name="completionMode", default=None)
    completions: int | None = None
    managed_by: str | None = field(name="managedBy", default=None)
    manual_selector: bool | None = field(name="manualSelector", default=None)
    max_failed_indexes: int | None = field(name="maxFailedIndexes", default=None)
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = field(name="podFailurePolicy", default=None)
    pod_replacement_policy: str | None = field(name="podReplacementPolicy", default=None)
    selector: meta_v1.LabelSelector | None = None
    success_policy: SuccessPolicy | None = field(name="successPolicy", default=None)
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = field(name="ttlSecondsAfterFinished", default=None)

    pod_failure_policy_or_empty = OrEmpty(PodFailurePolicy)
    selector_or_empty = OrEmpty(meta_v1.LabelSelector)
    success_policy_or_empty = OrEmpty(SuccessPolicy)


class JobTemplateSpec(Struct, kw_only=True):
    """JobTemplateSpec of batch/v1."""

    metadata: meta_v1.ObjectMeta | None = None
    spec: JobSpec | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(JobSpec)


class Job(Object, kw_only=True):
    """Job of batch/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="batch",
        version="v1",
        kind="Job",
        plural="jobs",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: JobSpec | None = None
    status: JobStatus | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(JobSpec)
    status_or_empty = OrEmpty(JobStatus)
