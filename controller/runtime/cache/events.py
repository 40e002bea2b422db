# SPDX-License-Identifier: Apache-2.0
"""What a cache tells its handlers: one change of one object."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from trainwright.controller.runtime.objects import AnyObject, Key

T = TypeVar("T", bound=AnyObject)


class EventType(StrEnum):
    """What happened. GENERIC is for sources outside the API server."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    GENERIC = "GENERIC"


@dataclass(slots=True)
class Event(Generic[T]):
    """One change. Handlers share the objects and must not change them."""

    type: EventType
    key: Key
    old: T | None
    """What the watch showed before; None for an addition, and where it is not known."""
    new: T | None
    """What it is now; None for a deletion."""
    initial: bool = False
    """Part of the first list, or replayed to a handler that came later (R-51)."""
    last_known: bool = False
    """A deletion noticed by a list: `old` may be stale (R-55)."""
    undecodable: bool = False
    """The object does not fit its model, so it is given as a plain dictionary."""

    @property
    def obj(self) -> T:
        """The newer of the two objects that is there."""
        obj = self.new if self.new is not None else self.old
        if obj is None:
            raise ValueError(f"event {self.type} {self.key} carries no object")
        return obj


Handler: TypeAlias = Callable[[Event[AnyObject]], None]
"""Called in the reflector's own task, after the cache was updated: must be quick and must not wait."""
