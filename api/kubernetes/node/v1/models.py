# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of node.k8s.io/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class Overhead(Struct, kw_only=True):
    """Overhead of node.k8s.io/v1."""

    pod_fixed: dict[str, int | float | str] | None = field(name="podFixed", default=None)


class Scheduling(Struct, kw_only=True):
    """Scheduling of node.k8s.io/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "nodeSelector": Merge("atomic"),
    }

    node_selector: dict[str, str] | None = field(name="nodeSelector", default=None)
    tolerations: list[core_v1.Toleration] | None = None


class RuntimeClass(Object, kw_only=True):
    """RuntimeClass of node.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="node.k8s.io",
        version="v1",
        kind="RuntimeClass",
        plural="runtimeclasses",
        namespaced=False,
    )

    handler: str
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None

    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    overhead_or_empty = OrEmpty(Overhead)
    scheduling_or_empty = OrEmpty(Scheduling)
