# SPDX-License-Identifier: Apache-2.0
"""Changes of objects, kept for a while: what a watch from an older version is told, and what a list of then shows."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from trainwright.controller.local.apiserver.store.objects import ObjectName, StoredObject

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One change of one object."""

    type: ChangeType
    collection: str
    object: StoredObject
    """The object after the change. Of a deleted one its last state, with the version of the deletion."""
    before: StoredObject | None
    """The object before; None if the change created it."""
    moment: float
    """When it happened, in seconds since the epoch."""

    @property
    def name(self) -> ObjectName:
        """Which object."""
        return self.object.name

    @property
    def version(self) -> int:
        """The version of the cluster with this change."""
        return self.object.version

    @property
    def size(self) -> int:
        """Bytes that it holds in memory."""
        return len(self.object.body) + (len(self.before.body) if self.before else 0)
