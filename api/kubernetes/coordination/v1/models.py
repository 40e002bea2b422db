# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of coordination.k8s.io/v1; import them from the package."""

from typing import ClassVar

from msgspec import field

from trainwright.api.base import Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class LeaseSpec(Struct, kw_only=True):
    """LeaseSpec of coordination.k8s.io/v1."""

    acquire_time: str | None = field(name="acquireTime", default=None)
    holder_identity: str | None = field(name="holderIdentity", default=None)
    lease_duration_seconds: int | None = field(name="leaseDurationSeconds", default=None)
    lease_transitions: int | None = field(name="leaseTransitions", default=None)
    preferred_holder: str | None = field(name="preferredHolder", default=None)
    renew_time: str | None = field(name="renewTime", default=None)
    strategy: str | None = None


class Lease(Object, kw_only=True):
    """Lease of coordination.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="coordination.k8s.io",
        version="v1",
        kind="Lease",
        plural="leases",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: LeaseSpec | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    spec_or_empty = OrEmpty(LeaseSpec)
