# SPDX-License-Identifier: Apache-2.0
"""From a change of one object to the keys that have to be looked at because of it (K-14 to K-18)."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from trainwright.api.base import Resource
from trainwright.controller.runtime.cache.events import Event
from trainwright.controller.runtime.objects import AnyObject, Key, key_of, namespace_of, owners_of

Mapper: TypeAlias = Callable[[Any], Iterable[Key]]
"""Gets one object; on an update it is called for the old and for the new one."""


def itself(obj: AnyObject) -> Iterable[Key]:
    """The object's own key."""
    return (key_of(obj),)


def owner(resource: Resource, *, every: bool = False) -> Mapper:
    """The keys of owners of this kind; only the controlling one unless `every`. The version is not compared (K-15)."""

    def mapper(obj: AnyObject) -> Iterable[Key]:
        namespace = namespace_of(obj) if resource.namespaced else ""
        return [
            Key(namespace, reference.name)
            for reference in owners_of(obj)
            if (every or reference.controller) and reference.kind == resource.kind and reference.group == resource.group
        ]

    return mapper


def keys_of(event: Event[Any], mapper: Mapper) -> list[Key]:
    """All keys for an event, each once, those of the old object first."""
    keys: dict[Key, None] = {}
    if event.old is not None:
        keys.update(dict.fromkeys(mapper(event.old)))
    if event.new is not None:
        keys.update(dict.fromkeys(mapper(event.new)))
    return list(keys)
