# SPDX-License-Identifier: Apache-2.0
"""Events of a cache: one change of one object."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from trainwright.api.objects import AnyObject, Key

T = TypeVar("T", bound=AnyObject)


class EventType(StrEnum):
    """The type of a change. GENERIC is for sources other than the API server."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    GENERIC = "GENERIC"


@dataclass(slots=True)
class Event(Generic[T]):
    """One change. Handlers share the objects and must not modify them."""

    type: EventType
    key: Key
    old: T | None
    """The previous state; None for an addition, or if unknown."""
    new: T | None
    """The current state; None for a deletion."""
    initial: bool = False
    """Part of the first list, or replayed to a handler that was added later."""
    last_known: bool = False
    """A deletion that a list revealed: `old` may be stale."""
    undecodable: bool = False
    """The object does not fit its model and is a dictionary."""

    @property
    def obj(self) -> T:
        """The current state, or the previous one after a deletion."""
        obj = self.new if self.new is not None else self.old
        if obj is None:
            raise ValueError(f"event {self.type} {self.key} has no object")
        return obj


Handler: TypeAlias = Callable[[Event[AnyObject]], None]
"""Called in the task of the reflector after the cache is updated. Must be quick and must not block."""
