# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of scheduling.x-k8s.io/v1alpha1; import them from the package."""

from typing import ClassVar

from msgspec import field

from trainwright.api.base import Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class PodGroupSpec(Struct, kw_only=True):
    """How many pods belong together."""

    min_member: int | None = field(name="minMember", default=None)
    """Pods that must be schedulable before any of them is scheduled."""
    min_resources: dict[str, int | float | str] | None = field(name="minResources", default=None)
    """Resources that must be free before any of them is scheduled."""
    schedule_timeout_seconds: int | None = field(name="scheduleTimeoutSeconds", default=None)
    """Seconds that the pods may wait for each other."""


class PodGroupStatus(Struct, kw_only=True):
    """Current state of the PodGroup."""

    phase: str | None = None
    """How far the group has come."""
    occupied_by: str | None = field(name="occupiedBy", default=None)
    """The object that the group belongs to."""
    running: int | None = None
    """Pods that run."""
    succeeded: int | None = None
    """Pods that ended well."""
    failed: int | None = None
    """Pods that failed."""
    schedule_start_time: str | None = field(name="scheduleStartTime", default=None)
    """When scheduling began."""


class PodGroup(Object, kw_only=True):
    """Pods that the coscheduling plugin schedules together."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="scheduling.x-k8s.io",
        version="v1alpha1",
        kind="PodGroup",
        plural="podgroups",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: PodGroupSpec | None = None
    """How many pods belong together."""
    status: PodGroupStatus | None = None
    """What has been observed; written by the scheduler plugins."""

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(PodGroupSpec)
    status_or_empty = OrEmpty(PodGroupStatus)
