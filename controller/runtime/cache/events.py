# SPDX-License-Identifier: Apache-2.0
"""Events of a cache: one change of one object, and the order of their resource versions.

A resource version is opaque. Two versions of one resource can be ordered if both are positive decimal numbers without
leading zeros. Others cannot be compared; callers then choose the safe way.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

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


def compare(a: str, b: str) -> int | None:
    """-1, 0 or 1 if `a` is older than, equal to or newer than `b`; None if they cannot be compared."""
    canonical = (a.isascii() and a.isdigit() and a[0] != "0") and (b.isascii() and b.isdigit() and b[0] != "0")
    if not canonical:
        return 0 if a and a == b else None
    if len(a) != len(b):
        return 1 if len(a) > len(b) else -1
    return (a > b) - (a < b)


def at_least(a: str, b: str) -> bool:
    """Whether `a` is known to be `b` or newer."""
    order = compare(a, b)
    return order is not None and order >= 0
