# SPDX-License-Identifier: Apache-2.0
"""What becomes of an object, given its owners and its dependents: a pure function.

Source: the garbage collector of Kubernetes 1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from trainwright.api.objects import AnyObject, Document, deletion_timestamp_of, finalizers_of, uid_of
from trainwright.controller.local.workloads.garbage.references import (
    FOREGROUND,
    ORPHAN,
    blocks,
    is_orphaning,
    is_waiting,
    references_of,
    without,
)


class OwnerState(Enum):
    """The state of one owner."""

    SOLID = "solid"
    """It exists."""
    WAITING = "waiting"
    """It is being deleted and waits for its dependents."""
    ABSENT = "absent"
    """No object has its uid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageDecision:
    """What to do, in the order of the fields."""

    references: list[Document] | None = None
    """The owner references that the object has from now on; None: no change."""
    orphans: Sequence[AnyObject] = ()
    """Dependents that lose their reference to the object."""
    look_at: Sequence[AnyObject] = ()
    """Dependents to decide on now."""
    remove_finalizer: str = ""
    delete: Literal["Background", "Foreground", "Orphan"] | None = None


NOTHING = GarbageDecision()


def decide(obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[AnyObject]) -> GarbageDecision:
    """Decide on one object.

    Args:
        obj: the object.
        owners: by uid, the state of each owner; not needed for an object that is being deleted.
        dependents: all objects that name it as an owner.
    """
    if is_orphaning(obj):
        return GarbageDecision(orphans=dependents, remove_finalizer=ORPHAN)
    if is_waiting(obj):
        blocking = [dependent for dependent in dependents if blocks(dependent, uid_of(obj))]
        if not blocking:
            return GarbageDecision(remove_finalizer=FOREGROUND)
        return GarbageDecision(look_at=[dependent for dependent in blocking if not is_waiting(dependent)])
    if deletion_timestamp_of(obj) is not None or not owners:
        return NOTHING
    return _by_owners(obj, owners, dependents)


def _by_owners(obj: AnyObject, owners: Mapping[str, OwnerState], dependents: Sequence[AnyObject]) -> GarbageDecision:
    if OwnerState.SOLID in owners.values():
        gone = [uid for uid, state in owners.items() if state is not OwnerState.SOLID]
        return GarbageDecision(references=without(obj, gone)) if gone else NOTHING
    if OwnerState.WAITING in owners.values() and dependents:
        # A dependent that waits as well may be an owner of this object further up. So that a circle ends, this object
        # holds up no owner.
        circle = any(is_waiting(dependent) for dependent in dependents)
        return GarbageDecision(references=_unblocked(obj) if circle else None, delete="Foreground")
    finalizers = finalizers_of(obj)
    policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    return GarbageDecision(delete=policy)  # type: ignore[arg-type]  # one of the three


def _unblocked(obj: AnyObject) -> list[Document]:
    return [{**reference, "blockOwnerDeletion": False} for reference in references_of(obj)]
