# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of meta/v1; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from trainwright.api.base import Merge, OrEmpty, Struct


class Condition(Struct, kw_only=True):
    """Condition of meta/v1."""

    last_transition_time: str = field(name="lastTransitionTime")
    message: str
    reason: str
    status: str
    type: str
    observed_generation: int | None = field(name="observedGeneration", default=None)


class FieldSelectorRequirement(Struct, kw_only=True):
    """FieldSelectorRequirement of meta/v1."""

    key: str
    operator: str
    values: list[str] | None = None


class GroupVersionKind(Struct, kw_only=True):
    """GroupVersionKind of meta/v1."""

    group: str
    version: str
    kind: str


class GroupVersionResource(Struct, kw_only=True):
    """GroupVersionResource of meta/v1."""

    group: str
    version: str
    resource: str


class LabelSelectorRequirement(Struct, kw_only=True):
    """LabelSelectorRequirement of meta/v1."""

    key: str
    operator: str
    values: list[str] | None = None


class ManagedFieldsEntry(Struct, kw_only=True):
    """ManagedFieldsEntry of meta/v1."""

    api_version: str | None = field(name="apiVersion", default=None)
    fields_type: str | None = field(name="fieldsType", default=None)
    fields_v1: dict[str, Any] | None = field(name="fieldsV1", default=None)
    manager: str | None = None
    operation: str | None = None
    subresource: str | None = None
    time: str | None = None


class OwnerReference(Struct, kw_only=True):
    """OwnerReference of meta/v1."""

    api_version: str = field(name="apiVersion")
    kind: str
    name: str
    uid: str
    block_owner_deletion: bool | None = field(name="blockOwnerDeletion", default=None)
    controller: bool | None = None


class Preconditions(Struct, kw_only=True):
    """Preconditions of meta/v1."""

    resource_version: str | None = field(name="resourceVersion", default=None)
    uid: str | None = None


class ShardInfo(Struct, kw_only=True):
    """ShardInfo of meta/v1."""

    selector: str


class StatusCause(Struct, kw_only=True):
    """StatusCause of meta/v1."""

    field_: str | None = field(name="field", default=None)
    message: str | None = None
    reason: str | None = None


class StatusDetails(Struct, kw_only=True):
    """StatusDetails of meta/v1."""

    causes: list[StatusCause] | None = None
    group: str | None = None
    kind: str | None = None
    name: str | None = None
    retry_after_seconds: int | None = field(name="retryAfterSeconds", default=None)
    uid: str | None = None


class DeleteOptions(Struct, kw_only=True):
    """DeleteOptions of meta/v1."""

    api_version: str | None = field(name="apiVersion", default=None)
    dry_run: list[str] | None = field(name="dryRun", default=None)
    grace_period_seconds: int | None = field(name="gracePeriodSeconds", default=None)
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = field(name="ignoreStoreReadErrorWithClusterBreakingPotential", default=None)
    kind: str | None = None
    orphan_dependents: bool | None = field(name="orphanDependents", default=None)
    preconditions: Preconditions | None = None
    propagation_policy: str | None = field(name="propagationPolicy", default=None)

    preconditions_or_empty = OrEmpty(Preconditions)


class LabelSelector(Struct, kw_only=True):
    """LabelSelector of meta/v1."""

    match_expressions: list[LabelSelectorRequirement] | None = field(name="matchExpressions", default=None)
    match_labels: dict[str, str] | None = field(name="matchLabels", default=None)


class ListMeta(Struct, kw_only=True):
    """ListMeta of meta/v1."""

    continue_: str | None = field(name="continue", default=None)
    remaining_item_count: int | None = field(name="remainingItemCount", default=None)
    resource_version: str | None = field(name="resourceVersion", default=None)
    self_link: str | None = field(name="selfLink", default=None)
    shard_info: ShardInfo | None = field(name="shardInfo", default=None)

    shard_info_or_empty = OrEmpty(ShardInfo)


class ObjectMeta(Struct, kw_only=True):
    """ObjectMeta of meta/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "finalizers": Merge("set", patch=("merge",)),
        "ownerReferences": Merge("map", keys=("uid",), patch=("merge",), patch_key="uid"),
    }

    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = field(name="creationTimestamp", default=None)
    deletion_grace_period_seconds: int | None = field(name="deletionGracePeriodSeconds", default=None)
    deletion_timestamp: str | None = field(name="deletionTimestamp", default=None)
    finalizers: list[str] | None = None
    generate_name: str | None = field(name="generateName", default=None)
    generation: int | None = None
    labels: dict[str, str] | None = None
    managed_fields: list[ManagedFieldsEntry] | None = field(name="managedFields", default=None)
    name: str | None = None
    namespace: str | None = None
    owner_references: list[OwnerReference] | None = field(name="ownerReferences", default=None)
    resource_version: str | None = field(name="resourceVersion", default=None)
    self_link: str | None = field(name="selfLink", default=None)
    uid: str | None = None


class Status(Struct, kw_only=True):
    """Status of meta/v1."""

    api_version: str | None = field(name="apiVersion", default=None)
    code: int | None = None
    details: StatusDetails | None = None
    kind: str | None = None
    message: str | None = None
    metadata: ListMeta | None = None
    reason: str | None = None
    status: str | None = None

    details_or_empty = OrEmpty(StatusDetails)
    metadata_or_empty = OrEmpty(ListMeta)
