# SPDX-License-Identifier: Apache-2.0
"""Which changes are worth a reconcile: plain functions from an event to yes or no (K-10 to K-13).

Those that compare versions of an object judge updates only; additions, deletions and generic events pass.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trainwright.controller.runtime.cache.events import Event
from trainwright.controller.runtime.objects import (
    AnyObject,
    annotations_of,
    deletion_timestamp_of,
    generation_of,
    labels_of,
    resource_version_of,
)
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
"""The spec changed or deletion began; drops updates of status and metadata alone. Only for kinds with a generation."""
resource_version_changed: Predicate = _differs(resource_version_of)
labels_changed: Predicate = _differs(_mapping(labels_of))
annotations_changed: Predicate = _differs(_mapping(annotations_of))


def any_of(*predicates: Predicate) -> Predicate:
    """True if one is."""
    return lambda event: any(predicate(event) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """True if all are; the first that is not ends it."""
    return lambda event: all(predicate(event) for predicate in predicates)


def none_of(*predicates: Predicate) -> Predicate:
    """True if none is."""
    return lambda event: not any(predicate(event) for predicate in predicates)


def label_selector(text: str) -> Predicate:
    """The object (the new one on an update) has these labels. Raises ConfigurationError for a wrong selector."""
    selector = parse_label_selector(text)
    return lambda event: selector.matches(labels_of(event.obj))
