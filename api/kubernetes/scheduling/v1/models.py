# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of scheduling.k8s.io/v1; import them from the package."""

from typing import ClassVar

from msgspec import field

from trainwright.api.base import Object, OrEmpty, Resource
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class PriorityClass(Object, kw_only=True):
    """PriorityClass of scheduling.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="scheduling.k8s.io",
        version="v1",
        kind="PriorityClass",
        plural="priorityclasses",
        namespaced=False,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    description: str | None = None
    global_default: bool | None = field(name="globalDefault", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    preemption_policy: str | None = field(name="preemptionPolicy", default=None)
    value: int | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
