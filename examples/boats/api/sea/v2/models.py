# SPDX-License-Identifier: Apache-2.0
# Generated from schemas by `trainwright generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of sea.example.com/v2; import them from the package."""

from typing import ClassVar, Self

from msgspec import field

from trainwright.api.base import Object, Resource, Struct, empty
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class BoatSpec(Struct, kw_only=True):
    """Desired state of the boat."""

    meters: float | None = None
    """Its length."""
    crew: int | None = None
    """Sailors that it needs."""

    def set_defaults(self) -> None:
        if self.crew is None:
            self.crew = 1


class BoatStatus(Struct, kw_only=True):
    """Observed state of the boat."""

    aboard: int | None = None
    """Sailors that are aboard."""


class Boat(Object, kw_only=True):
    """A boat."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="sea.example.com",
        version="v2",
        kind="Boat",
        plural="boats",
        namespaced=True,
    )

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    spec: BoatSpec | None = None
    status: BoatStatus | None = None

    @property
    def metadata_or_empty(self) -> meta_v1.ObjectMeta:
        return self.metadata or empty(meta_v1.ObjectMeta)

    @property
    def spec_or_empty(self) -> BoatSpec:
        return self.spec or empty(BoatSpec)

    @property
    def status_or_empty(self) -> BoatStatus:
        return self.status or empty(BoatStatus)

    def deepcopy(self) -> Self:
        n = self.__copy__()
        if n.metadata is not None:
            n.metadata = n.metadata.deepcopy()
        if n.spec is not None:
            n.spec = n.spec.deepcopy()
        if n.status is not None:
            n.status = n.status.deepcopy()
        return n

    def set_defaults(self) -> None:
        if self.spec is not None:
            self.spec.set_defaults()
