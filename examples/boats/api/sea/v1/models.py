# SPDX-License-Identifier: Apache-2.0
# Generated from schemas by `trainwright generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of sea.example.com/v1; import them from the package."""

from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Object, Resource, Struct, empty
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class BoatSpec(Struct, kw_only=True):
    """Desired state of the boat."""

    length: str | None = None
    """Number and unit, such as `30 ft`."""


class Boat(Object, kw_only=True):
    """A boat, as it was written until 2026."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="sea.example.com",
        version="v1",
        kind="Boat",
        plural="boats",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: BoatSpec | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> BoatSpec:
        return self.spec or empty(BoatSpec)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        return n
