# SPDX-License-Identifier: Apache-2.0
"""Maps a change of an object to the keys to reconcile."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Key, controller_of, key_of, namespace_of, owners_of
from trainwright.controller.runtime.cache.events import Event

Mapper: TypeAlias = Callable[[Any], Iterable[Key]]
"""Takes one object. For an update it is called with the old and with the new object."""


def own_key(obj: AnyObject) -> Iterable[Key]:
    """The object's own key."""
    return (key_of(obj),)


def keys_of_owner(resource: Resource, *, every: bool = False) -> Mapper:
    """The keys of the owners of this kind; only the controlling owner unless `every`. Ignores the API version."""

    kind, group, namespaced = resource.kind, resource.group, resource.namespaced

    def mapper(obj: AnyObject) -> Iterable[Key]:
        controller = None if every else controller_of(obj)
        owners = owners_of(obj) if every else (controller,) if controller is not None else ()
        return [
            Key(namespace_of(obj) if namespaced else "", reference.name)
            for reference in owners
            if reference.kind == kind and reference.group == group
        ]

    return mapper


def keys_of(event: Event[Any], mapper: Mapper) -> list[Key]:
    """All keys of an event, each once; those of the old object come first."""
    before = mapper(event.old) if event.old is not None else ()
    after = mapper(event.new) if event.new is not None else ()
    return list(dict.fromkeys((*before, *after)))
