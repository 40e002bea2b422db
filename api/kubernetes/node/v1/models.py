# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of node.k8s.io/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Merge, Object, Resource, Struct, empty
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class Overhead(Struct, kw_only=True):
    """Overhead of node.k8s.io/v1."""

    pod_fixed: dict[str, int | float | str] | None = field(name="podFixed", default=None)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.pod_fixed is not None:
            n.pod_fixed = n.pod_fixed.copy()
        return n


class Scheduling(Struct, kw_only=True):
    """Scheduling of node.k8s.io/v1."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "nodeSelector": Merge("atomic"),
    }

    node_selector: dict[str, str] | None = field(name="nodeSelector", default=None)
    tolerations: list[core_v1.Toleration] | None = None

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.node_selector is not None:
            n.node_selector = n.node_selector.copy()
        if n.tolerations is not None:
            n.tolerations = [x.deepcopy() for x in n.tolerations]
        return n


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

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def overhead_or_empty(self) -> Overhead:
        return self.overhead or empty(Overhead)

    @property
    def scheduling_or_empty(self) -> Scheduling:
        return self.scheduling or empty(Scheduling)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.overhead is not None:
            n.overhead = n.overhead.deepcopy()
        if n.scheduling is not None:
            n.scheduling = n.scheduling.deepcopy()
        return n
