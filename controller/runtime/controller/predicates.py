# SPDX-License-Identifier: Apache-2.0
"""Predicates: functions from an event to whether it needs a reconcile.

Those that compare versions of an object check updates only; additions, deletions and generic events pass.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trainwright.api.objects import (
    AnyObject,
    annotations_of,
    deletion_timestamp_of,
    generation_of,
    labels_of,
    resource_version_of,
)
from trainwright.controller.runtime.cache.events import Event
from trainwright.controller.runtime.selectors import parse_label_selector

Predicate: TypeAlias = Callable[[Event[Any]], bool]


def _differs(read: Callable[[AnyObject], object]) -> Predicate:
    def predicate(event: Event[Any]) -> bool:
        if event.old is None or event.new is None:
            return True
        return read(event.old) != read(event.new)

    return predicate


def _spec_version(obj: AnyObject) -> tuple[int, bool]:
    return generation_of(obj), deletion_timestamp_of(obj) is not None


def _mapping(read: Callable[[AnyObject], Mapping[str, str]]) -> Callable[[AnyObject], object]:
    return lambda obj: dict(read(obj))


generation_changed: Predicate = _differs(_spec_version)
"""The spec has changed or deletion has begun. Drops updates of status or metadata. Only for kinds with a generation."""
resource_version_changed: Predicate = _differs(resource_version_of)
labels_changed: Predicate = _differs(_mapping(labels_of))
annotations_changed: Predicate = _differs(_mapping(annotations_of))


def any_of(*predicates: Predicate) -> Predicate:
    return lambda event: any(predicate(event) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """True if all predicates are true; stops at the first that is false."""
    return lambda event: all(predicate(event) for predicate in predicates)


def none_of(*predicates: Predicate) -> Predicate:
    return lambda event: not any(predicate(event) for predicate in predicates)


def labels_match(text: str) -> Predicate:
    """Whether the object (the new one of an update) matches. Raises ConfigurationError for an invalid selector."""
    selector = parse_label_selector(text)
    return lambda event: selector.matches(labels_of(event.obj))
