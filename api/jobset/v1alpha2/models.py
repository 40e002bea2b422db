# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of jobset.x-k8s.io/v1alpha2; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.batch.v1 import models as batch_v1
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class Coordinator(Struct, kw_only=True):
    """The pod whose address every pod is told."""

    replicated_job: str = field(name="replicatedJob")
    """Its replicated job."""
    job_index: int | None = field(name="jobIndex", default=None)
    """Its Job in there."""
    pod_index: int | None = field(name="podIndex", default=None)
    """Its pod in there."""


class DependsOn(Struct, kw_only=True):
    """A replicated job and the state to wait for."""

    name: str
    """Name of the other replicated job."""
    status: str
    """The state to wait for."""


class FailurePolicyRule(Struct, kw_only=True):
    """What a certain failure leads to."""

    name: str
    """Name of the rule."""
    action: str
    """What is done."""
    on_job_failure_reasons: list[str] | None = field(name="onJobFailureReasons", default=None)
    """Reasons of the failed Job that the rule is for. Unset means all."""
    on_job_failure_message_patterns: list[str] | None = field(name="onJobFailureMessagePatterns", default=None)
    """Patterns of which the message of the failed Job must match one."""
    target_replicated_jobs: list[str] | None = field(name="targetReplicatedJobs", default=None)
    """Replicated jobs that the rule is for. Unset means all."""


class Network(Struct, kw_only=True):
    """How pods find each other."""

    enable_dns_hostnames: bool | None = field(name="enableDNSHostnames", default=None)
    """Whether pods have host names."""
    subdomain: str | None = None
    """Subdomain of these names. Unset means the name of the set."""
    publish_not_ready_addresses: bool | None = field(name="publishNotReadyAddresses", default=None)
    """Whether pods are found before they are ready."""


class ReplicatedJobStatus(Struct, kw_only=True):
    """How many Jobs of a replicated job are in which state."""

    name: str
    """Name of the replicated job."""
    ready: int
    """Jobs whose pods are all ready or done."""
    succeeded: int
    """Jobs that ended well."""
    failed: int
    """Jobs that failed."""
    active: int
    """Jobs with at least one pod that is pending or running."""
    suspended: int
    """Jobs that are suspended."""
    job_restarts: list[int] | None = field(name="jobRestarts", default=None)
    """How often each Job was restarted."""
    job_restarts_count_towards_max: list[int] | None = field(name="jobRestartsCountTowardsMax", default=None)
    """How many of these count against the limit."""


class StartupPolicy(Struct, kw_only=True):
    """The order in which replicated jobs start."""

    startup_policy_order: str = field(name="startupPolicyOrder")
    """AnyOrder, or InOrder for one after the other as listed."""


class SuccessPolicy(Struct, kw_only=True):
    """When the set counts as done."""

    operator: str
    """Whether all of the Jobs must end well, or any."""
    target_replicated_jobs: list[str] | None = field(name="targetReplicatedJobs", default=None)
    """The replicated jobs that count. Unset means all."""


class VolumeRetentionPolicy(Struct, kw_only=True):
    """What becomes of volume claims."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "when_deleted": "Delete",
    }

    when_deleted: str | None = field(name="whenDeleted", default=None)
    """What becomes of them when the set is deleted."""


class FailurePolicy(Struct, kw_only=True):
    """What a failed Job leads to."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "restart_strategy": "Recreate",
    }

    max_restarts: int | None = field(name="maxRestarts", default=None)
    """How often the set may be restarted."""
    restart_strategy: str | None = field(name="restartStrategy", default=None)
    """How it is restarted."""
    rules: list[FailurePolicyRule] | None = None
    """Rules in the order in which they are tried."""


class JobSetStatus(Struct, kw_only=True):
    """Current state of the JobSet."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "conditions": Merge("map", keys=("type",)),
        "replicatedJobsStatus": Merge("map", keys=("name",)),
    }

    conditions: list[meta_v1.Condition] | None = None
    """Completed, Failed, Suspended and others."""
    restarts: int | None = None
    """How often the set was restarted."""
    restarts_count_towards_max: int | None = field(name="restartsCountTowardsMax", default=None)
    """How many of these count against the limit."""
    terminal_state: str | None = field(name="terminalState", default=None)
    """Completed or Failed once the set has ended."""
    replicated_jobs_status: list[ReplicatedJobStatus] | None = field(name="replicatedJobsStatus", default=None)
    """Counters of each replicated job."""
    previous_in_place_restart_attempt: int | None = field(name="previousInPlaceRestartAttempt", default=None)
    """The last attempt to restart in place that all pods took part in."""
    current_in_place_restart_attempt: int | None = field(name="currentInPlaceRestartAttempt", default=None)
    """The attempt to restart in place that is under way."""


class VolumeClaimPolicy(Struct, kw_only=True):
    """Volume claims and what becomes of them."""

    templates: list[core_v1.PersistentVolumeClaim] | None = None
    """The claims."""
    retention_policy: VolumeRetentionPolicy | None = field(name="retentionPolicy", default=None)
    """What becomes of the claims."""

    retention_policy_or_empty = OrEmpty(VolumeRetentionPolicy)


class ReplicatedJob(Struct, kw_only=True):
    """One Job template and its number of copies."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "dependsOn": Merge("map", keys=("name",)),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "group_name": "default",
        "replicas": 1,
    }

    name: str
    """Name within the set."""
    template: batch_v1.JobTemplateSpec
    """What each Job is made from."""
    group_name: str | None = field(name="groupName", default=None)
    """Group that the job belongs to."""
    replicas: int | None = None
    """Number of Jobs."""
    depends_on: list[DependsOn] | None = field(name="dependsOn", default=None)
    """Replicated jobs that must have come so far before this one starts."""


class JobSetSpec(Struct, kw_only=True):
    """The Jobs of a set and how they belong together."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "replicatedJobs": Merge("map", keys=("name",), patch=("merge",), patch_key="name"),
    }

    replicated_jobs: list[ReplicatedJob] | None = field(name="replicatedJobs", default=None)
    """Job templates with their number of copies."""
    network: Network | None = None
    """How pods find each other."""
    success_policy: SuccessPolicy | None = field(name="successPolicy", default=None)
    """When the set counts as done."""
    failure_policy: FailurePolicy | None = field(name="failurePolicy", default=None)
    """What a failed Job leads to."""
    startup_policy: StartupPolicy | None = field(name="startupPolicy", default=None)
    """The order in which replicated jobs start."""
    suspend: bool | None = None
    """True keeps all Jobs suspended."""
    coordinator: Coordinator | None = None
    """The pod whose address every pod is told."""
    managed_by: str | None = field(name="managedBy", default=None)
    """The controller that is responsible for the set."""
    ttl_seconds_after_finished: int | None = field(name="ttlSecondsAfterFinished", default=None)
    """Seconds after its end at which the set is deleted."""
    volume_claim_policies: list[VolumeClaimPolicy] | None = field(name="volumeClaimPolicies", default=None)
    """Volume claims that are made with the set."""

    network_or_empty = OrEmpty(Network)
    success_policy_or_empty = OrEmpty(SuccessPolicy)
    failure_policy_or_empty = OrEmpty(FailurePolicy)
    startup_policy_or_empty = OrEmpty(StartupPolicy)
    coordinator_or_empty = OrEmpty(Coordinator)


class JobSet(Object, kw_only=True):
    """A set of Jobs that start, fail and end together."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="jobset.x-k8s.io",
        version="v1alpha2",
        kind="JobSet",
        plural="jobsets",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: JobSetSpec | None = None
    """The Jobs and how they belong together."""
    status: JobSetStatus | None = None
    """What has been observed; written by the JobSet controller."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(JobSetSpec)
    status_or_empty = OrEmpty(JobSetStatus)
