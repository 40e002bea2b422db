# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of scheduling.volcano.sh/v1beta1; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class NetworkTopologySpec(Struct, kw_only=True):
    """A limit on the distance of pods in the network."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "mode": "hard",
    }

    mode: str | None = None
    """Whether the limit must be kept (hard) or should be (soft)."""
    highest_tier_allowed: int | None = field(name="highestTierAllowed", default=None)
    """The highest tier that the pods may span."""
    highest_tier_name: str | None = field(name="highestTierName", default=None)
    """The name of that tier."""


class PodGroupCondition(Struct, kw_only=True):
    """One statement on the group."""

    type: str | None = None
    """What the statement is about."""
    status: str | None = None
    """Whether it holds."""
    transition_id: str | None = field(name="transitionID", default=None)
    """The scheduling cycle in which it changed."""
    last_transition_time: str | None = field(name="lastTransitionTime", default=None)
    """When it changed."""
    reason: str | None = None
    """Why, in one word."""
    message: str | None = None
    """Why, in a sentence."""


class PodGroupStatus(Struct, kw_only=True):
    """Current state of the PodGroup."""

    phase: str | None = None
    """How far the group has come."""
    conditions: list[PodGroupCondition] | None = None
    """Why the group is where it is."""
    running: int | None = None
    """Pods that run."""
    succeeded: int | None = None
    """Pods that ended well."""
    failed: int | None = None
    """Pods that failed."""


class SubGroupPolicySpec(Struct, kw_only=True):
    """Pods of the group that must be near to each other."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "labelSelector": Merge("atomic"),
    }

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "sub_group_size": 1,
        "min_sub_groups": 0,
    }

    name: str | None = None
    """Name of the policy."""
    label_selector: meta_v1.LabelSelector | None = field(name="labelSelector", default=None)
    """The pods that the policy is for."""
    match_label_keys: list[str] | None = field(name="matchLabelKeys", default=None)
    """Labels whose equal values make a sub-group."""
    sub_group_size: int | None = field(name="subGroupSize", default=None)
    """Pods in each sub-group."""
    min_sub_groups: int | None = field(name="minSubGroups", default=None)
    """Sub-groups that must be schedulable."""
    network_topology: NetworkTopologySpec | None = field(name="networkTopology", default=None)
    """How near to each other in the network the pods of a sub-group must be."""

    label_selector_or_empty = OrEmpty(meta_v1.LabelSelector)
    network_topology_or_empty = OrEmpty(NetworkTopologySpec)


class PodGroupSpec(Struct, kw_only=True):
    """How many pods belong together, and where they may go."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "queue": "default",
    }

    min_member: int | None = field(name="minMember", default=None)
    """Pods that must be schedulable before any of them is scheduled."""
    min_task_member: dict[str, int] | None = field(name="minTaskMember", default=None)
    """The same, task by task."""
    min_resources: dict[str, int | float | str] | None = field(name="minResources", default=None)
    """Resources that must be free before any of them is scheduled."""
    queue: str | None = None
    """The queue that the pods wait in."""
    priority_class_name: str | None = field(name="priorityClassName", default=None)
    """Priority class of the group."""
    network_topology: NetworkTopologySpec | None = field(name="networkTopology", default=None)
    """How near to each other in the network the pods must be."""
    sub_group_policy: list[SubGroupPolicySpec] | None = field(name="subGroupPolicy", default=None)
    """Parts of the group that must be near to each other."""

    network_topology_or_empty = OrEmpty(NetworkTopologySpec)


class PodGroup(Object, kw_only=True):
    """Pods that Volcano schedules together."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="scheduling.volcano.sh",
        version="v1beta1",
        kind="PodGroup",
        plural="podgroups",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: PodGroupSpec | None = None
    """How many pods belong together, and where they may go."""
    status: PodGroupStatus | None = None
    """What has been observed; written by Volcano."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PodGroupSpec)
    status_or_empty = OrEmpty(PodGroupStatus)
